-- tick: remove a batch of ended jobs past their retention, oldest first, with all that belongs to them.
-- Guarantees: nothing goes that a live job waits for, whose dependents are still to be told, or whose key still answers.
-- Locks: the rows removed, skipping locked ones. Index: ended_done, ended_dead, the primary keys.
WITH old_done AS MATERIALIZED (
    SELECT e.job, e.state, e.completed_at
    FROM {schema}.ended e
    WHERE e.state IN ({done_states}) AND e.completed_at <= $1::timestamptz
        AND NOT EXISTS (SELECT FROM {schema}.mark m WHERE m.job = e.job)
        AND (NOT e.has_dependents OR NOT EXISTS (
            SELECT FROM {schema}.edge d WHERE d.parent = e.job
                AND NOT EXISTS (SELECT FROM {schema}.ended x WHERE x.job = d.child)))
        AND NOT EXISTS (
            SELECT FROM {schema}.job j, {schema}.idempotency k
            WHERE j.seq = e.job AND k.job_id = j.id AND k.expires_at > $3::timestamptz)
    ORDER BY e.completed_at
    LIMIT $4
    FOR UPDATE SKIP LOCKED
),
old_dead AS MATERIALIZED (
    SELECT e.job, e.state, e.completed_at
    FROM {schema}.ended e
    WHERE e.state IN ({dead_states}) AND e.completed_at <= $2::timestamptz
        AND NOT EXISTS (SELECT FROM {schema}.mark m WHERE m.job = e.job)
        AND (NOT e.has_dependents OR NOT EXISTS (
            SELECT FROM {schema}.edge d WHERE d.parent = e.job
                AND NOT EXISTS (SELECT FROM {schema}.ended x WHERE x.job = d.child)))
        AND NOT EXISTS (
            SELECT FROM {schema}.job j, {schema}.idempotency k
            WHERE j.seq = e.job AND k.job_id = j.id AND k.expires_at > $3::timestamptz)
    ORDER BY e.completed_at
    LIMIT $4
    FOR UPDATE SKIP LOCKED
),
picked AS MATERIALIZED (
    SELECT * FROM (SELECT * FROM old_done UNION ALL SELECT * FROM old_dead) old
    ORDER BY old.completed_at, old.job
    LIMIT $4
),
seqs AS MATERIALIZED (SELECT ARRAY(SELECT job FROM picked) AS jobs),
gone AS (DELETE FROM {schema}.ended e USING seqs WHERE e.job = ANY (seqs.jobs) RETURNING e.job, e.state),
facts AS (DELETE FROM {schema}.job j USING seqs WHERE j.seq = ANY (seqs.jobs) RETURNING j.seq, j.queue),
children AS (DELETE FROM {schema}.edge d USING seqs WHERE d.child = ANY (seqs.jobs)),
parents AS (DELETE FROM {schema}.edge d USING seqs WHERE d.parent = ANY (seqs.jobs) AND NOT d.child = ANY (seqs.jobs)),
notes AS (DELETE FROM {schema}.note n USING seqs WHERE n.job = ANY (seqs.jobs)),
tags AS (DELETE FROM {schema}.tag t USING seqs WHERE t.job = ANY (seqs.jobs)),
attempts AS (DELETE FROM {schema}.attempt a USING seqs WHERE a.job = ANY (seqs.jobs)),
counted AS (
    INSERT INTO {schema}.tally (queue, state, delta)
    SELECT f.queue, p.state, -count(*)
    FROM picked p JOIN facts f ON f.seq = p.job
    GROUP BY 1, 2
)
SELECT count(*) AS removed FROM gone
