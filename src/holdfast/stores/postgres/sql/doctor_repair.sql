-- doctor: what puts right what is not put right job by job. Each looks again by itself, and skips what somebody holds.
-- $1: how many rows at most. Locks: the rows removed, none of which belongs to a job.

-- [hold_tally]
-- Before the snapshot that [tally] is to see. Locks: the tally against its adding up, and against another repair.
LOCK TABLE {schema}.tally IN SHARE UPDATE EXCLUSIVE MODE

-- [tally]
-- In a snapshot of its own, with the table locked against its adding up: every healthy transaction changes counts and jobs
-- together, so that the difference stays the same however many of them go on. $1: as for the check tally_wrong.
INSERT INTO {schema}.tally (queue, state, delta) SELECT queue, state, jobs - tallied FROM ({tally_wrong}) wrong

-- [sequence]
-- Drawn, not set: whoever else draws at the same time gets other numbers.
SELECT max(nextval('{schema}.job_seq')) FROM generate_series(1, $1::bigint)

-- [edges]
DELETE FROM {schema}.edge e
WHERE e.ctid = ANY (ARRAY(
    SELECT e.ctid FROM {schema}.edge e
    WHERE NOT EXISTS (SELECT FROM {schema}.job j WHERE j.seq = e.child)
        OR NOT EXISTS (SELECT FROM {schema}.job j WHERE j.seq = e.parent) AND NOT (
            e.is_open AND EXISTS (SELECT FROM {schema}.waiting w WHERE w.job = e.child AND w.state = 'PENDING'))
    LIMIT $1::bigint
    FOR UPDATE SKIP LOCKED
))
RETURNING 1

-- [keys]
DELETE FROM {schema}.idempotency k
WHERE k.ctid = ANY (ARRAY(
    SELECT k.ctid FROM {schema}.idempotency k
    WHERE NOT EXISTS (SELECT FROM {schema}.job j WHERE j.id = k.job_id)
    LIMIT $1::bigint
    FOR UPDATE SKIP LOCKED
))
RETURNING 1

-- [tags]
DELETE FROM {schema}.tag t
WHERE t.ctid = ANY (ARRAY(
    SELECT t.ctid FROM {schema}.tag t WHERE NOT EXISTS (SELECT FROM {schema}.job j WHERE j.seq = t.job)
    LIMIT $1::bigint
    FOR UPDATE SKIP LOCKED
))
RETURNING 1

-- [notes]
DELETE FROM {schema}.note n
WHERE n.ctid = ANY (ARRAY(
    SELECT n.ctid FROM {schema}.note n WHERE NOT EXISTS (SELECT FROM {schema}.job j WHERE j.seq = n.job)
    LIMIT $1::bigint
    FOR UPDATE SKIP LOCKED
))
RETURNING 1

-- [attempts]
DELETE FROM {schema}.attempt a
WHERE a.ctid = ANY (ARRAY(
    SELECT a.ctid FROM {schema}.attempt a WHERE NOT EXISTS (SELECT FROM {schema}.job j WHERE j.seq = a.job)
    LIMIT $1::bigint
    FOR UPDATE SKIP LOCKED
))
RETURNING 1
