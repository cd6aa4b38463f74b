-- $1 plain jobs numbered from 1, submitted over the last hours, into a table without indexes: ids need no order.
INSERT INTO {schema}.job (
    seq, id, type, queue, priority, depth, payload, is_json, created_at,
    max_attempts, visibility_seconds, lifetime_seconds
)
SELECT
    n, gen_random_uuid(), $2::text, $3::text, 2, 0, $4::bytea, true,
    now() - make_interval(secs => ($1::bigint - n) * 0.01), 3, 300, 604800
FROM generate_series(1, $1::bigint) AS n
