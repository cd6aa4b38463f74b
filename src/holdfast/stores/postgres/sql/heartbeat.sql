-- register, heartbeat and leave: a worker is there, its leases go on, it is gone.

-- [register]
-- A worker that is known, perhaps as lost, is known again, with what it serves now. Locks: its row. Index: worker_pkey.
INSERT INTO {schema}.worker AS w (id, name, queues, types, registered_at, seen_at)
SELECT $1::uuid, $2::text, $4::text[], $5::text[], clock.now, clock.now
FROM (SELECT coalesce($3::timestamptz, clock_timestamp()) AS now) clock
ON CONFLICT (id) DO UPDATE SET
    name = excluded.name, queues = excluded.queues, types = excluded.types,
    seen_at = excluded.seen_at, is_lost = false

-- [extend]
-- A worker is alive, and its leases go on. One statement however many jobs it holds.
-- Guarantees: only leases with the token named are touched, and only after a third of their visibility timeout.
-- Locks: the worker's row and the rows extended, skipping locked ones: a lease whose row somebody holds is still held, and
-- is extended by a later heartbeat. Index: worker_pkey, running_pkey, running_expires.
-- Looked up row by row, then updated by address: a plan made while running is empty, or for a large batch, would
-- otherwise read all of it.
-- Commits without waiting for the disk: claims wait for it, and what a crash forgets the next heartbeat says again.
{clock},
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

-- [unknown]
-- Leases in a worker's name that it does not know of, locked, skipping what somebody else has.
-- Index: running_expires (all leases are walked over), running_pkey.
WITH owned AS MATERIALIZED (
    SELECT r.job, r.token FROM {schema}.running r WHERE r.owner = $1::uuid AND NOT r.token = ANY ($4::uuid[])
),
unknown AS MATERIALIZED (
    SELECT o.job, o.token
    FROM owned o
    WHERE NOT EXISTS (
        SELECT FROM unnest($2::bigint[], $3::uuid[]) AS g (job, token) WHERE g.job = o.job AND g.token = o.token
    )
)
SELECT r.job AS seq
FROM unknown u
CROSS JOIN LATERAL (
    SELECT r.job FROM {schema}.running r WHERE r.job = u.job AND r.token = u.token FOR UPDATE SKIP LOCKED
) r

-- [leave]
-- Locks: the worker's row. Index: worker_pkey.
DELETE FROM {schema}.worker WHERE id = $1::uuid
