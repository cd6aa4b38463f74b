-- The records of these jobs, locked wherever they stand. A job that moved while we waited for its lock is missing from
-- the answer: the caller asks again.
-- Locks: one live or ended row a job, in the order of the tables below and of seq (LOCK-1). It waits for $2 at
-- most; where that is NULL, for as long as the session says. Index: the primary keys.
WITH settings AS MATERIALIZED (
    SELECT set_config('lock_timeout', coalesce($2::text, current_setting('lock_timeout')), true)
),
wanted AS MATERIALIZED (
    SELECT seq FROM settings, unnest($1::bigint[]) AS g (seq) ORDER BY seq
),
in_ready AS MATERIALIZED (
    SELECT r.* FROM wanted w CROSS JOIN LATERAL (
        SELECT * FROM {schema}.ready r WHERE r.job = w.seq FOR UPDATE
    ) r
),
in_waiting AS MATERIALIZED (
    SELECT r.* FROM wanted w CROSS JOIN LATERAL (
        SELECT * FROM {schema}.waiting r WHERE r.job = w.seq FOR UPDATE
    ) r
),
in_running AS MATERIALIZED (
    SELECT r.* FROM wanted w CROSS JOIN LATERAL (
        SELECT * FROM {schema}.running r WHERE r.job = w.seq FOR UPDATE
    ) r
),
in_ended AS MATERIALIZED (
    SELECT r.* FROM wanted w CROSS JOIN LATERAL (
        SELECT * FROM {schema}.ended r WHERE r.job = w.seq FOR UPDATE
    ) r
),
stands AS MATERIALIZED (
    SELECT job, 'SCHEDULED' AS state, attempt, version, replays, is_fragile, has_dependents, lifetime_ends_at,
        NULL::timestamptz AS due_at, scheduled_at AS updated_at, scheduled_at, started_at,
        NULL::timestamptz AS completed_at, NULL::uuid AS token, NULL::uuid AS owner, NULL::timestamptz AS expires_at,
        false AS cancel_requested, last_token, NULL::text AS failure, NULL::bigint AS ended_by
    FROM in_ready
    UNION ALL
    SELECT job, state, attempt, version, replays, is_fragile, has_dependents, lifetime_ends_at,
        due_at, updated_at, scheduled_at, started_at,
        NULL, NULL, NULL, NULL, false, last_token, NULL, NULL
    FROM in_waiting
    UNION ALL
    SELECT job, 'RUNNING', attempt, version, replays, is_fragile, has_dependents, lifetime_ends_at,
        NULL, started_at, scheduled_at, started_at,
        NULL, token, owner, expires_at, cancel_requested, last_token, NULL, NULL
    FROM in_running
    UNION ALL
    SELECT job, state, attempt, version, replays, is_fragile, has_dependents, NULL,
        NULL, completed_at, scheduled_at, started_at,
        completed_at, NULL, owner, NULL, false, last_token, failure, ended_by
    FROM in_ended
)
SELECT j.seq, j.id, j.type, j.queue, j.priority, j.depth, j.max_attempts, j.visibility_seconds, j.lifetime_seconds,
    j.created_at, j.run_at, j.spawned_by, s.*
FROM stands s
CROSS JOIN LATERAL (SELECT * FROM {schema}.job j WHERE j.seq = s.job OFFSET 0) j
