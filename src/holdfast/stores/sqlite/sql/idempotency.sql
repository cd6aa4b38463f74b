-- submit, fire and spawn: which job has a key.
-- Locks: none of its own; the transaction has the only write lock there is. Index: the primary key.

-- [find]
SELECT job_id, digest, expires_at FROM holdfast_idempotency WHERE job_type = ?1 AND key = ?2

-- [put]
INSERT OR REPLACE INTO holdfast_idempotency (job_type, key, job_id, digest, expires_at) VALUES (?, ?, ?, ?, ?)
