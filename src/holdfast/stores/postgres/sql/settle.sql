-- settle: complete attempts, fenced by token. Everything but plain success takes the verbs' way.
-- Guarantees: what is not returned was not changed; a job with dependents leaves a mark.
-- Locks: the running rows it deletes. Index: running_pkey.
-- Looked up row by row, then deleted by address: a plan made while running is empty, or for a large batch, would
-- otherwise read all of it. What moves in between is not returned, and takes the verbs' way.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
),
held AS MATERIALIZED (
    SELECT r.address, g.token, g.result
    FROM unnest((SELECT $2::bigint[]), (SELECT $3::uuid[]), (SELECT $4::bytea[])) AS g (job, token, result)
    CROSS JOIN LATERAL (
        SELECT r.ctid AS address FROM {schema}.running r WHERE r.job = g.job AND r.token = g.token OFFSET 0
    ) r
),
gone AS (
    DELETE FROM {schema}.running r
    USING held h
    WHERE r.ctid = h.address AND r.token = h.token
    RETURNING r.job, r.token, r.owner, r.version, r.attempt, r.replays, r.is_fragile, r.has_dependents,
        r.queue, r.scheduled_at, r.started_at, h.result
),
finished AS (
    INSERT INTO {schema}.ended (
        job, state, completed_at, scheduled_at, started_at, last_token, owner, version, attempt, replays,
        is_fragile, has_dependents, result
    )
    SELECT
        job, 'COMPLETED', clock.now, scheduled_at, started_at, token, owner, version, attempt, replays,
        is_fragile, has_dependents, result
    FROM gone, clock
),
marked AS (
    INSERT INTO {schema}.mark (job)
    SELECT job FROM gone WHERE has_dependents
    ON CONFLICT DO NOTHING
),
counted AS (
    INSERT INTO {schema}.tally (queue, state, delta)
    SELECT g.queue, v.state, v.sign * g.jobs
    FROM (SELECT queue, count(*) AS jobs FROM gone GROUP BY queue) g
    CROSS JOIN (VALUES ('RUNNING', -1), ('COMPLETED', 1)) AS v (state, sign)
)
-- Which ones is told only if it was not all of them.
SELECT
    count(*) AS settled, coalesce(bool_or(has_dependents), false) AS has_dependents,
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(job) END AS jobs,
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(token) END AS tokens
FROM gone
