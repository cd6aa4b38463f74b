-- claim: lease jobs to a worker, queue by queue in the order given, inside a queue by priority and place.
-- Guarantees: the order of holdfast_ready_claim is the order of the claim; attempt and version are counted here.
-- Locks: the transaction has the only write lock, so what was found is still there when it is taken.
-- Index: holdfast_ready_claim, then the primary keys.

-- [worker]
-- Is the worker known, and which queues are paused?
SELECT w.is_lost, (SELECT json_group_array(p.queue) FROM holdfast_pause p) FROM holdfast_worker w WHERE w.id = ?1

-- [queues]
-- The queues that have claimable jobs, by stepping from one to the next: for claims that name many queues.
WITH RECURSIVE step (queue) AS (
    SELECT min(queue) FROM holdfast_ready
    UNION ALL
    SELECT (SELECT min(r.queue) FROM holdfast_ready r WHERE r.queue > step.queue) FROM step WHERE step.queue IS NOT NULL
)
SELECT queue FROM step WHERE queue IS NOT NULL

-- [find]
-- ?1 queue, ?2 now, ?3 limit, ?4 the types the worker knows as a JSON array, or NULL for all; ?5 the largest payload that
-- is answered here, [payloads] has the others; ?6 … ?10 the place after which to start, by priority.
-- One row for all of them, not one each: a row lets go of the interpreter, which others then have for a while. Bytes
-- cannot be JSON: they come one after the other, as hexadecimal digits.
SELECT json_group_array(json_array(
        job, version, attempt, is_fragile, lifetime_ends_at, visibility_seconds, last_token, priority, type, created_at,
        max_attempts, is_json, options, has_dependencies, payload_bytes, place
    )),
    group_concat(hex(id), ''),
    group_concat(hex(payload), '')
FROM (
    SELECT r.job, r.version + 1 AS version, r.attempt + 1 AS attempt, r.is_fragile, r.lifetime_ends_at,
        printf('%!.17g', j.visibility_seconds) AS visibility_seconds, hex(r.last_token) AS last_token, r.priority, j.type, j.created_at,
        j.max_attempts, j.is_json, j.options,
        j.depth > 0 AND EXISTS (SELECT 1 FROM holdfast_edge e WHERE e.child = r.job) AS has_dependencies,
        length(j.payload) AS payload_bytes, j.id, iif(length(j.payload) <= ?5, j.payload, '') AS payload, r.place
    -- Priority by priority, each from its own place on: the parts of a UNION ALL come one after the other.
    FROM (
        {lanes}
    ) r
    CROSS JOIN holdfast_job j ON j.seq = r.job
    LIMIT ?3
)

-- [left]
-- The last place of each priority in queue ?1.
SELECT {lefts}

-- [payloads]
SELECT seq, payload FROM holdfast_job WHERE seq IN (SELECT value FROM json_each(?1))

-- [checkpoints]
SELECT job, checkpoint FROM holdfast_note WHERE job IN (SELECT value FROM json_each(?1))

-- [lease]
-- ?1 seqs as a JSON array, ?2 their tokens one after the other, ?3 now, ?4 the owner; ?5 the visibility that they share
-- in seconds, ?6 in microseconds. One statement for all of them, not one each: a statement lets go of the interpreter.
INSERT INTO holdfast_running (
    job, version, attempt, replays, is_fragile, has_dependents, scheduled_at, lifetime_ends_at, visibility_seconds,
    last_token, queue, token, expires_at, owner, started_at, cancel_requested
)
SELECT r.job, r.version + 1, r.attempt + 1, r.replays, r.is_fragile, r.has_dependents, r.scheduled_at, r.lifetime_ends_at, ?5,
    r.last_token, r.queue, substr(?2, 16 * e.key + 1, 16), min(?3 + ?6, r.lifetime_ends_at), ?4, ?3, 0
FROM json_each(?1) e
CROSS JOIN holdfast_ready r ON r.job = e.value

-- [take]
DELETE FROM holdfast_ready WHERE job IN (SELECT value FROM json_each(?1))

-- [again]
-- The leases a worker (?1) has with these tokens, for a claim whose answer was lost: what [find] tells of a job, and its
-- lease, a row for each. ?2 the largest payload that is answered here.
-- Index: holdfast_running_owner.
SELECT r.queue,
    json_array(
        r.job, r.version, r.attempt, r.is_fragile, r.lifetime_ends_at, printf('%!.17g', r.visibility_seconds),
        hex(r.last_token), j.priority, j.type, j.created_at, j.max_attempts, j.is_json, j.options,
        EXISTS (SELECT 1 FROM holdfast_edge e WHERE e.child = r.job), length(j.payload), NULL,
        hex(r.token), r.expires_at, r.started_at
    ),
    hex(j.id),
    hex(iif(length(j.payload) <= ?2, j.payload, ''))
FROM holdfast_running r INDEXED BY holdfast_running_owner
CROSS JOIN holdfast_job j ON j.seq = r.job
WHERE r.owner = ?1 AND r.token IN ({marks})

-- [last_place]
SELECT seq FROM sqlite_sequence WHERE name = 'holdfast_job'
