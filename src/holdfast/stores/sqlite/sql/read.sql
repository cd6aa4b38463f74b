-- read: whole jobs, wherever they stand. Locks: none. Index: the primary keys.

-- [seqs]
-- ?1 and on: ids.
SELECT id, seq FROM holdfast_job WHERE id IN ({marks})

-- [jobs]
-- ?1: seqs as a JSON array.
SELECT {facts}, j.is_json, j.options, j."group", j.payload,
    'SCHEDULED' AS state, s.version, s.attempt, s.replays, s.lifetime_ends_at,
    NULL AS due_at, s.scheduled_at AS updated_at, s.scheduled_at, s.started_at, NULL AS completed_at,
    NULL AS token, NULL AS owner, NULL AS expires_at, 0 AS cancel_requested, s.last_token,
    NULL AS failure, NULL AS result, {noted}, NULL AS ended_by_id
FROM json_each(?1) g
CROSS JOIN holdfast_ready s ON s.job = g.value
CROSS JOIN holdfast_job j ON j.seq = s.job
LEFT JOIN holdfast_note n ON n.job = s.job
UNION ALL
SELECT {facts}, j.is_json, j.options, j."group", j.payload,
    s.state, s.version, s.attempt, s.replays, s.lifetime_ends_at,
    s.due_at, s.updated_at, s.scheduled_at, s.started_at, NULL,
    NULL, NULL, NULL, 0, s.last_token, NULL, NULL, {noted}, NULL
FROM json_each(?1) g
CROSS JOIN holdfast_waiting s ON s.job = g.value
CROSS JOIN holdfast_job j ON j.seq = s.job
LEFT JOIN holdfast_note n ON n.job = s.job
UNION ALL
SELECT {facts}, j.is_json, j.options, j."group", j.payload,
    'RUNNING', s.version, s.attempt, s.replays, s.lifetime_ends_at,
    NULL, s.started_at, s.scheduled_at, s.started_at, NULL,
    s.token, s.owner, s.expires_at, s.cancel_requested, s.last_token, NULL, NULL, {noted}, NULL
FROM json_each(?1) g
CROSS JOIN holdfast_running s ON s.job = g.value
CROSS JOIN holdfast_job j ON j.seq = s.job
LEFT JOIN holdfast_note n ON n.job = s.job
UNION ALL
SELECT {facts}, j.is_json, j.options, j."group", j.payload,
    s.state, s.version, s.attempt, s.replays, NULL,
    NULL, s.completed_at, s.scheduled_at, s.started_at, s.completed_at,
    NULL, s.owner, NULL, 0, s.last_token, s.failure, s.result, {noted},
    (SELECT p.id FROM holdfast_job p WHERE p.seq = s.ended_by)
FROM json_each(?1) g
CROSS JOIN holdfast_ended s ON s.job = g.value
CROSS JOIN holdfast_job j ON j.seq = s.job
LEFT JOIN holdfast_note n ON n.job = s.job

-- [dependencies]
-- ?1: the dependents' seqs as a JSON array.
SELECT e.child, p.id, e.kind
FROM json_each(?1) g
CROSS JOIN holdfast_edge e ON e.child = g.value
CROSS JOIN holdfast_job p ON p.seq = e.parent
ORDER BY e.child, e.parent

-- [attempts]
SELECT a.* FROM holdfast_job j CROSS JOIN holdfast_attempt a ON a.job = j.seq WHERE j.id = ?1 ORDER BY a.version

-- [upstream]
-- A parent that is not in ended stands in one of three tables; which one says its state.
SELECT p.id, e.kind, s.result,
    coalesce(
        s.state,
        (SELECT w.state FROM holdfast_waiting w WHERE w.job = p.seq),
        (SELECT 'RUNNING' FROM holdfast_running r WHERE r.job = p.seq),
        'SCHEDULED'
    ) AS state
FROM holdfast_job j
CROSS JOIN holdfast_edge e ON e.child = j.seq
CROSS JOIN holdfast_job p ON p.seq = e.parent
LEFT JOIN holdfast_ended s ON s.job = p.seq
WHERE j.id = ?1
ORDER BY e.parent

-- [queues]
SELECT queue, state, jobs FROM holdfast_tally

-- [paused]
SELECT queue FROM holdfast_pause

-- [oldest]
-- A queue's oldest claimable job has the first place of its priority. Index: holdfast_ready_claim, five looks a queue.
SELECT t.queue, min((
    SELECT r.scheduled_at FROM holdfast_ready r INDEXED BY holdfast_ready_claim
    WHERE r.queue = t.queue AND r.priority = p.value
    ORDER BY r.place LIMIT 1
)) AS scheduled_at
FROM holdfast_tally t
CROSS JOIN json_each('[0, 1, 2, 3, 4]') p
WHERE t.state = 'SCHEDULED' AND t.jobs > 0
GROUP BY t.queue

-- [workers]
SELECT w.id, w.name, w.registered_at, w.seen_at, w.is_lost, w.queues, w.types,
    (SELECT count(*) FROM holdfast_running r WHERE r.owner = w.id) AS running
FROM holdfast_worker w
ORDER BY w.registered_at, w.id

-- [place]
SELECT j.queue, (SELECT p.paused_at FROM holdfast_pause p WHERE p.queue = j.queue), r.priority, r.place
FROM holdfast_job j LEFT JOIN holdfast_ready r ON r.job = j.seq
WHERE j.id = ?1

-- [ahead]
-- How many stand before (?2, ?3) in a queue (?1), counted backwards and no further than ?4. Index: holdfast_ready_claim.
SELECT count(*) FROM (
    SELECT 1 FROM holdfast_ready r INDEXED BY holdfast_ready_claim
    WHERE r.queue = ?1 AND (r.priority, r.place) < (?2, ?3)
    ORDER BY r.priority DESC, r.place DESC LIMIT ?4
)

-- [cron]
-- Of each name the newest slot that has come by ?1, stepping from name to name. Index: the primary key.
WITH RECURSIVE step (name) AS (
    SELECT min(name) FROM holdfast_cron_slot
    UNION ALL
    SELECT (SELECT min(c.name) FROM holdfast_cron_slot c WHERE c.name > step.name) FROM step WHERE step.name IS NOT NULL
)
SELECT c.name, c.slot, c.job_id, c.fired_at
FROM step
CROSS JOIN holdfast_cron_slot c ON c.name = step.name
    AND c.slot = (SELECT max(n.slot) FROM holdfast_cron_slot n WHERE n.name = step.name AND n.slot <= ?1)
