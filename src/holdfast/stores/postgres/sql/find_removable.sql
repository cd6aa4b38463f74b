-- tick: a batch of ended jobs past their retention, oldest first, locked, skipping what another process has.
-- None that a live job waits for, whose dependents are still to be told, or whose key still answers.
-- (SELECT … LIMIT 1) IS NULL and not NOT EXISTS, which may be made a join with all that there is: row by row, until the
-- batch is full.
-- Index: ended_done, ended_dead, the primary keys.
WITH old_done AS MATERIALIZED (
    SELECT e.job, e.state, e.completed_at
    FROM {schema}.ended e
    WHERE e.state IN ({done_states}) AND e.completed_at <= $1::timestamptz
        AND (SELECT m.job FROM {schema}.mark m WHERE m.job = e.job) IS NULL
        AND (NOT e.has_dependents OR (
            SELECT d.child FROM {schema}.edge d WHERE d.parent = e.job
                AND (SELECT x.job FROM {schema}.ended x WHERE x.job = d.child) IS NULL
            LIMIT 1) IS NULL)
        AND (
            SELECT k.job_id FROM {schema}.job j
            CROSS JOIN LATERAL (SELECT * FROM {schema}.idempotency k WHERE k.job_id = j.id OFFSET 0) k
            WHERE j.seq = e.job AND k.expires_at > $3::timestamptz
            LIMIT 1) IS NULL
    ORDER BY e.completed_at
    LIMIT $4
    FOR UPDATE SKIP LOCKED
),
old_dead AS MATERIALIZED (
    SELECT e.job, e.state, e.completed_at
    FROM {schema}.ended e
    WHERE e.state IN ({dead_states}) AND e.completed_at <= $2::timestamptz
        AND (SELECT m.job FROM {schema}.mark m WHERE m.job = e.job) IS NULL
        AND (NOT e.has_dependents OR (
            SELECT d.child FROM {schema}.edge d WHERE d.parent = e.job
                AND (SELECT x.job FROM {schema}.ended x WHERE x.job = d.child) IS NULL
            LIMIT 1) IS NULL)
        AND (
            SELECT k.job_id FROM {schema}.job j
            CROSS JOIN LATERAL (SELECT * FROM {schema}.idempotency k WHERE k.job_id = j.id OFFSET 0) k
            WHERE j.seq = e.job AND k.expires_at > $3::timestamptz
            LIMIT 1) IS NULL
    ORDER BY e.completed_at
    LIMIT $4
    FOR UPDATE SKIP LOCKED
)
SELECT old.job AS seq
FROM (SELECT * FROM old_done UNION ALL SELECT * FROM old_dead) old
ORDER BY old.completed_at, old.job
LIMIT $4
