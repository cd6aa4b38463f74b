-- attend: this worker's process can be told from a dead one by its session, which holds the advisory lock $2 (NULL: it
-- cannot, or not any more).
-- Locks: the worker's row. Index: worker_pkey.
-- Commits without waiting for the disk: what a crash forgets is said again, and after a crash nobody is taken for dead.
WITH mode AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS commit_mode)
UPDATE {schema}.worker w SET session_key = $2::bigint
FROM mode
WHERE w.id = $1::uuid AND w.session_key IS DISTINCT FROM $2::bigint
