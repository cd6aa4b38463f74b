INSERT INTO holdfast_job (
    id, type, queue, priority, depth, created_at, max_attempts, visibility_seconds, lifetime_seconds, is_json, payload
) VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?)
