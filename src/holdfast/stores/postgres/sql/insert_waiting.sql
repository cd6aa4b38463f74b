-- Into PENDING, DELAYED or RETRYING.
INSERT INTO {schema}.waiting (
    job, state, version, attempt, replays, is_fragile, has_dependents,
    scheduled_at, started_at, last_token, lifetime_ends_at, due_at, updated_at
)
SELECT * FROM unnest(
    $1::bigint[], $2::text[], $3::int[], $4::smallint[], $5::smallint[], $6::boolean[], $7::boolean[],
    $8::timestamptz[], $9::timestamptz[], $10::uuid[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[]
)
