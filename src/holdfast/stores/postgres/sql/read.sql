-- read: whole jobs by id. Locks: none. Index: job_id_key, the primary keys.
SELECT j.*, s.*, n.percent, n.message, n.checkpoint,
    (SELECT p.id FROM {schema}.job p WHERE p.seq = s.ended_by) AS ended_by_id,
    (SELECT p.id FROM {schema}.job p WHERE p.seq = j.spawned_by) AS spawned_by_id
FROM unnest($1::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (SELECT * FROM {schema}.job j WHERE j.id = wanted.id OFFSET 0) j
CROSS JOIN LATERAL (
    SELECT 'SCHEDULED' AS state, attempt, version, replays, lifetime_ends_at,
        NULL::timestamptz AS due_at, scheduled_at AS updated_at, scheduled_at, started_at,
        NULL::timestamptz AS completed_at, NULL::uuid AS token, NULL::uuid AS owner, NULL::timestamptz AS expires_at,
        false AS cancel_requested, last_token, NULL::text AS failure, NULL::bigint AS ended_by, NULL::bytea AS result
    FROM {schema}.ready WHERE job = j.seq
    UNION ALL
    SELECT state, attempt, version, replays, lifetime_ends_at,
        due_at, updated_at, scheduled_at, started_at, NULL, NULL, NULL, NULL, false, last_token, NULL, NULL, NULL
    FROM {schema}.waiting WHERE job = j.seq
    UNION ALL
    SELECT 'RUNNING', attempt, version, replays, lifetime_ends_at,
        NULL, started_at, scheduled_at, started_at, NULL, token, owner, expires_at, cancel_requested, last_token,
        NULL, NULL, NULL
    FROM {schema}.running WHERE job = j.seq
    UNION ALL
    SELECT state, attempt, version, replays, NULL,
        NULL, completed_at, scheduled_at, started_at, completed_at, NULL, owner, NULL, false, last_token,
        failure, ended_by, result
    FROM {schema}.ended WHERE job = j.seq
) s
LEFT JOIN LATERAL (SELECT * FROM {schema}.note n WHERE n.job = j.seq OFFSET 0) n ON true
