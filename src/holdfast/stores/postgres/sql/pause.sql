-- pause and resume: a paused queue's jobs are not claimed. Locks: the queue's row. Index: pause_pkey.

-- [pause]
INSERT INTO {schema}.pause (queue, paused_at)
VALUES ($1::text, coalesce($2::timestamptz, clock_timestamp())) ON CONFLICT DO NOTHING

-- [resume]
DELETE FROM {schema}.pause WHERE queue = $1::text
