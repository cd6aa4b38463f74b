-- What the lease needs first, then the facts of the job.
SELECT r.job, r.version + 1, r.attempt + 1, r.replays, r.is_fragile, r.has_dependents, r.scheduled_at,
    r.lifetime_ends_at, j.visibility_seconds, r.priority, r.last_token, j.id, j.type, j.created_at, j.max_attempts,
    j.is_json, j.options, j.payload
FROM holdfast_ready r
JOIN holdfast_job j ON j.seq = r.job
WHERE r.queue = ?
ORDER BY r.queue, r.priority, r.place
LIMIT ?
