-- tick: remove ended jobs that find_removable.sql has locked, with all that belongs to them.
-- Guarantees: nothing goes that a live job waits for, or a dead one would need: asked again here, because a dependent may have come in the moment
-- before the lock, and a statement sees only what was committed before it began.
-- Locks: the rows removed. Index: the primary keys, edge_parent.
WITH picked AS MATERIALIZED (
    SELECT e.job, e.state, j.queue
    FROM unnest($1::bigint[]) AS g (job)
    CROSS JOIN LATERAL (SELECT * FROM {schema}.ended e WHERE e.job = g.job OFFSET 0) e
    CROSS JOIN LATERAL (SELECT * FROM {schema}.job j WHERE j.seq = g.job OFFSET 0) j
    WHERE NOT e.has_dependents OR (
        SELECT d.child FROM {schema}.edge d WHERE d.parent = e.job
            AND (SELECT x.job FROM {schema}.ended x WHERE x.job = d.child AND x.state IN ({done_states})) IS NULL
        LIMIT 1) IS NULL
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
