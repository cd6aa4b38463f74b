-- tick: remove ended jobs past their retention, oldest first, with all that belongs to them.
-- Guarantees: nothing goes that a live job waits for or a dead one would need if it was replayed, whose dependents are still to be told, or whose key still answers.

-- [find_done]
-- COMPLETED and CANCELLED jobs to look at, after (?1, ?2) and until ?3; ?4 limit. Index: holdfast_ended_done.
SELECT completed_at, job FROM holdfast_ended INDEXED BY holdfast_ended_done
WHERE state NOT IN ({dead_states}) AND (completed_at, job) > (?1, ?2) AND completed_at <= ?3
ORDER BY completed_at, job LIMIT ?4

-- [find_dead]
-- The same for FAILED and DEAD_LETTER. Index: holdfast_ended_dead.
SELECT completed_at, job FROM holdfast_ended INDEXED BY holdfast_ended_dead
WHERE state IN ({dead_states}) AND (completed_at, job) > (?1, ?2) AND completed_at <= ?3
ORDER BY completed_at, job LIMIT ?4

-- [removable]
-- Which of them may go. ?1: seqs as a JSON array, ?2: now, ?3: limit.
SELECT j.seq, j.queue, e.state
FROM json_each(?1) g
CROSS JOIN holdfast_ended e ON e.job = g.value
CROSS JOIN holdfast_job j ON j.seq = e.job
WHERE NOT EXISTS (SELECT 1 FROM holdfast_mark m WHERE m.job = e.job)
    AND (NOT e.has_dependents OR NOT EXISTS (
        SELECT 1 FROM holdfast_edge d INDEXED BY holdfast_edge_parent
        WHERE d.parent = e.job AND NOT EXISTS (
            SELECT 1 FROM holdfast_ended x WHERE x.job = d.child AND x.state NOT IN ({dead_states}))))
    AND NOT EXISTS (SELECT 1 FROM holdfast_idempotency k WHERE k.job_id = j.id AND k.expires_at > ?2)
LIMIT ?3

-- [ended]
DELETE FROM holdfast_ended WHERE job IN (SELECT value FROM json_each(?1))

-- [jobs]
DELETE FROM holdfast_job WHERE seq IN (SELECT value FROM json_each(?1))

-- [edges_to]
DELETE FROM holdfast_edge WHERE child IN (SELECT value FROM json_each(?1))

-- [edges_from]
DELETE FROM holdfast_edge WHERE parent IN (SELECT value FROM json_each(?1))

-- [notes]
DELETE FROM holdfast_note WHERE job IN (SELECT value FROM json_each(?1))

-- [tags]
DELETE FROM holdfast_tag WHERE job IN (SELECT value FROM json_each(?1))

-- [attempts]
DELETE FROM holdfast_attempt WHERE job IN (SELECT value FROM json_each(?1))

-- [keys]
-- Keys whose window is over. ?1: now, ?2: limit. Index: holdfast_idempotency_expires.
DELETE FROM holdfast_idempotency WHERE rowid IN (
    SELECT rowid FROM holdfast_idempotency WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2
)

-- [workers]
-- Workers lost and not seen since ?1.
DELETE FROM holdfast_worker WHERE is_lost AND seen_at < ?1

-- [slots]
-- Slots fired until ?1, but never the newest of a name that has come by ?2; ?3: limit. Index: holdfast_cron_slot_fired.
DELETE FROM holdfast_cron_slot WHERE rowid IN (
    SELECT c.rowid FROM holdfast_cron_slot c INDEXED BY holdfast_cron_slot_fired
    WHERE c.fired_at <= ?1 AND EXISTS (
        SELECT 1 FROM holdfast_cron_slot n WHERE n.name = c.name AND n.slot > c.slot AND n.slot <= ?2
    )
    ORDER BY c.fired_at LIMIT ?3
)
