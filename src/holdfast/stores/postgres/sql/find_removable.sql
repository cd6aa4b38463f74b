-- tick: which of these ended jobs may go, locked, skipping what another process has.
-- None before its retention is over, that a live job waits for or a dead one would need if it was replayed, whose
-- dependents are still to be told, or whose key still answers.
-- Looked up row by row, until the batch is full. Index: the primary keys, edge_parent, idempotency_job.
SELECT e.job AS seq
FROM unnest($1::bigint[]) AS g (job)
CROSS JOIN LATERAL (
    SELECT e.job FROM {schema}.ended e
    WHERE e.job = g.job
        AND e.completed_at <= CASE WHEN e.state IN ({dead_states}) THEN $3::timestamptz ELSE $2::timestamptz END
        AND (SELECT m.job FROM {schema}.mark m WHERE m.job = e.job) IS NULL
        AND (NOT e.has_dependents OR (
            SELECT d.child FROM {schema}.edge d WHERE d.parent = e.job
                AND (SELECT x.job FROM {schema}.ended x WHERE x.job = d.child AND x.state IN ({done_states})) IS NULL
            LIMIT 1) IS NULL)
        AND (
            SELECT k.job_id FROM {schema}.job j
            CROSS JOIN LATERAL (SELECT * FROM {schema}.idempotency k WHERE k.job_id = j.id OFFSET 0) k
            WHERE j.seq = e.job AND k.expires_at > $4::timestamptz
            LIMIT 1) IS NULL
    FOR UPDATE SKIP LOCKED
) e
LIMIT $5
