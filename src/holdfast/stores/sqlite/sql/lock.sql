-- The records of these jobs, wherever they stand. ?1: seqs as a JSON array.
-- Locks: none of its own; the transaction has the only write lock there is. Index: the primary keys.
SELECT {facts},
    'SCHEDULED' AS state, s.version, s.attempt, s.replays, s.is_fragile, s.has_dependents, s.lifetime_ends_at,
    NULL AS due_at, s.scheduled_at AS updated_at, s.scheduled_at, s.started_at, NULL AS completed_at,
    NULL AS token, NULL AS owner, NULL AS expires_at, 0 AS cancel_requested, s.last_token,
    NULL AS ended_by, NULL AS failure
FROM json_each(?1) g
CROSS JOIN holdfast_ready s ON s.job = g.value
CROSS JOIN holdfast_job j ON j.seq = s.job
UNION ALL
SELECT {facts},
    s.state, s.version, s.attempt, s.replays, s.is_fragile, s.has_dependents, s.lifetime_ends_at,
    s.due_at, s.updated_at, s.scheduled_at, s.started_at, NULL,
    NULL, NULL, NULL, 0, s.last_token, NULL, NULL
FROM json_each(?1) g
CROSS JOIN holdfast_waiting s ON s.job = g.value
CROSS JOIN holdfast_job j ON j.seq = s.job
UNION ALL
SELECT {facts},
    'RUNNING', s.version, s.attempt, s.replays, s.is_fragile, s.has_dependents, s.lifetime_ends_at,
    NULL, s.started_at, s.scheduled_at, s.started_at, NULL,
    s.token, s.owner, s.expires_at, s.cancel_requested, s.last_token, NULL, NULL
FROM json_each(?1) g
CROSS JOIN holdfast_running s ON s.job = g.value
CROSS JOIN holdfast_job j ON j.seq = s.job
UNION ALL
SELECT {facts},
    s.state, s.version, s.attempt, s.replays, s.is_fragile, s.has_dependents, NULL,
    NULL, s.completed_at, s.scheduled_at, s.started_at, s.completed_at,
    NULL, s.owner, NULL, 0, s.last_token, s.ended_by, s.failure
FROM json_each(?1) g
CROSS JOIN holdfast_ended s ON s.job = g.value
CROSS JOIN holdfast_job j ON j.seq = s.job
