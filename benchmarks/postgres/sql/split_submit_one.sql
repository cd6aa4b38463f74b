-- By hand: one job's facts and its ready row, committed together.
WITH inserted AS (
    INSERT INTO {schema}.job (
        id, type, queue, priority, depth, payload, is_json, created_at,
        max_attempts, visibility_seconds, lifetime_seconds
    )
    VALUES ($1, $2, $3, $4, 0, $5, $6, now(), $7, $8, $9)
    RETURNING seq, type, queue, priority, created_at, lifetime_seconds
)
INSERT INTO {schema}.ready (
    job, queue, priority, place, version, attempt, replays, is_fragile, has_dependents, scheduled_at, lifetime_ends_at,
    type
)
SELECT
    seq, queue, priority, seq, 0, 0, 0, false, false,
    created_at, created_at + make_interval(secs => lifetime_seconds), type
FROM inserted
