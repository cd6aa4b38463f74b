-- The floor in one table: a batch of jobs.
INSERT INTO {schema}.one (
    id, type, queue, priority, depth, payload, is_json, created_at, max_attempts, visibility_seconds, lifetime_seconds,
    options, state, version, attempt, replays, is_fragile, has_dependents, cancel_requested, scheduled_at,
    lifetime_ends_at
)
SELECT g.id, g.type, g.queue, g.priority, 0, g.payload, g.is_json, now(), g.max_attempts,
    g.visibility_seconds, g.lifetime_seconds, g.options, 'SCHEDULED', 0, 0, 0, false, false, false, now(),
    now() + make_interval(secs => g.lifetime_seconds)
FROM unnest(
    $1::uuid[], $2::text[], $3::text[], $4::smallint[], $5::bytea[], $6::boolean[], $7::smallint[],
    $8::float8[], $9::float8[], $10::text[]
) AS g (
    id, type, queue, priority, payload, is_json, max_attempts, visibility_seconds, lifetime_seconds, options
)
