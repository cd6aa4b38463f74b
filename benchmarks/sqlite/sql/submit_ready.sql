-- A new job's place is its seq.
INSERT INTO holdfast_ready (
    job, place, queue, priority, version, attempt, replays, is_fragile, has_dependents, scheduled_at, lifetime_ends_at,
    type
) VALUES (?1, ?1, ?2, ?3, 0, 0, 0, 0, 0, ?4, ?5, ?6)
