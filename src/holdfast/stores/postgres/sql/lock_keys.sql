-- Take keys that are free, and lock those that are not; is_free tells which. In the order of the key, against deadlocks.
INSERT INTO {schema}.idempotency AS held (job_type, key, job_id, digest, expires_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[], $4::bytea[], $5::timestamptz[]) AS g (t, k, i, d, e)
ORDER BY t, k
ON CONFLICT (job_type, key) DO UPDATE SET key = excluded.key
RETURNING held.job_type, held.key, held.job_id, held.digest, held.expires_at, held.xmax = 0 AS is_free
