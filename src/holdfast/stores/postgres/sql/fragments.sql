-- Text that several statements share, filled in where its name stands in braces. No statements.

-- [replicated]
-- Makes the commit of a transaction that writes nothing else wait as if it did. What it found may be of a transaction
-- whose wait for a synchronous standby was broken off, together with the connection: it can be seen, but has perhaps not
-- reached the standby, so it must not be answered as accepted yet.
pg_logical_emit_message(true, 'holdfast', 'repeat')

-- [unless_there]
ON CONFLICT (id) DO NOTHING

-- [server_grace]
-- All workers were cut off by the server's start: their silence counts a timeout ($2) later. A start in the future is
-- from before the clock was put back, and proves nothing.
CASE WHEN pg_postmaster_start_time() <= clock.now
            THEN pg_postmaster_start_time() + make_interval(secs => $2::float8) END

-- [clock]
-- The time, by the database's clock unless a test has its own ($1), for a transaction that commits without waiting for
-- the disk.
WITH clock AS MATERIALIZED (
    SELECT
        coalesce($1::timestamptz, clock_timestamp()) AS now,
        set_config('synchronous_commit', 'off', true) AS commit_mode
)

-- [dependent_in_need]
-- A dependent of the ended job e that has not come to a good end: it lives, or would need e if it was replayed.
SELECT d.child FROM {schema}.edge d WHERE d.parent = e.job
            AND (SELECT x.job FROM {schema}.ended x WHERE x.job = d.child AND x.state IN ({done_states})) IS NULL
        LIMIT 1
