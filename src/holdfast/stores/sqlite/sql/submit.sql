-- submit: insert plain jobs (no key, no dependency, no tag, no absolute time).
-- Guarantees: a job whose id is already there is left alone, so a repeat doubles nothing.
-- Index: the unique one on id for the conflict, then the primary key.

-- [job]
-- In the order of rows.JOB_COLUMNS.
INSERT INTO holdfast_job (
    seq, id, priority, depth, created_at, run_at, spawned_by,
    options, type, queue, payload, is_json, visibility_seconds, lifetime_seconds, max_attempts, "group"
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING

-- [ready]
-- Those of the numbers ?1 … ?2 that were inserted and are due at once, placed in that order.
INSERT INTO holdfast_ready (
    job, place, queue, priority, version, attempt, replays, is_fragile, has_dependents, scheduled_at, lifetime_ends_at,
    type
)
SELECT seq, seq, queue, priority, 0, 0, 0, 0, 0, created_at,
    created_at + CAST(round(lifetime_seconds * 1000000.0) AS INTEGER), type
FROM holdfast_job
WHERE seq BETWEEN ?1 AND ?2 AND (run_at IS NULL OR run_at <= created_at)
ORDER BY seq

-- [delayed]
INSERT INTO holdfast_waiting (
    job, state, due_at, updated_at, version, attempt, replays, is_fragile, has_dependents, lifetime_ends_at
)
SELECT seq, 'DELAYED', run_at, created_at, 0, 0, 0, 0, 0,
    created_at + CAST(round(lifetime_seconds * 1000000.0) AS INTEGER)
FROM holdfast_job
WHERE seq BETWEEN ?1 AND ?2 AND run_at > created_at

-- [count]
SELECT queue, run_at > created_at, count(*) FROM holdfast_job WHERE seq BETWEEN ?1 AND ?2 GROUP BY 1, 2
