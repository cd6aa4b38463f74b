-- tick: jobs over their lifetime that are not running, locked. Index: ready_lifetime, waiting_lifetime.
WITH in_ready AS (
    SELECT r.job AS seq, r.lifetime_ends_at
    FROM {schema}.ready r
    WHERE r.lifetime_ends_at <= $1::timestamptz
    ORDER BY r.lifetime_ends_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
in_waiting AS (
    SELECT w.job AS seq, w.lifetime_ends_at
    FROM {schema}.waiting w
    WHERE w.lifetime_ends_at <= $1::timestamptz
    ORDER BY w.lifetime_ends_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
SELECT seq FROM (SELECT * FROM in_ready UNION ALL SELECT * FROM in_waiting) found
ORDER BY lifetime_ends_at, seq
LIMIT $2
