-- tick: remove ended jobs past their retention, oldest first, with all that belongs to them; and keys, workers and slots
-- past theirs.
-- Guarantees: no job goes that a live job waits for or a dead one would need if it was replayed, whose dependents are
-- still to be told, or whose key still answers.

-- [find_done]
-- COMPLETED and CANCELLED jobs to look at, from the time $1 on without the first $2 of them, until $3, oldest first.
-- Not by (completed_at, job): jobs that ended at the same time, which may be many, would have to be sorted.
-- Locks: none. Index: ended_done.
SELECT e.completed_at, e.job
FROM {schema}.ended e
WHERE e.state IN ({done_states}) AND e.completed_at >= $1::timestamptz AND e.completed_at <= $3::timestamptz
ORDER BY e.completed_at
OFFSET $2
LIMIT $4

-- [find_dead]
-- The same for FAILED and DEAD_LETTER. Index: ended_dead.
SELECT e.completed_at, e.job
FROM {schema}.ended e
WHERE e.state IN ({dead_states}) AND e.completed_at >= $1::timestamptz AND e.completed_at <= $3::timestamptz
ORDER BY e.completed_at
OFFSET $2
LIMIT $4

-- [removable]
-- Which of them may go, locked, skipping what another process has.
-- Looked up row by row, until the batch is full. Index: the primary keys, edge_parent, idempotency_job.
SELECT e.job AS seq
FROM unnest($1::bigint[]) AS g (job)
CROSS JOIN LATERAL (
    SELECT e.job FROM {schema}.ended e
    WHERE e.job = g.job
        AND e.completed_at <= CASE WHEN e.state IN ({dead_states}) THEN $3::timestamptz ELSE $2::timestamptz END
        AND (SELECT m.job FROM {schema}.mark m WHERE m.job = e.job) IS NULL
        AND (NOT e.has_dependents OR (
            {dependent_in_need}) IS NULL)
        AND (
            SELECT k.job_id FROM {schema}.job j
            CROSS JOIN LATERAL (SELECT * FROM {schema}.idempotency k WHERE k.job_id = j.id OFFSET 0) k
            WHERE j.seq = e.job AND k.expires_at > $4::timestamptz
            LIMIT 1) IS NULL
    FOR UPDATE SKIP LOCKED
) e
LIMIT $5

-- [remove]
-- Remove those that [removable] has locked. Whether a dependent needs one is asked again: it may have come in the moment
-- before the lock, and a statement sees only what was committed before it began.
-- Locks: the rows removed. Index: the primary keys, edge_parent.
WITH picked AS MATERIALIZED (
    SELECT e.job, e.state, j.queue
    FROM unnest($1::bigint[]) AS g (job)
    CROSS JOIN LATERAL (SELECT * FROM {schema}.ended e WHERE e.job = g.job OFFSET 0) e
    CROSS JOIN LATERAL (SELECT * FROM {schema}.job j WHERE j.seq = g.job OFFSET 0) j
    WHERE NOT e.has_dependents OR (
        {dependent_in_need}) IS NULL
),
seqs AS MATERIALIZED (SELECT ARRAY(SELECT job FROM picked) AS jobs),
gone AS (DELETE FROM {schema}.ended e USING seqs WHERE e.job = ANY (seqs.jobs) RETURNING e.job),
facts AS (DELETE FROM {schema}.job j USING seqs WHERE j.seq = ANY (seqs.jobs)),
children AS (DELETE FROM {schema}.edge d USING seqs WHERE d.child = ANY (seqs.jobs)),
parents AS (DELETE FROM {schema}.edge d USING seqs WHERE d.parent = ANY (seqs.jobs) AND NOT d.child = ANY (seqs.jobs)),
notes AS (DELETE FROM {schema}.note n USING seqs WHERE n.job = ANY (seqs.jobs)),
tags AS (DELETE FROM {schema}.tag t USING seqs WHERE t.job = ANY (seqs.jobs)),
attempts AS (DELETE FROM {schema}.attempt a USING seqs WHERE a.job = ANY (seqs.jobs)),
counted AS (
    INSERT INTO {schema}.tally (queue, state, delta)
    SELECT queue, state, -count(*) FROM picked GROUP BY queue, state
)
SELECT count(*) AS removed FROM gone

-- [keys]
-- Keys whose window is over, and the jobs that they stood for. Locks: their rows, skipping locked ones.
-- Index: idempotency_expires.
DELETE FROM {schema}.idempotency WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {schema}.idempotency WHERE expires_at <= $1::timestamptz
    ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
)) RETURNING job_id

-- [workers]
-- Workers lost and not seen since $1. Locks: their rows. Reads all workers.
DELETE FROM {schema}.worker w WHERE w.is_lost AND w.seen_at < $1::timestamptz

-- [slots]
-- Slots fired until $1, but never the newest of a name that has come by $2. Locks: their rows, skipping locked ones.
-- Index: cron_slot_fired, cron_slot_pkey.
DELETE FROM {schema}.cron_slot WHERE ctid = ANY (ARRAY(
    SELECT c.ctid FROM {schema}.cron_slot c
    WHERE c.fired_at <= $1::timestamptz AND (
        SELECT n.slot FROM {schema}.cron_slot n
        WHERE n.name = c.name AND n.slot > c.slot AND n.slot <= $2::timestamptz
        ORDER BY n.slot LIMIT 1
    ) IS NOT NULL
    ORDER BY c.fired_at LIMIT $3 FOR UPDATE SKIP LOCKED
))
