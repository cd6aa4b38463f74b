INSERT INTO {schema}.attempt (
    token, job, number, version, owner, started_at, ended_at, previous, is_ended_by_holder, failure
)
SELECT * FROM unnest(
    $1::uuid[], $2::bigint[], $3::smallint[], $4::int[], $5::uuid[], $6::timestamptz[], $7::timestamptz[], $8::uuid[],
    $9::boolean[], $10::text[]
)
