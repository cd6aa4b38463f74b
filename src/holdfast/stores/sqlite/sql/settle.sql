-- settle: complete attempts, fenced by token. Everything but plain success takes the verbs' way.
-- Index: the primary keys.

-- [find]
-- ?1: seqs as a JSON array. First what [end] takes over; the caller compares the tokens.
SELECT job, token, has_dependents, scheduled_at, started_at, owner, version, attempt, replays, is_fragile, queue
FROM holdfast_running WHERE job IN (SELECT value FROM json_each(?1))

-- [leave]
DELETE FROM holdfast_running WHERE job IN (SELECT value FROM json_each(?1))

-- [end]
INSERT INTO holdfast_ended (
    job, last_token, has_dependents, scheduled_at, started_at, owner, version, attempt, replays, is_fragile,
    completed_at, result, state
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'COMPLETED')
