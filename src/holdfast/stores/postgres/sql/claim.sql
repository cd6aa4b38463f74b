-- claim: a batch of leases ([lease]), or those of some IDs ([lease_ids]); the answer that was lost ([again]); where the
-- next claims may start, which a refresh asks now and then beside them ([holders], [floors]).

-- [lease]
-- Lease up to $6 jobs, lane by lane in the order given, inside a lane by place.
-- $8 is the claim's nonce without its last four digits: tokens are made from it as the claimer makes them, numbered in
-- the order of the jobs' seq, which is found without a window over all of them.
-- Guarantees: a job is taken by one claim only; a job that was ever reclaimed is taken alone; attempt and version are
-- counted here. Commits without waiting for the disk: if the server crashes and forgets the claim, the jobs are ready
-- again and the tokens given out match nothing.
-- Rows come in no order: the lanes' order is the claimer's, who sorts them.
-- The limit is hidden in a SELECT, and the lifetime in a difference that no index has: a planner that takes the lane for
-- shorter than it is, or the table for nearly empty, would otherwise read and sort all that there is.
-- Locks: the ready rows it takes, skipping locked ones. Index: ready_claim from the lane's cursor on, job_pkey.
WITH settings AS MATERIALIZED (
    SELECT
        coalesce($1::timestamptz, clock_timestamp()) AS now,
        set_config('synchronous_commit', 'off', true) AS commit_mode,
        EXISTS (SELECT FROM {schema}.worker w WHERE w.id = $2::uuid AND NOT w.is_lost) AS is_known
),
picked AS MATERIALIZED (
    SELECT
        array_agg(found.address) AS addresses,
        array_agg(found.job) AS jobs,
        array_agg(found.job ORDER BY found.job) AS sorted_jobs,
        array_position(array_agg(found.is_fragile), true) AS first_fragile,
        -- The lanes before this one were searched to the end.
        CASE WHEN count(*) < $6::bigint THEN cardinality($3::text[]) + 1 ELSE max(found.number) END AS end_of_search
    FROM (
        SELECT r.address, r.job, r.is_fragile, lane.number
        FROM settings s
        CROSS JOIN unnest($3::text[], $4::smallint[], $5::bigint[])
            WITH ORDINALITY AS lane (queue, priority, after, number)
        CROSS JOIN LATERAL (
            SELECT r.ctid AS address, r.job, r.is_fragile
            FROM {schema}.ready r
            WHERE r.queue = lane.queue AND r.priority = lane.priority AND r.place > lane.after
                AND r.lifetime_ends_at - s.now > interval '0'
                AND ($7::text[] IS NULL
                    OR coalesce(r.type, (SELECT j.type FROM {schema}.job j WHERE j.seq = r.job)) = ANY ($7::text[]))
            ORDER BY r.place
            LIMIT (SELECT $6::bigint)
            FOR UPDATE SKIP LOCKED
        ) r
        -- Not NOT EXISTS: as a join it need not keep the order of the lanes.
        WHERE s.is_known AND (SELECT p.queue FROM {schema}.pause p WHERE p.queue = lane.queue) IS NULL
        LIMIT (SELECT $6::bigint)
    ) found
),
-- All of them, or those before the first that must be taken alone.
chosen AS MATERIALIZED (
    SELECT p.addresses, p.sorted_jobs FROM picked p WHERE p.first_fragile IS NULL
    UNION ALL
    SELECT
        p.addresses[:greatest(1, p.first_fragile - 1)],
        ARRAY(SELECT g.job FROM unnest(p.jobs[:greatest(1, p.first_fragile - 1)]) AS g (job) ORDER BY g.job)
    FROM picked p
    WHERE p.first_fragile IS NOT NULL
),
taken AS (
    DELETE FROM {schema}.ready r
    WHERE r.ctid = ANY ((SELECT c.addresses FROM chosen c)::tid[])
    RETURNING r.*
),
claimed AS MATERIALIZED (
    SELECT
        t.job, t.queue, t.priority, t.place, t.version + 1 AS version, t.attempt + 1 AS attempt, t.replays,
        t.is_fragile, t.has_dependents, t.scheduled_at, t.started_at IS NOT NULL AS was_started, t.lifetime_ends_at,
        t.last_token,
        ($8::text || lpad(to_hex(width_bucket(t.job, (SELECT c.sorted_jobs FROM chosen c)) - 1), 4, '0'))::uuid AS token,
        s.now AS started_at,
        least(s.now + make_interval(secs => j.visibility_seconds), t.lifetime_ends_at) AS expires_at,
        j.id, j.type, j.payload, j.is_json, j.max_attempts, j.created_at, j.depth, j.options, j.visibility_seconds
    FROM taken t
    CROSS JOIN settings s
    CROSS JOIN LATERAL (SELECT * FROM {schema}.job j WHERE j.seq = t.job OFFSET 0) j
),
leased AS (
    INSERT INTO {schema}.running (
        job, token, owner, version, attempt, replays, is_fragile, has_dependents, queue,
        scheduled_at, started_at, expires_at, lifetime_ends_at, visibility_seconds, last_token
    )
    SELECT
        job, token, $2, version, attempt, replays, is_fragile, has_dependents, queue,
        scheduled_at, started_at, expires_at, lifetime_ends_at, visibility_seconds, last_token
    FROM claimed
),
counted AS (
    INSERT INTO {schema}.tally (queue, state, delta)
    SELECT c.queue, v.state, v.sign * c.jobs
    FROM (SELECT queue, count(*) AS jobs FROM claimed GROUP BY queue) c
    CROSS JOIN (VALUES ('SCHEDULED', -1), ('RUNNING', 1)) AS v (state, sign)
)
SELECT
    -- Times are what a driver takes longest over. All have started now: one row says when. And an end is told only where
    -- it is not visibility_seconds after that.
    s.is_known, c.place, c.job, c.queue, c.priority, c.version, c.attempt, c.token, c.last_token,
    CASE WHEN c.job = (SELECT min(f.job) FROM claimed f) THEN s.now END AS started_at,
    CASE WHEN c.expires_at = c.lifetime_ends_at THEN c.expires_at END AS expires_at, c.visibility_seconds, c.id, c.type, c.payload, c.is_json, c.max_attempts, c.created_at, c.options,
    c.depth > 0 AND (SELECT e.child FROM {schema}.edge e WHERE e.child = c.job LIMIT 1) IS NOT NULL AS has_dependencies,
    CASE WHEN c.was_started OR c.version > 1
        THEN (SELECT note.checkpoint FROM {schema}.note WHERE note.job = c.job) END AS checkpoint,
    c.is_fragile,
    -- Of a claim that found nothing or is asked for it ($9), in one row: the last row, of whatever type, of each lane that
    -- was searched to the end. Where a job must be taken alone, those after it were found and left: nothing is passed.
    CASE WHEN c.job IS NULL OR $9::boolean AND c.job = (SELECT min(f.job) FROM claimed f) THEN ARRAY(
        SELECT (
            SELECT r.place
            FROM {schema}.ready r
            WHERE r.queue = lane.queue AND r.priority = lane.priority AND r.place > lane.after
                AND (SELECT p.queue FROM {schema}.pause p WHERE p.queue = lane.queue) IS NULL
                AND lane.number < (SELECT p.end_of_search FROM picked p WHERE p.first_fragile IS NULL)
            ORDER BY r.place DESC
            LIMIT (SELECT 1)
        )
        FROM unnest($3::text[], $4::smallint[], $5::bigint[])
            WITH ORDINALITY AS lane (queue, priority, after, number)
    ) END AS seen
FROM settings s
LEFT JOIN claimed c ON true

-- [lease_ids]
-- Lease the jobs with these IDs ($3) that a claim could have now, and DELAYED and RETRYING ones whose time has
-- come. $4: the queues. $5: the types, NULL for all. $6: the nonce without its last four digits, as above.
-- Guarantees: those of [lease]. A job that must be taken alone comes first among the IDs, or ends the batch before it.
-- What another transaction has locked or moved since the look is left, as is what stands behind a job taken alone.
-- Locks: the ready and waiting rows it takes, skipping locked ones. Index: job_id_key, the primary keys.
WITH settings AS MATERIALIZED (
    SELECT
        coalesce($1::timestamptz, clock_timestamp()) AS now,
        set_config('synchronous_commit', 'off', true) AS commit_mode,
        EXISTS (SELECT FROM {schema}.worker w WHERE w.id = $2::uuid AND NOT w.is_lost) AS is_known
),
-- As decisions.why_not has it; NULL for what can be claimed.
asked AS MATERIALIZED (
    SELECT
        g.number, j.seq, stands.state, stands.due_at,
        CASE
            WHEN stands.state IS NULL OR stands.state = 'PENDING' OR stands.lifetime_ends_at <= s.now THEN 'GONE'
            WHEN j.queue <> ALL ($4::text[]) OR j.type <> ALL ($5::text[]) THEN 'FOREIGN'
            WHEN (SELECT p.queue FROM {schema}.pause p WHERE p.queue = j.queue) IS NOT NULL THEN 'PAUSED'
            WHEN stands.due_at > s.now THEN 'EARLY'
            WHEN stands.state = 'RETRYING' AND stands.attempt >= j.max_attempts THEN 'GONE'
            WHEN stands.state = 'RUNNING' THEN 'BUSY'
        END AS why
    FROM settings s
    CROSS JOIN unnest($3::uuid[]) WITH ORDINALITY AS g (id, number)
    LEFT JOIN LATERAL (
        SELECT j.seq, j.queue, j.type, j.max_attempts FROM {schema}.job j WHERE j.id = g.id OFFSET 0
    ) j ON true
    LEFT JOIN LATERAL (
        SELECT 'SCHEDULED' AS state, NULL::timestamptz AS due_at, r.lifetime_ends_at, r.attempt
        FROM {schema}.ready r WHERE r.job = j.seq
        UNION ALL
        SELECT w.state, w.due_at, w.lifetime_ends_at, w.attempt FROM {schema}.waiting w WHERE w.job = j.seq
        UNION ALL
        SELECT 'RUNNING', NULL, r.lifetime_ends_at, r.attempt FROM {schema}.running r WHERE r.job = j.seq
    ) stands ON true
    WHERE s.is_known
),
free AS MATERIALIZED (
    SELECT a.number, a.seq, a.state, r.address, r.is_fragile
    FROM asked a
    CROSS JOIN LATERAL (
        SELECT r.ctid AS address, r.is_fragile FROM {schema}.ready r WHERE r.job = a.seq FOR UPDATE SKIP LOCKED
    ) r
    WHERE a.why IS NULL AND a.state = 'SCHEDULED'
    UNION ALL
    SELECT a.number, a.seq, a.state, w.address, w.is_fragile
    FROM asked a
    CROSS JOIN LATERAL (
        SELECT w.ctid AS address, w.is_fragile
        FROM {schema}.waiting w
        WHERE w.job = a.seq AND w.due_at <= (SELECT s.now FROM settings s)
        FOR UPDATE SKIP LOCKED
    ) w
    WHERE a.why IS NULL AND a.state <> 'SCHEDULED'
),
-- All of them, or those before the first that must be taken alone.
chosen AS MATERIALIZED (
    SELECT f.seq, f.state, f.address
    FROM free f
    CROSS JOIN (SELECT min(number) AS first, min(number) FILTER (WHERE is_fragile) AS first_fragile FROM free) p
    WHERE f.number = p.first OR p.first_fragile IS NULL OR f.number < p.first_fragile
),
from_ready AS (
    DELETE FROM {schema}.ready r
    WHERE r.ctid = ANY (ARRAY(SELECT c.address FROM chosen c WHERE c.state = 'SCHEDULED'))
    RETURNING r.job, 'SCHEDULED' AS state, r.version, r.attempt, r.replays, r.is_fragile, r.has_dependents,
        r.scheduled_at, r.started_at, r.lifetime_ends_at, r.last_token
),
from_waiting AS (
    DELETE FROM {schema}.waiting w
    WHERE w.ctid = ANY (ARRAY(SELECT c.address FROM chosen c WHERE c.state <> 'SCHEDULED'))
    RETURNING w.job, w.state, w.version, w.attempt, w.replays, w.is_fragile, w.has_dependents,
        NULL::timestamptz, w.started_at, w.lifetime_ends_at, w.last_token
),
claimed AS MATERIALIZED (
    SELECT
        t.job, j.queue, j.priority, t.state, t.version + 1 AS version, t.attempt + 1 AS attempt, t.replays,
        t.is_fragile, t.has_dependents, coalesce(t.scheduled_at, s.now) AS scheduled_at,
        t.started_at IS NOT NULL AS was_started, t.lifetime_ends_at, t.last_token,
        ($6::text || lpad(to_hex(width_bucket(t.job, (SELECT array_agg(c.seq ORDER BY c.seq) FROM chosen c)) - 1), 4, '0'))::uuid AS token,
        s.now AS started_at,
        least(s.now + make_interval(secs => j.visibility_seconds), t.lifetime_ends_at) AS expires_at,
        j.id, j.type, j.payload, j.is_json, j.max_attempts, j.created_at, j.depth, j.options, j.visibility_seconds
    FROM (SELECT * FROM from_ready UNION ALL SELECT * FROM from_waiting) t
    CROSS JOIN settings s
    CROSS JOIN LATERAL (SELECT * FROM {schema}.job j WHERE j.seq = t.job OFFSET 0) j
),
leased AS (
    INSERT INTO {schema}.running (
        job, token, owner, version, attempt, replays, is_fragile, has_dependents, queue,
        scheduled_at, started_at, expires_at, lifetime_ends_at, visibility_seconds, last_token
    )
    SELECT
        job, token, $2, version, attempt, replays, is_fragile, has_dependents, queue,
        scheduled_at, started_at, expires_at, lifetime_ends_at, visibility_seconds, last_token
    FROM claimed
),
counted AS (
    INSERT INTO {schema}.tally (queue, state, delta)
    SELECT c.queue, v.state, v.sign * c.jobs
    FROM (SELECT queue, state, count(*) AS jobs FROM claimed GROUP BY queue, state) c
    CROSS JOIN LATERAL (VALUES (c.state, -1), ('RUNNING', 1)) AS v (state, sign)
)
SELECT
    s.is_known, s.now, c.job, c.queue, c.priority, c.version, c.attempt, c.token, c.last_token, c.started_at, c.expires_at,
    c.visibility_seconds, c.id, c.type, c.payload, c.is_json, c.max_attempts, c.created_at, c.options,
    c.depth > 0 AND (SELECT e.child FROM {schema}.edge e WHERE e.child = c.job LIMIT 1) IS NOT NULL AS has_dependencies,
    CASE WHEN c.was_started OR c.version > 1
        THEN (SELECT note.checkpoint FROM {schema}.note WHERE note.job = c.job) END AS checkpoint,
    c.is_fragile,
    -- Of all that were asked for, in one row.
    CASE WHEN c.job IS NULL OR c.job = (SELECT min(f.job) FROM claimed f)
        THEN ARRAY(SELECT a.why FROM asked a ORDER BY a.number) END AS whys,
    CASE WHEN c.job IS NULL OR c.job = (SELECT min(f.job) FROM claimed f)
        THEN ARRAY(SELECT a.due_at FROM asked a ORDER BY a.number) END AS due_ats
FROM settings s
LEFT JOIN claimed c ON true

-- [again]
-- The leases a claim got whose answer was lost.
-- Index: running_expires (all leases are walked over: it is rare), job_pkey.
SELECT
    true AS is_known, NULL AS place, r.job, r.queue, j.priority, r.version, r.attempt, r.token, r.last_token,
    r.started_at, r.expires_at, r.visibility_seconds, j.id, j.type, j.payload, j.is_json, j.max_attempts, j.created_at, j.options,
    (SELECT e.child FROM {schema}.edge e WHERE e.child = r.job LIMIT 1) IS NOT NULL AS has_dependencies,
    (SELECT note.checkpoint FROM {schema}.note WHERE note.job = r.job) AS checkpoint,
    r.is_fragile, NULL AS seen
FROM {schema}.running r
CROSS JOIN LATERAL (SELECT * FROM {schema}.job j WHERE j.seq = r.job OFFSET 0) j
WHERE r.owner = $1::uuid AND r.token = ANY ($2::uuid[])
ORDER BY r.token

-- [holders]
-- The last place drawn, and then who may still place a row up to it.
-- Guarantees: the place is read before the holders, which name it for that reason. POSTGRES-3 says why there are no
-- others.
-- Locks: none. A waiting lock is no lock yet: its place is still to be drawn.
SELECT
    last.place,
    pg_postmaster_start_time() AS server,
    ARRAY(
        SELECT DISTINCT l.virtualtransaction
        FROM pg_locks l
        WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
            AND l.relation = '{schema}.ready'::regclass
            AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
            AND last.place >= 0
    ) AS holders
FROM (SELECT coalesce(pg_sequence_last_value('{schema}.job_seq'::regclass), 0) AS place OFFSET 0) last

-- [floors]
-- Where each lane's first visible row of these types is.
-- Reads rows that others have locked, too: they may come back. Its snapshot is younger than the answer of
-- [holders], or a commit in between would be missed.
-- Index: ready_claim from the lane's floor on; job_pkey for rows of programs that did not write their type.
SELECT first.place
FROM unnest($1::text[], $2::smallint[], $3::bigint[]) WITH ORDINALITY AS lane (queue, priority, after, number)
LEFT JOIN LATERAL (
    SELECT r.place
    FROM {schema}.ready r
    WHERE r.queue = lane.queue AND r.priority = lane.priority AND r.place > lane.after
        AND ($4::text[] IS NULL
            OR coalesce(r.type, (SELECT j.type FROM {schema}.job j WHERE j.seq = r.job)) = ANY ($4::text[]))
    ORDER BY r.place
    LIMIT (SELECT 1)
) first ON true
ORDER BY lane.number
