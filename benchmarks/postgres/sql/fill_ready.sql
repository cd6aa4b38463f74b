-- $1 plain jobs, ready, spread evenly over $2 queues: queue-0, queue-1, … Rows and columns as submit.sql writes them.
-- Ids are spread over their whole range but inserted in order: the tree is as wide as a random one, and made fast.
WITH inserted AS (
    INSERT INTO {schema}.job (
        id, type, queue, priority, depth, payload, is_json, created_at,
        max_attempts, visibility_seconds, lifetime_seconds
    )
    SELECT
        (lpad(to_hex((n - 1) * 4294967296 / $1::bigint), 8, '0') || substr(md5(n || 'r' || random()), 1, 24))::uuid,
        $3::text, 'queue-' || n % $2::bigint, 2, 0, $4::bytea, true, now(), 3, 300, 604800
    FROM generate_series(1, $1::bigint) AS n
    RETURNING seq, type, queue, priority, created_at, lifetime_seconds
),
readied AS (
    INSERT INTO {schema}.ready (
        job, queue, priority, place, version, attempt, replays, is_fragile, has_dependents,
        scheduled_at, lifetime_ends_at, type
    )
    SELECT
        seq, queue, priority, seq, 0, 0, 0, false, false,
        created_at, created_at + make_interval(secs => lifetime_seconds), type
    FROM inserted
)
INSERT INTO {schema}.tally (queue, state, delta)
SELECT queue, 'SCHEDULED', count(*) FROM inserted GROUP BY queue
