INSERT INTO holdfast_running (
    job, token, owner, queue, version, attempt, replays, is_fragile, has_dependents, scheduled_at, lifetime_ends_at,
    started_at, expires_at, visibility_seconds, cancel_requested
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)
