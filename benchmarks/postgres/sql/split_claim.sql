-- The floor in the store's own layout: $3 jobs of a queue move from ready to running and are returned with their facts.
WITH taken AS (
    DELETE FROM {schema}.ready
    WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}.ready WHERE queue = $1 ORDER BY queue, priority, place LIMIT $3
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING *
),
claimed AS MATERIALIZED (
    SELECT t.*, j.id, j.payload, j.is_json, j.max_attempts, j.created_at, j.options, j.visibility_seconds
    FROM taken t JOIN {schema}.job j ON j.seq = t.job
),
leased AS (
    INSERT INTO {schema}.running (
        job, token, owner, version, attempt, replays, is_fragile, has_dependents, queue,
        scheduled_at, started_at, expires_at, lifetime_ends_at, visibility_seconds, last_token
    )
    SELECT
        job, $4::uuid, $2::uuid, version + 1, attempt + 1, replays, is_fragile, has_dependents, queue,
        scheduled_at, now(), now() + make_interval(secs => visibility_seconds), lifetime_ends_at, visibility_seconds,
        last_token
    FROM claimed
)
SELECT job, queue, priority, place, version, attempt, last_token, id, type, payload, is_json, max_attempts, created_at,
    options
FROM claimed
