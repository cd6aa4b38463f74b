-- The floor in the store's own layout: a batch of jobs and their ready rows.
WITH inserted AS (
    INSERT INTO {schema}.job (
        id, type, queue, priority, depth, payload, is_json, created_at,
        max_attempts, visibility_seconds, lifetime_seconds, options
    )
    SELECT g.id, g.type, g.queue, g.priority, 0, g.payload, g.is_json, now(), g.max_attempts,
        g.visibility_seconds, g.lifetime_seconds, g.options
    FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::smallint[], $5::bytea[], $6::boolean[], $7::smallint[],
        $8::float8[], $9::float8[], $10::text[]
    ) AS g (
        id, type, queue, priority, payload, is_json, max_attempts, visibility_seconds, lifetime_seconds, options
    )
    RETURNING seq, type, queue, priority, created_at, lifetime_seconds
)
INSERT INTO {schema}.ready (
    job, queue, priority, place, version, attempt, replays, is_fragile, has_dependents, scheduled_at, lifetime_ends_at,
    type
)
SELECT
    seq, queue, priority, seq, 0, 0, 0, false, false,
    created_at, created_at + make_interval(secs => lifetime_seconds), type
FROM inserted
