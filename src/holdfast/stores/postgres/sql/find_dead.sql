-- tick: jobs past their retention to look at, from the time $1 on without the first $2 of them, until $3, oldest first.
-- Not by (completed_at, job): jobs that ended at the same time, which may be many, would have to be sorted.
-- Index: ended_dead.
SELECT e.completed_at, e.job
FROM {schema}.ended e
WHERE e.state IN ({dead_states}) AND e.completed_at >= $1::timestamptz AND e.completed_at <= $3::timestamptz
ORDER BY e.completed_at
OFFSET $2
LIMIT $4
