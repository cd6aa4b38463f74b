-- read_cron: the time, and of each name the newest slot that has come, by stepping from name to name.
-- Locks: none. Index: cron_slot_pkey, two looks a name.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
),
step AS (
    (SELECT c.name FROM {schema}.cron_slot c ORDER BY c.name LIMIT 1)
    UNION ALL
    SELECT (SELECT c.name FROM {schema}.cron_slot c WHERE c.name > step.name ORDER BY c.name LIMIT 1)
    FROM step WHERE step.name IS NOT NULL
)
SELECT clock.now, newest.*
FROM clock
LEFT JOIN LATERAL (
    SELECT c.*
    FROM step
    CROSS JOIN LATERAL (
        SELECT c.* FROM {schema}.cron_slot c WHERE c.name = step.name AND c.slot <= clock.now
        ORDER BY c.slot DESC LIMIT 1
    ) c
) newest ON true
