-- The questions. Locks: none.

-- [seq]
-- Index: job_id_key.
SELECT seq FROM {schema}.job WHERE id = $1::uuid

-- [seqs]
-- In a transaction only, whose settings keep the planner from the whole table. Index: job_id_key.
SELECT id, seq FROM {schema}.job WHERE id = ANY ($1::uuid[])

-- [existing]
-- Index: job_pkey.
SELECT seq FROM {schema}.job WHERE seq = ANY ($1::bigint[])

-- [jobs]
-- Whole jobs by id, wherever they stand. Index: job_id_key, the primary keys.
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

-- [dependencies]
-- What these jobs wait for, or have waited for. Index: edge_pkey, job_pkey.
SELECT e.child, e.kind, p.id FROM unnest($1::bigint[]) AS g (child)
CROSS JOIN LATERAL (SELECT * FROM {schema}.edge e WHERE e.child = g.child OFFSET 0) e
CROSS JOIN LATERAL (SELECT id FROM {schema}.job p WHERE p.seq = e.parent OFFSET 0) p
ORDER BY e.child, e.parent

-- [attempts]
-- Index: job_id_key, attempt_pkey.
SELECT a.* FROM {schema}.attempt a
WHERE a.job = (SELECT j.seq FROM {schema}.job j WHERE j.id = $1::uuid) ORDER BY a.version

-- [queues]
-- $1: before which place no job waits, by priority and queue. What lies there is dead, and may be much.
-- Reads all of the tally, which tick keeps short. Index: ready_claim, five looks a queue.
WITH counts AS MATERIALIZED (
    SELECT queue, state, sum(delta)::bigint AS jobs FROM {schema}.tally GROUP BY queue, state
),
names AS MATERIALIZED (
    SELECT queue FROM counts UNION SELECT queue FROM {schema}.pause
),
oldest AS MATERIALIZED (
    SELECT n.queue, (
        SELECT min(first.scheduled_at)
        FROM generate_series(0, 4) AS lane (priority)
        CROSS JOIN LATERAL (
            SELECT r.scheduled_at FROM {schema}.ready r
            WHERE r.queue = n.queue AND r.priority = lane.priority
                AND r.place > coalesce(($1::jsonb ->> (lane.priority || ' ' || n.queue))::bigint, 0)
            ORDER BY r.place LIMIT 1
        ) first
    ) AS scheduled_at
    FROM names n
)
SELECT n.queue, c.state, c.jobs,
    EXISTS (SELECT FROM {schema}.pause p WHERE p.queue = n.queue) AS is_paused,
    n.scheduled_at AS oldest_scheduled_at
FROM oldest n LEFT JOIN counts c ON c.queue = n.queue
ORDER BY n.queue

-- [workers]
-- All workers, and how many leases each has: all leases are walked over, which are as many as there are slots.
SELECT w.*, coalesce(held.leases, 0) AS running
FROM {schema}.worker w
LEFT JOIN (
    SELECT r.owner, count(*) AS leases FROM {schema}.running r GROUP BY r.owner
) held ON held.owner = w.id
ORDER BY w.registered_at, w.id

-- [place]
-- How many jobs stand before one in its queue, counted backwards from it and no further than $3; whether the queue is
-- paused; and the time. Index: job_id_key, the primary keys, ready_claim.
SELECT
    coalesce($1::timestamptz, clock_timestamp()) AS now,
    (SELECT p.paused_at FROM {schema}.pause p WHERE p.queue = j.queue) AS paused_at,
    CASE WHEN r.job IS NOT NULL THEN (
        SELECT count(*) FROM (
            SELECT FROM {schema}.ready a
            WHERE a.queue = r.queue AND (a.priority, a.place) < (r.priority, r.place)
            ORDER BY a.priority DESC, a.place DESC
            LIMIT (SELECT $3::bigint)
        ) before
    ) END AS ahead
FROM (SELECT * FROM {schema}.job j WHERE j.id = $2::uuid OFFSET 0) j
LEFT JOIN LATERAL (SELECT * FROM {schema}.ready r WHERE r.job = j.seq OFFSET 0) r ON true

-- [cron]
-- The time, and of each name the newest slot that has come, by stepping from name to name.
-- Index: cron_slot_pkey, two looks a name.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
),
step AS (
    (SELECT c.name FROM {schema}.cron_slot c ORDER BY c.name LIMIT 1)
    UNION ALL
    SELECT (SELECT c.name FROM {schema}.cron_slot c WHERE c.name > step.name ORDER BY c.name LIMIT 1)
    FROM step WHERE step.name IS NOT NULL
)
SELECT clock.now, newest.*
FROM clock
LEFT JOIN LATERAL (
    SELECT c.*
    FROM step
    CROSS JOIN LATERAL (
        SELECT c.* FROM {schema}.cron_slot c WHERE c.name = step.name AND c.slot <= clock.now
        ORDER BY c.slot DESC LIMIT 1
    ) c
) newest ON true
