-- fire: of each name that very slot, and the newest that has come by $3. Locks: none. Index: cron_slot_pkey.
SELECT c.*
FROM unnest($1::text[], $2::timestamptz[]) AS wanted (name, slot)
CROSS JOIN LATERAL (
    (SELECT * FROM {schema}.cron_slot c WHERE c.name = wanted.name AND c.slot = wanted.slot OFFSET 0)
    UNION ALL
    (
        SELECT * FROM {schema}.cron_slot c WHERE c.name = wanted.name AND c.slot <= $3::timestamptz
        ORDER BY c.slot DESC LIMIT 1
    )
) c
