-- The $1 jobs of history_job.sql are counted, and the next one is numbered after them.
WITH counted AS (
    INSERT INTO {schema}.tally (queue, state, delta) VALUES ($2::text, 'COMPLETED', $1::bigint)
)
SELECT setval('{schema}.job_seq', $1::bigint)
