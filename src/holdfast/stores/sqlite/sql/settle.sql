-- settle: complete attempts, fenced by token. Everything but plain success takes the verbs' way.
-- ?1 are seqs as a JSON array, ?2 their tokens one after the other. One statement for all of them, not one each: a
-- statement lets go of the interpreter.
-- Index: the primary keys.

-- [count]
-- How many of them hold, and how many of these are waited for.
SELECT r.queue, count(*), sum(r.has_dependents)
FROM json_each(?1) e
CROSS JOIN holdfast_running r ON r.job = e.value
WHERE r.token = substr(?2, 16 * e.key + 1, 16)
GROUP BY r.queue

-- [find]
-- Which of them hold.
SELECT r.job
FROM json_each(?1) e
CROSS JOIN holdfast_running r ON r.job = e.value
WHERE r.token = substr(?2, 16 * e.key + 1, 16)

-- [end]
-- All of them hold. ?2 now, ?3 the result that they share.
INSERT INTO holdfast_ended (
    job, last_token, has_dependents, scheduled_at, started_at, owner, version, attempt, replays, is_fragile,
    completed_at, result, state
)
SELECT r.job, r.token, r.has_dependents, r.scheduled_at, r.started_at, r.owner, r.version, r.attempt, r.replays, r.is_fragile,
    ?2, ?3, 'COMPLETED'
FROM json_each(?1) e
CROSS JOIN holdfast_running r ON r.job = e.value

-- [end_each]
-- The same with a result each. ?1: [seq, where its result begins, how long it is]; ?3 the results one after the other.
INSERT INTO holdfast_ended (
    job, last_token, has_dependents, scheduled_at, started_at, owner, version, attempt, replays, is_fragile,
    completed_at, result, state
)
SELECT r.job, r.token, r.has_dependents, r.scheduled_at, r.started_at, r.owner, r.version, r.attempt, r.replays, r.is_fragile,
    ?2, substr(?3, json_extract(e.value, '$[1]'), json_extract(e.value, '$[2]')), 'COMPLETED'
FROM json_each(?1) e
CROSS JOIN holdfast_running r ON r.job = json_extract(e.value, '$[0]')

-- [leave]
DELETE FROM holdfast_running WHERE job IN (SELECT value FROM json_each(?1))

-- [waited_for]
SELECT job FROM holdfast_ended WHERE job IN (SELECT value FROM json_each(?1)) AND has_dependents
