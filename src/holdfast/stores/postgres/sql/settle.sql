-- settle: complete attempts, fenced by token. Everything but plain success takes the verbs' way.
-- Guarantees: what is not returned was not changed; a job with dependents leaves a mark.
-- Locks: the running rows it deletes, in the order of seq. It waits for $5 at most. Index: running_pkey.
-- $2 is sorted: a job's token and result stand where it stands there. So there is no join, and no plan made while running
-- is empty, or for a large batch, that reads all of it. Of a job that is named twice the last lease counts; what is not
-- returned takes the verbs' way.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now, set_config('lock_timeout', $5::text, true) AS patience
),
gone AS (
    DELETE FROM {schema}.running r
    WHERE (SELECT patience FROM clock) IS NOT NULL
        AND r.job = ANY ($2::bigint[]) AND r.token = ($3::uuid[])[width_bucket(r.job, $2::bigint[])]
    RETURNING r.job, r.token, r.owner, r.version, r.attempt, r.replays, r.is_fragile, r.has_dependents,
        r.queue, r.scheduled_at, r.started_at,
        ($4::bytea[])[width_bucket(r.job, $2::bigint[])] AS result
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
    count(*) AS settled, array_agg(job) FILTER (WHERE has_dependents) AS marked,
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(job) END AS jobs,
    CASE WHEN count(*) < cardinality($2::bigint[]) THEN array_agg(token) END AS tokens
FROM gone
