-- submit, fire and spawn: which job has a key. Index: idempotency_pkey.

-- [lock]
-- Take keys that are free, and lock those that are not; is_free tells which. In the order of the key, against deadlocks.
-- $6 'try' leaves out keys that another transaction is taking or has locked (LOCK-2), and 'wait' waits for them;
-- 'none' does without the advisory locks, for many keys. Where the index makes it wait, it waits for $7 at most, if that
-- is not NULL. That holds for this statement only: counted is there to be known once all keys are taken.
WITH usual AS MATERIALIZED (
    SELECT current_setting('lock_timeout') AS patience
),
settings AS MATERIALIZED (
    SELECT set_config('lock_timeout', coalesce($7::text, usual.patience), true) FROM usual
),
given AS MATERIALIZED (
    SELECT g.* FROM settings, unnest($1::text[], $2::text[], $3::uuid[], $4::bytea[], $5::timestamptz[]) AS g (t, k, i, d, e)
    ORDER BY t, k
),
free AS MATERIALIZED (
    SELECT g.*, CASE $6::text
        WHEN 'try' THEN pg_try_advisory_xact_lock(hashtextextended('{schema}' || t || '/' || k, 0))
        WHEN 'wait' THEN pg_advisory_xact_lock(hashtextextended('{schema}' || t || '/' || k, 0))::text IS NOT NULL
        ELSE true
    END AS is_ours
    FROM given g
),
taken AS (
    INSERT INTO {schema}.idempotency AS held (job_type, key, job_id, digest, expires_at)
    SELECT t, k, i, d, e FROM free WHERE is_ours ORDER BY t, k
    ON CONFLICT (job_type, key) DO UPDATE SET key = excluded.key
    RETURNING held.job_type, held.key, held.job_id, held.digest, held.expires_at, held.xmax = 0 AS is_free
),
reset AS MATERIALIZED (
    SELECT set_config('lock_timeout', usual.patience, true)
    FROM usual, (SELECT count(*) AS keys FROM taken) counted
    WHERE counted.keys >= 0
)
SELECT taken.* FROM reset, taken

-- [put]
-- The job that has a key from now on. Locks: the rows, which [lock] has locked or made.
INSERT INTO {schema}.idempotency AS held (job_type, key, job_id, digest, expires_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[], $4::bytea[], $5::timestamptz[])
ON CONFLICT (job_type, key) DO UPDATE
    SET job_id = excluded.job_id, digest = excluded.digest, expires_at = excluded.expires_at

-- [drop]
-- Give back keys that [lock] found free, and made rows for.
DELETE FROM {schema}.idempotency WHERE ctid = ANY (ARRAY(
    SELECT found.address FROM unnest($1::text[], $2::text[]) AS g (job_type, key)
    CROSS JOIN LATERAL (
        SELECT held.ctid AS address FROM {schema}.idempotency held
        WHERE held.job_type = g.job_type AND held.key = g.key OFFSET 0
    ) found
))
