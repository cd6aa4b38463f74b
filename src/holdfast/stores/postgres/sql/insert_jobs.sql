-- submit, the verbs' way: the facts of jobs whose seq is already drawn.
INSERT INTO {schema}.job (
    seq, id, type, queue, priority, depth, payload, is_json, created_at, run_at,
    max_attempts, visibility_seconds, lifetime_seconds, spawned_by, options
)
SELECT * FROM unnest(
    $1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::smallint[], $6::smallint[], $7::bytea[], $8::boolean[],
    $9::timestamptz[], $10::timestamptz[], $11::smallint[], $12::float8[], $13::float8[], $14::bigint[], $15::text[]
)
