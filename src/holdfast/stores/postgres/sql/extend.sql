-- heartbeat: a worker is alive, and its leases go on. One statement however many jobs it holds.
-- Guarantees: only leases with the token named are touched, and only after a third of their visibility timeout.
-- Locks: the worker's row and the rows extended, skipping locked ones: a lease whose row somebody holds is still held, and
-- is extended by a later heartbeat. Index: worker_pkey, running_pkey, running_expires.
-- Looked up row by row, then updated by address: a plan made while running is empty, or for a large batch, would
-- otherwise read all of it.
-- Commits without waiting for the disk: claims wait for it, and what a crash forgets the next heartbeat says again.
WITH clock AS MATERIALIZED (
    SELECT
        coalesce($1::timestamptz, clock_timestamp()) AS now,
        set_config('synchronous_commit', 'off', true) AS commit_mode
),
seen AS (
    UPDATE {schema}.worker w SET seen_at = clock.now
    FROM clock
    WHERE w.id = $2::uuid AND NOT w.is_lost
    RETURNING w.id
),
held AS MATERIALIZED (
    SELECT r.job, r.token, r.cancel_requested, r.expires_at, r.visibility_seconds
    FROM unnest((SELECT $3::bigint[]), (SELECT $4::uuid[])) AS g (job, token)
    CROSS JOIN LATERAL (
        SELECT * FROM {schema}.running r WHERE r.job = g.job AND r.token = g.token OFFSET 0
    ) r
),
free AS MATERIALIZED (
    SELECT r.address, r.token
    FROM (
        SELECT h.job, h.token FROM held h, clock
        WHERE h.expires_at - clock.now < make_interval(secs => h.visibility_seconds * $5::float8)
        ORDER BY h.job
    ) old
    CROSS JOIN LATERAL (
        SELECT r.ctid AS address, r.token FROM {schema}.running r
        WHERE r.job = old.job AND r.token = old.token FOR UPDATE SKIP LOCKED
    ) r
),
extended AS (
    UPDATE {schema}.running r
    SET expires_at = least(clock.now + make_interval(secs => r.visibility_seconds), r.lifetime_ends_at)
    FROM free f, clock
    WHERE r.ctid = f.address AND r.token = f.token
)
SELECT
    h.token, h.cancel_requested,
    (SELECT count(*) FROM seen) AS known,
    -- All leases are walked over. Where there are many, or many dead rows, which somebody's long transaction keeps, that is
    -- a long way: only where $7 asks for it.
    CASE WHEN $7::boolean OR pg_stat_get_live_tuples('{schema}.running'::regclass)
        + pg_stat_get_dead_tuples('{schema}.running'::regclass) < 20000
    THEN (
        SELECT count(*) FROM {schema}.running r
        WHERE r.owner = $2::uuid AND NOT r.token = ANY ($6::uuid[])
    ) END AS owned
FROM clock
LEFT JOIN held h ON true
