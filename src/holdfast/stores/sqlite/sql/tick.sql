-- tick: what time has done to jobs and workers. ?1 is now, ?2 a limit, unless said otherwise.

-- [find_due]
-- DELAYED and RETRYING jobs whose time has come, in that order. Index: holdfast_waiting_due.
SELECT job FROM holdfast_waiting INDEXED BY holdfast_waiting_due
WHERE due_at IS NOT NULL AND due_at <= ?1
ORDER BY due_at, job LIMIT ?2

-- [due]
-- The same with what [ready] of write.sql takes over, in its order. Index: holdfast_waiting_due, then the primary key.
SELECT w.state, w.state = 'RETRYING' AND w.attempt >= j.max_attempts, w.job, j.queue, j.priority,
    w.version, w.attempt, w.replays, w.is_fragile, w.has_dependents, w.lifetime_ends_at, w.started_at, w.last_token,
    j.type
FROM holdfast_waiting w INDEXED BY holdfast_waiting_due
CROSS JOIN holdfast_job j ON j.seq = w.job
WHERE w.due_at IS NOT NULL AND w.due_at <= ?1
ORDER BY w.due_at, w.job LIMIT ?2

-- [find_expired]
-- Leases past their end, worker by worker. Index: holdfast_running_owner, which also lists the owners.
WITH RECURSIVE owner (id) AS (
    SELECT min(owner) FROM holdfast_running
    UNION ALL
    SELECT (SELECT min(r.owner) FROM holdfast_running r WHERE r.owner > owner.id) FROM owner WHERE owner.id IS NOT NULL
)
SELECT r.job
FROM owner CROSS JOIN holdfast_running r INDEXED BY holdfast_running_owner
WHERE r.owner = owner.id AND r.expires_at <= ?1
ORDER BY r.expires_at, r.job LIMIT ?2

-- [find_overaged]
-- Jobs over their lifetime that are not running. Index: holdfast_ready_lifetime, holdfast_waiting_lifetime.
SELECT job FROM (
    SELECT * FROM (
        SELECT job, lifetime_ends_at FROM holdfast_ready INDEXED BY holdfast_ready_lifetime
        WHERE lifetime_ends_at <= ?1 ORDER BY lifetime_ends_at LIMIT ?2
    )
    UNION ALL
    SELECT * FROM (
        SELECT job, lifetime_ends_at FROM holdfast_waiting INDEXED BY holdfast_waiting_lifetime
        WHERE lifetime_ends_at <= ?1 ORDER BY lifetime_ends_at LIMIT ?2
    )
)
ORDER BY lifetime_ends_at, job LIMIT ?2

-- [find_lost]
-- Leases of workers that are lost, or have no row. ?1: limit. Index: holdfast_running_owner, which also lists the owners.
WITH RECURSIVE owner (id) AS (
    SELECT min(owner) FROM holdfast_running
    UNION ALL
    SELECT (SELECT min(r.owner) FROM holdfast_running r WHERE r.owner > owner.id) FROM owner WHERE owner.id IS NOT NULL
)
SELECT r.job
FROM owner CROSS JOIN holdfast_running r INDEXED BY holdfast_running_owner ON r.owner = owner.id
WHERE NOT EXISTS (SELECT 1 FROM holdfast_worker w WHERE w.id = owner.id AND NOT w.is_lost)
ORDER BY r.job LIMIT ?1

-- [mark_lost]
-- Whoever was last seen before ?1; or after ?2, which was before the clock was put back.
UPDATE holdfast_worker SET is_lost = 1 WHERE NOT is_lost AND NOT seen_at BETWEEN ?1 AND ?2

-- [mark_gone]
-- The process of worker ?1 has died.
UPDATE holdfast_worker SET is_lost = 1 WHERE id = ?1

-- [beat]
-- Note that a tick ran, unless one did so within ?4: many processes that tick side by side write one note. After a gap
-- (?2), silence counts against workers only from ?3 on. A tick in the future was before the clock was put back.
UPDATE holdfast_beat SET
    silence_counts_from = CASE
        WHEN last_tick_at IS NULL OR silence_counts_from IS NULL OR NOT ?1 - last_tick_at BETWEEN 0 AND ?2 THEN ?3
        ELSE silence_counts_from
    END,
    last_tick_at = ?1
WHERE last_tick_at IS NULL OR NOT ?1 - last_tick_at BETWEEN 0 AND ?4
RETURNING silence_counts_from

-- [silence]
SELECT silence_counts_from FROM holdfast_beat
