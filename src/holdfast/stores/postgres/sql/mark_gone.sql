-- attend: workers ($1) whose process has died are lost, unless they have proved themselves alive in this moment.
-- Locks: their rows, in the order of their IDs, skipping those that a heartbeat or another watcher has. Index: worker_pkey.
UPDATE {schema}.worker w SET is_lost = true
WHERE w.id = ANY (ARRAY(
    SELECT found.id
    FROM unnest((SELECT $1::uuid[])) AS g (id)
    CROSS JOIN LATERAL (
        SELECT w.id FROM {schema}.worker w
        WHERE w.id = g.id AND NOT w.is_lost AND w.session_key IS NOT NULL
        FOR UPDATE SKIP LOCKED
    ) found
    ORDER BY found.id
)) AND NOT EXISTS (
    SELECT 1 FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        AND ((l.classid::bigint << 32) | l.objid::bigint) = w.session_key
)
