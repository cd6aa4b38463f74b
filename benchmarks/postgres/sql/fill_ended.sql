-- $1 plain jobs that completed over the last hours. Rows and columns as submit.sql and settle.sql write them.
WITH inserted AS (
    INSERT INTO {schema}.job (
        id, type, queue, priority, depth, payload, is_json, created_at,
        max_attempts, visibility_seconds, lifetime_seconds
    )
    SELECT
        (lpad(to_hex((n - 1) * 4294967296 / $1::bigint), 8, '0') || substr(md5(n || 'e' || random()), 1, 24))::uuid,
        $2::text, 'queue-0', 2, 0, $3::bytea, true, now() - make_interval(secs => ($1::bigint - n) * 0.01),
        3, 300, 604800
    FROM generate_series(1, $1::bigint) AS n
    RETURNING seq, id, created_at
),
finished AS (
    INSERT INTO {schema}.ended (
        job, state, completed_at, scheduled_at, started_at, last_token, owner, version, attempt, replays,
        is_fragile, has_dependents, result
    )
    SELECT seq, 'COMPLETED', created_at, created_at, created_at, id, id, 1, 1, 0, false, false, $4::bytea
    FROM inserted
)
INSERT INTO {schema}.tally (queue, state, delta) VALUES ('queue-0', 'COMPLETED', $1::bigint)
