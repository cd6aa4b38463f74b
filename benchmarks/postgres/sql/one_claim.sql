-- The floor in one table: $3 jobs of a queue become RUNNING and are returned with their facts.
UPDATE {schema}.one
SET state = 'RUNNING', token = $4::uuid, owner = $2::uuid, version = version + 1, attempt = attempt + 1,
    started_at = now(), expires_at = now() + make_interval(secs => visibility_seconds)
WHERE seq = ANY (ARRAY(
    SELECT seq FROM {schema}.one WHERE state = 'SCHEDULED' AND queue = $1 ORDER BY queue, priority, place LIMIT $3
    FOR UPDATE SKIP LOCKED
))
RETURNING seq AS job, queue, priority, place, version, attempt, last_token, id, type, payload, is_json, max_attempts,
    created_at, options
