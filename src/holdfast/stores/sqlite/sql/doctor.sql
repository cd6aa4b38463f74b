-- doctor: which rules the data breaks. Each check names the seq of a job and how to show it; all are asked in one snapshot.
-- ?1: how many of the newest rows of a table are walked over, -1 for all; ?2: now.
-- Unlike all other statements these walk over tables, by design. Locks: none but those of repairs.

-- [in_two_tables]
-- From the jobs that have not ended: looked up in the other tables by primary key.
SELECT DISTINCT s.job AS seq, coalesce((SELECT hex(j.id) FROM holdfast_job j WHERE j.seq = s.job), 'seq ' || s.job) AS example
FROM (
    SELECT * FROM (SELECT job, 'ready' AS place FROM holdfast_ready ORDER BY job DESC LIMIT ?1)
    UNION ALL
    SELECT * FROM (SELECT job, 'waiting' FROM holdfast_waiting ORDER BY job DESC LIMIT ?1)
    UNION ALL
    SELECT * FROM (SELECT job, 'running' FROM holdfast_running ORDER BY job DESC LIMIT ?1)
) s
WHERE EXISTS (SELECT 1 FROM holdfast_ended e WHERE e.job = s.job)
    OR s.place <> 'ready' AND EXISTS (SELECT 1 FROM holdfast_ready r WHERE r.job = s.job)
    OR s.place <> 'waiting' AND EXISTS (SELECT 1 FROM holdfast_waiting w WHERE w.job = s.job)
    OR s.place <> 'running' AND EXISTS (SELECT 1 FROM holdfast_running r WHERE r.job = s.job)

-- [in_no_table]
SELECT j.seq, hex(j.id) AS example
FROM (SELECT seq, id FROM holdfast_job ORDER BY seq DESC LIMIT ?1) j
WHERE NOT EXISTS (SELECT 1 FROM holdfast_ended e WHERE e.job = j.seq)
    AND NOT EXISTS (SELECT 1 FROM holdfast_ready r WHERE r.job = j.seq)
    AND NOT EXISTS (SELECT 1 FROM holdfast_waiting w WHERE w.job = j.seq)
    AND NOT EXISTS (SELECT 1 FROM holdfast_running r WHERE r.job = j.seq)

-- [row_without_job]
SELECT s.job AS seq, s.place || ': seq ' || s.job AS example
FROM (
    SELECT * FROM (SELECT job, 'ready' AS place FROM holdfast_ready ORDER BY job DESC LIMIT ?1)
    UNION ALL
    SELECT * FROM (SELECT job, 'waiting' FROM holdfast_waiting ORDER BY job DESC LIMIT ?1)
    UNION ALL
    SELECT * FROM (SELECT job, 'running' FROM holdfast_running ORDER BY job DESC LIMIT ?1)
    UNION ALL
    SELECT * FROM (SELECT job, 'ended' FROM holdfast_ended ORDER BY job DESC LIMIT ?1)
) s
WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = s.job)

-- [tally]
-- How many jobs there are of each queue and state, and how many are counted, where that differs. ?1: -1 for ended jobs, too.
WITH there (queue, state, jobs) AS (
    SELECT queue, 'SCHEDULED', count(*) FROM holdfast_ready GROUP BY queue
    UNION ALL
    SELECT queue, 'RUNNING', count(*) FROM holdfast_running GROUP BY queue
    UNION ALL
    SELECT j.queue, w.state, count(*) FROM holdfast_waiting w CROSS JOIN holdfast_job j ON j.seq = w.job GROUP BY 1, 2
    UNION ALL
    SELECT j.queue, e.state, count(*) FROM holdfast_ended e CROSS JOIN holdfast_job j ON j.seq = e.job
    WHERE ?1 = -1 GROUP BY 1, 2
),
counted (queue, state, jobs) AS (
    SELECT queue, state, jobs FROM holdfast_tally WHERE ?1 = -1 OR state NOT IN ({ended_states})
)
SELECT queue, state, sum(jobs) AS jobs, sum(tallied) AS tallied FROM (
    SELECT queue, state, jobs, 0 AS tallied FROM there UNION ALL SELECT queue, state, 0, jobs FROM counted
)
GROUP BY queue, state HAVING sum(jobs) <> sum(tallied)
ORDER BY queue, state

-- [sequence_behind]
SELECT 0 AS seq, 'at ' || at || ', given out: ' || given AS example
FROM (
    SELECT
        coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'holdfast_job'), 0) AS at,
        max(
            coalesce((SELECT max(seq) FROM holdfast_job), 0), coalesce((SELECT max(place) FROM holdfast_ready), 0)
        ) AS given
)
WHERE given > at

-- [pending_without_edge]
SELECT w.job AS seq, (SELECT hex(j.id) FROM holdfast_job j WHERE j.seq = w.job) AS example
FROM (
    SELECT job FROM holdfast_waiting INDEXED BY holdfast_waiting_state WHERE state = 'PENDING' ORDER BY job DESC LIMIT ?1
) w
WHERE NOT EXISTS (SELECT 1 FROM holdfast_edge e WHERE e.child = w.job AND e.is_open)

-- [waits_for_nothing]
SELECT e.child AS seq, (SELECT hex(j.id) FROM holdfast_job j WHERE j.seq = e.child) AS example
FROM (SELECT child, parent FROM holdfast_edge WHERE is_open ORDER BY child DESC LIMIT ?1) e
WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = e.parent)
    AND EXISTS (SELECT 1 FROM holdfast_waiting w WHERE w.job = e.child AND w.state = 'PENDING')

-- [end_untold]
SELECT e.parent AS seq, (SELECT hex(j.id) FROM holdfast_job j WHERE j.seq = e.child) AS example
FROM (SELECT child, parent FROM holdfast_edge WHERE is_open ORDER BY child DESC LIMIT ?1) e
WHERE EXISTS (SELECT 1 FROM holdfast_ended p WHERE p.job = e.parent)
    AND NOT EXISTS (SELECT 1 FROM holdfast_mark m WHERE m.job = e.parent)
    AND EXISTS (SELECT 1 FROM holdfast_waiting w WHERE w.job = e.child AND w.state = 'PENDING')

-- [dependents_forgotten]
SELECT e.parent AS seq, (SELECT hex(j.id) FROM holdfast_job j WHERE j.seq = e.parent) AS example
FROM (SELECT child, parent FROM holdfast_edge WHERE is_open ORDER BY child DESC LIMIT ?1) e
WHERE EXISTS (SELECT 1 FROM holdfast_waiting w WHERE w.job = e.child AND w.state = 'PENDING') AND (
    EXISTS (SELECT 1 FROM holdfast_ready p WHERE p.job = e.parent AND NOT p.has_dependents)
    OR EXISTS (SELECT 1 FROM holdfast_waiting p WHERE p.job = e.parent AND NOT p.has_dependents)
    OR EXISTS (SELECT 1 FROM holdfast_running p WHERE p.job = e.parent AND NOT p.has_dependents)
)

-- [open_edge_left]
-- Who was replayed by a person runs although what it waited for has not ended.
SELECT e.child AS seq, (SELECT hex(j.id) FROM holdfast_job j WHERE j.seq = e.child) AS example
FROM (SELECT child FROM holdfast_edge WHERE is_open ORDER BY child DESC LIMIT ?1) e
WHERE EXISTS (SELECT 1 FROM holdfast_ready c WHERE c.job = e.child AND c.replays = 0)
    OR EXISTS (SELECT 1 FROM holdfast_waiting c WHERE c.job = e.child AND c.replays = 0 AND c.state <> 'PENDING')
    OR EXISTS (SELECT 1 FROM holdfast_running c WHERE c.job = e.child AND c.replays = 0)
    OR EXISTS (SELECT 1 FROM holdfast_ended c WHERE c.job = e.child AND c.replays = 0 AND c.state = 'COMPLETED')

-- [edge_to_nothing]
SELECT e.child AS seq, 'seq ' || e.child || ' after seq ' || e.parent AS example
FROM (SELECT child, parent, is_open FROM holdfast_edge ORDER BY child DESC LIMIT ?1) e
WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = e.child)
    OR NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = e.parent) AND NOT (
        e.is_open AND EXISTS (SELECT 1 FROM holdfast_waiting w WHERE w.job = e.child AND w.state = 'PENDING'))

-- [mark_without_job]
SELECT m.job AS seq, 'seq ' || m.job AS example
FROM (SELECT job FROM holdfast_mark ORDER BY job LIMIT ?1) m
WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = m.job)

-- [key_without_job]
SELECT 0 AS seq, k.job_type || ' ' || k.key AS example
FROM (
    SELECT job_type, key, job_id FROM holdfast_idempotency INDEXED BY holdfast_idempotency_expires
    WHERE expires_at > ?2 ORDER BY expires_at DESC LIMIT ?1
) k
WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.id = k.job_id)

-- [label_without_job]
SELECT s.job AS seq, s.what || ' of seq ' || s.job AS example
FROM (
    SELECT * FROM (SELECT job, 'tag' AS what FROM holdfast_tag ORDER BY job DESC LIMIT ?1)
    UNION ALL
    SELECT * FROM (SELECT job, 'note' FROM holdfast_note ORDER BY job DESC LIMIT ?1)
    UNION ALL
    SELECT * FROM (SELECT job, 'attempt' FROM holdfast_attempt ORDER BY job DESC LIMIT ?1)
) s
WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = s.job)

-- [due]
-- Jobs that may be overdue, with what core.liveness wants to know of them, oldest first. ?1: now, ?2: limit; here and below.
-- Index: holdfast_waiting_due.
SELECT j.id, w.job, w.version, w.state, w.updated_at, w.lifetime_ends_at, w.due_at
FROM holdfast_waiting w INDEXED BY holdfast_waiting_due CROSS JOIN holdfast_job j ON j.seq = w.job
WHERE w.due_at IS NOT NULL AND w.due_at <= ?1
ORDER BY w.due_at LIMIT ?2

-- [lifetimes]
-- Index: holdfast_ready_lifetime, holdfast_waiting_lifetime.
SELECT j.id, s.job, s.version, s.state, s.since, s.lifetime_ends_at
FROM (
    SELECT * FROM (
        SELECT job, version, 'SCHEDULED' AS state, scheduled_at AS since, lifetime_ends_at
        FROM holdfast_ready INDEXED BY holdfast_ready_lifetime
        WHERE lifetime_ends_at <= ?1 ORDER BY lifetime_ends_at LIMIT ?2
    )
    UNION ALL
    SELECT * FROM (
        SELECT job, version, state, updated_at, lifetime_ends_at
        FROM holdfast_waiting INDEXED BY holdfast_waiting_lifetime
        WHERE state = 'PENDING' AND lifetime_ends_at <= ?1 ORDER BY lifetime_ends_at LIMIT ?2
    )
) s CROSS JOIN holdfast_job j ON j.seq = s.job

-- [leases]
-- Past their end, or of a worker that is lost, silent since ?3 or without a row. All leases are walked over: as many as slots.
SELECT j.id, r.job, r.version, r.started_at, r.lifetime_ends_at, r.expires_at, w.is_lost, w.seen_at
FROM holdfast_running r CROSS JOIN holdfast_job j ON j.seq = r.job LEFT JOIN holdfast_worker w ON w.id = r.owner
WHERE r.expires_at <= ?1 OR w.id IS NULL OR w.is_lost OR w.seen_at < ?3
ORDER BY r.expires_at LIMIT ?2

-- [untold]
-- PENDING jobs with a dependency that has ended, marked or not; and those that wait for nothing. ?3: of the newest edges, or jobs.
SELECT j.id, s.job, s.version, s.updated_at, s.lifetime_ends_at, s.waits, s.ended_at, s.has_mark
FROM (
    SELECT * FROM (
        SELECT w.job, w.version, w.updated_at, w.lifetime_ends_at, 1 AS waits, p.completed_at AS ended_at,
            EXISTS (SELECT 1 FROM holdfast_mark m WHERE m.job = e.parent) AS has_mark
        FROM (SELECT child, parent FROM holdfast_edge WHERE is_open ORDER BY child DESC LIMIT ?3) e
        CROSS JOIN holdfast_ended p ON p.job = e.parent
        CROSS JOIN holdfast_waiting w ON w.job = e.child AND w.state = 'PENDING'
        ORDER BY has_mark, p.completed_at LIMIT ?2
    )
    UNION ALL
    SELECT * FROM (
        SELECT w.job, w.version, w.updated_at, w.lifetime_ends_at, 0, NULL, 0
        FROM (
            SELECT * FROM holdfast_waiting INDEXED BY holdfast_waiting_state
            WHERE state = 'PENDING' ORDER BY job DESC LIMIT ?3
        ) w
        WHERE NOT EXISTS (SELECT 1 FROM holdfast_edge e WHERE e.child = w.job AND e.is_open)
        LIMIT ?2
    )
) s CROSS JOIN holdfast_job j ON j.seq = s.job
WHERE ?1 IS NOT NULL

-- [passed_by]
-- SCHEDULED jobs, of the first ?3 of each lane, that came before ?4 (a bound ago) and are passed by: by a worker that was seen
-- since ?5, takes such jobs and has none; or by one that took a later job of the kind after ?6 microseconds (the bound).
-- Index: holdfast_ready_claim, a look a lane; holdfast_running is walked over.
WITH lane (queue, priority, last) AS MATERIALIZED (
    SELECT t.queue, p.value, coalesce((
        SELECT n.place FROM holdfast_ready n INDEXED BY holdfast_ready_claim
        WHERE n.queue = t.queue AND n.priority = p.value ORDER BY n.place LIMIT 1 OFFSET ?3
    ), 9223372036854775807)
    FROM holdfast_tally t CROSS JOIN json_each('[0, 1, 2, 3, 4]') p
    WHERE t.state = 'SCHEDULED' AND NOT EXISTS (SELECT 1 FROM holdfast_pause x WHERE x.queue = t.queue)
),
idle AS MATERIALIZED (
    SELECT w.queues, w.types FROM holdfast_worker w
    WHERE NOT w.is_lost AND w.seen_at >= ?5 AND NOT EXISTS (SELECT 1 FROM holdfast_running r WHERE r.owner = w.id)
),
leased AS MATERIALIZED (
    SELECT k.queue, f.type, f.priority, k.scheduled_at, k.started_at
    FROM holdfast_running k CROSS JOIN holdfast_job f ON f.seq = k.job
)
SELECT j.id, r.job, r.version, r.scheduled_at, r.lifetime_ends_at
FROM lane
CROSS JOIN holdfast_ready r INDEXED BY holdfast_ready_claim ON r.queue = lane.queue AND r.priority = lane.priority
    AND r.place <= lane.last
CROSS JOIN holdfast_job j ON j.seq = r.job
WHERE r.scheduled_at <= ?4 AND r.lifetime_ends_at > ?1 AND (
    EXISTS (
        SELECT 1 FROM idle i
        WHERE (i.queues = '[]' OR r.queue IN (SELECT value FROM json_each(i.queues)))
            AND (i.types = '[]' OR j.type IN (SELECT value FROM json_each(i.types)))
    )
    OR EXISTS (
        SELECT 1 FROM leased k
        WHERE k.queue = r.queue AND k.type = j.type AND k.priority >= r.priority
            AND k.scheduled_at > r.scheduled_at AND k.started_at > r.scheduled_at + ?6
    )
)
ORDER BY r.scheduled_at LIMIT ?2

-- [place_anew]
UPDATE holdfast_ready SET place = ?2, scheduled_at = ?3 WHERE job = ?1

-- [sequence_on]
UPDATE sqlite_sequence SET seq = max(
    seq, coalesce((SELECT max(seq) FROM holdfast_job), 0), coalesce((SELECT max(place) FROM holdfast_ready), 0)
) WHERE name = 'holdfast_job'

-- [drop_edges]
DELETE FROM holdfast_edge
WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = child)
    OR NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = parent) AND NOT (
        is_open AND EXISTS (SELECT 1 FROM holdfast_waiting w WHERE w.job = child AND w.state = 'PENDING'))

-- [drop_keys]
DELETE FROM holdfast_idempotency WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.id = job_id)

-- [drop_tags]
DELETE FROM holdfast_tag WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = job)

-- [drop_notes]
DELETE FROM holdfast_note WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = job)

-- [drop_attempts]
DELETE FROM holdfast_attempt WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = job)
