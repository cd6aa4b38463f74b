INSERT INTO holdfast_ready (
    job, queue, priority, version, attempt, replays, is_fragile, has_dependents, scheduled_at, lifetime_ends_at
) VALUES (?, ?, ?, 0, 0, 0, 0, 0, ?, ?)
