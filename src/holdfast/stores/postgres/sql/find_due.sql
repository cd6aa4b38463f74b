-- tick: DELAYED and RETRYING jobs whose time has come, locked, skipping what another tick has.
-- Index: waiting_due.
SELECT w.job AS seq
FROM {schema}.waiting w
WHERE w.due_at <= $1::timestamptz AND w.due_at > $2::timestamptz
ORDER BY w.due_at, w.job
LIMIT $3
FOR UPDATE SKIP LOCKED
