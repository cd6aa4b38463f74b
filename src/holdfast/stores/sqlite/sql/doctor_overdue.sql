-- doctor: jobs that may be overdue, with what core.liveness wants to know of them, the oldest first. All in one snapshot.
-- ?1: now, ?2: limit. Locks: none.

-- [due]
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
