-- Into a terminal state.
INSERT INTO {schema}.ended (
    job, state, version, attempt, replays, is_fragile, has_dependents,
    scheduled_at, started_at, last_token, owner, completed_at, ended_by, failure, result
)
SELECT * FROM unnest(
    $1::bigint[], $2::text[], $3::int[], $4::smallint[], $5::smallint[], $6::boolean[], $7::boolean[],
    $8::timestamptz[], $9::timestamptz[], $10::uuid[], $11::uuid[], $12::timestamptz[], $13::bigint[],
    $14::text[], $15::bytea[]
)
