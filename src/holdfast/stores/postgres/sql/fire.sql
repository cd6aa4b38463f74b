-- fire: the slots of periodic jobs. Index: cron_slot_pkey.

-- [lock]
-- Of the whole table, not of a name, which may have no row yet. Firing is rare, and reading goes on.
LOCK TABLE {schema}.cron_slot IN SHARE ROW EXCLUSIVE MODE

-- [find]
-- Of each name that very slot, and the newest that has come by $3. Locks: none.
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

-- [add]
INSERT INTO {schema}.cron_slot (name, slot, job_id, fired_at)
SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::uuid[], $4::timestamptz[])
