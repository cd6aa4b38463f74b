-- attend: who has said that its session holds a lock, and has none that does; whether worker $1 has said so of $2; and
-- whether it is the only one who has.
-- A worker says so after it took the lock, and locks are read after the statement's snapshot was taken: whoever is seen
-- to have said it has had the lock by then.
-- After the server's start nobody is absent for a worker timeout ($3): all have lost their sessions. (A start in the
-- future is from before the clock was put back.)
-- Reads all workers that are not lost, and the server's table of locks. Locks: none. Index: worker_pkey.
WITH held AS MATERIALIZED (
    SELECT (l.classid::bigint << 32) | l.objid::bigint AS key
    FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
)
SELECT
    coalesce((SELECT w.session_key IS NOT DISTINCT FROM $2::bigint FROM {schema}.worker w WHERE w.id = $1::uuid), true)
        AS is_noted,
    ARRAY(
        SELECT w.id FROM {schema}.worker w
        WHERE NOT w.is_lost AND w.session_key IS NOT NULL
            AND NOT clock_timestamp() - pg_postmaster_start_time() BETWEEN interval '0' AND make_interval(secs => $3::float8)
            AND NOT EXISTS (SELECT 1 FROM held WHERE held.key = w.session_key)
    ) AS absent,
    (
        SELECT count(*) = 0 FROM {schema}.worker w
        WHERE NOT w.is_lost AND w.session_key IS NOT NULL AND w.id <> $1::uuid
    ) AS is_alone
