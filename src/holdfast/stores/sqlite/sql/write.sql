-- What the verbs write: jobs that come, move from table to table, and change where they stand.
-- Locks: none of their own; the transaction has the only write lock there is. Index: the primary keys.

-- [reserve]
-- Numbers for jobs and for places.
UPDATE sqlite_sequence SET seq = seq + ?1 WHERE name = 'holdfast_job' RETURNING seq

-- [job]
-- In the order of rows.JOB_COLUMNS.
INSERT INTO holdfast_job (
    seq, id, priority, depth, created_at, run_at, spawned_by,
    options, type, queue, payload, is_json, visibility_seconds, lifetime_seconds, max_attempts, "group"
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- [tag]
INSERT INTO holdfast_tag (job, name, value) VALUES (?, ?, ?)

-- [ready]
INSERT INTO holdfast_ready (
    job, place, queue, priority, version, attempt, replays, is_fragile, has_dependents,
    scheduled_at, lifetime_ends_at, started_at, last_token, type
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- [waiting]
INSERT OR REPLACE INTO holdfast_waiting (
    job, state, due_at, updated_at, version, attempt, replays, is_fragile, has_dependents,
    lifetime_ends_at, scheduled_at, started_at, last_token
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- [running]
INSERT OR REPLACE INTO holdfast_running (
    job, token, owner, queue, version, attempt, replays, is_fragile, has_dependents, cancel_requested,
    scheduled_at, started_at, expires_at, lifetime_ends_at, visibility_seconds, last_token
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- [ended]
INSERT INTO holdfast_ended (
    job, state, completed_at, scheduled_at, started_at, last_token, owner, version, attempt, replays,
    is_fragile, has_dependents, ended_by, failure, result
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- [change_ready]
-- Within SCHEDULED: the place stays.
UPDATE holdfast_ready SET is_fragile = ?2, has_dependents = ?3 WHERE job = ?1

-- [change_ended]
-- Within a terminal state: the result, which no record carries, stays.
UPDATE holdfast_ended SET is_fragile = ?2, has_dependents = ?3, ended_by = ?4, failure = ?5 WHERE job = ?1

-- [leave_ready]
DELETE FROM holdfast_ready WHERE job IN (SELECT value FROM json_each(?1))

-- [leave_waiting]
DELETE FROM holdfast_waiting WHERE job IN (SELECT value FROM json_each(?1))

-- [leave_running]
DELETE FROM holdfast_running WHERE job IN (SELECT value FROM json_each(?1))

-- [leave_ended]
DELETE FROM holdfast_ended WHERE job IN (SELECT value FROM json_each(?1))

-- [tally]
INSERT INTO holdfast_tally (queue, state, jobs) VALUES (?, ?, ?)
ON CONFLICT (queue, state) DO UPDATE SET jobs = jobs + excluded.jobs

-- [attempt]
INSERT INTO holdfast_attempt (
    token, job, number, version, owner, started_at, ended_at, previous, is_ended_by_holder, failure
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- [ended_by_holder]
SELECT job, token FROM holdfast_attempt
WHERE job IN (SELECT value FROM json_each(?1)) AND is_ended_by_holder

-- [note]
INSERT INTO holdfast_note (job, percent, message, checkpoint) VALUES (?, ?, ?, ?)
ON CONFLICT (job) DO UPDATE SET
    percent = coalesce(excluded.percent, percent),
    message = coalesce(excluded.message, message),
    checkpoint = coalesce(excluded.checkpoint, checkpoint)

-- [place_again]
UPDATE holdfast_ready SET place = ?2, scheduled_at = ?3 WHERE job = ?1
