-- How the $1 jobs of history_job.sql ended. Rows and columns as settle.sql writes them.
INSERT INTO {schema}.ended (
    job, state, completed_at, scheduled_at, started_at, last_token, owner, version, attempt, replays,
    is_fragile, has_dependents, result
)
SELECT n, 'COMPLETED', at, at, at, gen_random_uuid(), worker, 1, 1, 0, false, false, $2::bytea
FROM
    (SELECT gen_random_uuid() AS worker) AS w,
    (SELECT n, now() - make_interval(secs => ($1::bigint - n) * 0.01) AS at FROM generate_series(1, $1::bigint) AS n)
        AS numbered
