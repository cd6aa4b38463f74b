-- attend: the proof that a worker's process lives, a session of its own that holds an advisory lock (presence.py).

-- [session]
-- For how long the server keeps a session whose client it cannot reach. Such a client is not dead, so that must be
-- longer than the worker timeout, whatever the server's own settings say: at least a minute.
-- 0 is the system's own time, which is longer; so it reads on a Unix socket, too.
SELECT set_config(wanted.name, wanted.least::text, false)
FROM (VALUES ('tcp_user_timeout', 60000), ('tcp_keepalives_idle', 60)) AS wanted (name, least)
WHERE current_setting(wanted.name) <> '0'
    AND (SELECT s.setting::bigint FROM pg_settings s WHERE s.name = wanted.name) BETWEEN 1 AND wanted.least - 1

-- [lock]
-- Shared: a session that the server still believes in does not keep its successor waiting.
SELECT pg_advisory_lock_shared($1::bigint)

-- [say]
-- This worker's process can be told from a dead one by its session, which holds the advisory lock $2 (NULL: it
-- cannot, or not any more).
-- Locks: the worker's row. Index: worker_pkey.
-- Commits without waiting for the disk: what a crash forgets is said again, and after a crash nobody is taken for dead.
WITH mode AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS commit_mode)
UPDATE {schema}.worker w SET session_key = $2::bigint
FROM mode
WHERE w.id = $1::uuid AND w.session_key IS DISTINCT FROM $2::bigint

-- [absent]
-- Who has said that its session holds a lock, and has none that does; whether worker $1 has said so of $2; and
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
