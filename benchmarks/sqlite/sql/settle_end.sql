INSERT INTO holdfast_ended (
    job, state, completed_at, result, scheduled_at, started_at, last_token, owner, version, attempt, replays,
    is_fragile, has_dependents
)
SELECT job, 'COMPLETED', ?1, ?2, scheduled_at, started_at, token, owner, version, attempt, replays,
    is_fragile, has_dependents
FROM holdfast_running
WHERE job = ?3 AND token = ?4
