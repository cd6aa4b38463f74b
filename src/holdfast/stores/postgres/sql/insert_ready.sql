-- Into SCHEDULED, each at a new place, in the order given.
INSERT INTO {schema}.ready (
    job, queue, priority, version, attempt, replays, is_fragile, has_dependents,
    scheduled_at, started_at, last_token, lifetime_ends_at, type, place
)
SELECT g.*, nextval('{schema}.job_seq') FROM unnest(
    $1::bigint[], $2::text[], $3::smallint[], $4::int[], $5::smallint[], $6::smallint[], $7::boolean[], $8::boolean[],
    $9::timestamptz[], $10::timestamptz[], $11::uuid[], $12::timestamptz[], $13::text[]
) AS g
