-- heartbeat: a worker is alive, and its leases go on. One statement however many jobs it holds.
-- Guarantees: only leases with the token named are touched, and only after a third of their visibility timeout.
-- Locks: the worker's row and the rows extended. Index: worker_pkey, running_pkey, running_owner.
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
    SELECT r.address, r.token, r.cancel_requested, r.expires_at, r.visibility_seconds
    FROM unnest((SELECT $3::bigint[]), (SELECT $4::uuid[])) AS g (job, token)
    CROSS JOIN LATERAL (
        SELECT *, r.ctid AS address FROM {schema}.running r WHERE r.job = g.job AND r.token = g.token OFFSET 0
    ) r
),
extended AS (
    UPDATE {schema}.running r
    SET expires_at = least(clock.now + make_interval(secs => r.visibility_seconds), r.lifetime_ends_at)
    FROM held h, clock
    WHERE r.ctid = h.address AND r.token = h.token
        AND h.expires_at - clock.now < make_interval(secs => h.visibility_seconds * $5::float8)
)
SELECT
    h.token, h.cancel_requested,
    (SELECT count(*) FROM seen) AS known,
    (
        SELECT count(*) FROM {schema}.running r
        WHERE r.owner = $2::uuid AND NOT r.token = ANY ($6::uuid[])
    ) AS owned
FROM clock
LEFT JOIN held h ON true
