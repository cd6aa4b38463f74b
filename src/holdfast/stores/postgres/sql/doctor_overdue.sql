-- doctor: jobs that may be overdue, with what core.liveness wants to know of them, the oldest first. All in one snapshot.
-- $1: now, $2: limit. Locks: none.

-- [due]
-- Index: waiting_due.
SELECT j.id, w.job, w.version, w.state, w.updated_at AS since, w.lifetime_ends_at, w.due_at
FROM (SELECT * FROM {schema}.waiting WHERE due_at <= $1::timestamptz ORDER BY due_at LIMIT $2::bigint) w
JOIN {schema}.job j ON j.seq = w.job

-- [lifetimes]
-- Index: ready_lifetime, waiting_lifetime.
SELECT j.id, s.job, s.version, s.state, s.since, s.lifetime_ends_at
FROM (
    (SELECT job, version, 'SCHEDULED' AS state, scheduled_at AS since, lifetime_ends_at FROM {schema}.ready
    WHERE lifetime_ends_at <= $1::timestamptz ORDER BY lifetime_ends_at LIMIT $2::bigint)
    UNION ALL
    (SELECT job, version, state, updated_at, lifetime_ends_at FROM {schema}.waiting
    WHERE state = 'PENDING' AND lifetime_ends_at <= $1::timestamptz ORDER BY lifetime_ends_at LIMIT $2::bigint)
) s
JOIN {schema}.job j ON j.seq = s.job

-- [leases]
-- Past their end, or of a worker that is lost, silent for $3 seconds or without a row. All leases are walked over: they are as
-- many as there are slots.
SELECT j.id, r.job, r.version, 'RUNNING' AS state, r.started_at AS since, r.lifetime_ends_at, r.expires_at,
    CASE WHEN w.id IS NULL THEN 'UNKNOWN' WHEN w.is_lost THEN 'LOST' ELSE 'KNOWN' END AS owner, w.seen_at AS owner_seen_at
FROM {schema}.running r
JOIN {schema}.job j ON j.seq = r.job
LEFT JOIN {schema}.worker w ON w.id = r.owner
WHERE r.expires_at <= $1::timestamptz OR w.id IS NULL OR w.is_lost
    OR w.seen_at < $1::timestamptz - make_interval(secs => $3::float8)
ORDER BY r.expires_at
LIMIT $2::bigint

-- [untold]
-- PENDING jobs with a dependency that has ended, marked or not; and those that wait for nothing. $3: of the newest edges, jobs.
SELECT j.id, s.*, 'PENDING' AS state
FROM (
    (SELECT w.job, w.version, w.updated_at AS since, w.lifetime_ends_at, true AS waits,
        p.completed_at AS dependency_ended_at,
        (SELECT m.job FROM {schema}.mark m WHERE m.job = e.parent) IS NOT NULL AS has_mark, e.parent
    FROM (SELECT child, parent FROM {schema}.edge WHERE is_open ORDER BY child DESC LIMIT $3::bigint) e
    CROSS JOIN LATERAL (SELECT * FROM {schema}.ended p WHERE p.job = e.parent OFFSET 0) p
    CROSS JOIN LATERAL (SELECT * FROM {schema}.waiting w WHERE w.job = e.child AND w.state = 'PENDING' OFFSET 0) w
    ORDER BY has_mark, p.completed_at
    LIMIT $2::bigint)
    UNION ALL
    (SELECT w.job, w.version, w.updated_at, w.lifetime_ends_at, false, NULL, false, NULL
    FROM (SELECT * FROM {schema}.waiting WHERE state = 'PENDING' ORDER BY job DESC LIMIT $3::bigint) w
    WHERE (SELECT e.child FROM {schema}.edge e WHERE e.child = w.job AND e.is_open LIMIT 1) IS NULL
    LIMIT $2::bigint)
) s
JOIN {schema}.job j ON j.seq = s.job
WHERE $1::timestamptz IS NOT NULL

-- [passed_by]
-- SCHEDULED jobs, of the first $3 of each lane, that came $4 seconds ago (the bound) and are passed by: by a worker that was seen
-- within $5 seconds, takes such jobs and has none; or by one that took a later job of the kind so long after this one came.
-- Index: ready_claim, a look a lane; running is walked over.
WITH busy AS MATERIALIZED (
    SELECT k.owner, k.queue, f.type, f.priority, k.scheduled_at, k.started_at
    FROM {schema}.running k JOIN {schema}.job f ON f.seq = k.job
),
idle AS MATERIALIZED (
    SELECT w.queues, w.types FROM {schema}.worker w
    WHERE NOT w.is_lost AND w.seen_at >= $1::timestamptz - make_interval(secs => $5::float8)
        AND NOT EXISTS (SELECT FROM busy b WHERE b.owner = w.id)
),
lane AS MATERIALIZED (
    SELECT t.queue, p.priority
    FROM (SELECT DISTINCT queue FROM {schema}.tally) t CROSS JOIN generate_series(0, 4) AS p (priority)
    WHERE NOT EXISTS (SELECT FROM {schema}.pause x WHERE x.queue = t.queue)
)
SELECT j.id, r.job, r.version, 'SCHEDULED' AS state, r.scheduled_at AS since, r.lifetime_ends_at, true AS is_passed_by
FROM lane
CROSS JOIN LATERAL (
    SELECT * FROM {schema}.ready r WHERE r.queue = lane.queue AND r.priority = lane.priority
    ORDER BY r.place LIMIT $3::bigint
) r
CROSS JOIN LATERAL (SELECT * FROM {schema}.job j WHERE j.seq = r.job OFFSET 0) j
WHERE r.scheduled_at <= $1::timestamptz - make_interval(secs => $4::float8) AND r.lifetime_ends_at > $1::timestamptz
    AND (
        EXISTS (
            SELECT FROM idle i
            WHERE (i.queues = '{}' OR r.queue = ANY (i.queues)) AND (i.types = '{}' OR j.type = ANY (i.types))
        )
        OR EXISTS (
            SELECT FROM busy k
            WHERE k.queue = r.queue AND k.type = j.type AND k.priority >= r.priority
                AND k.scheduled_at > r.scheduled_at
                AND k.started_at > r.scheduled_at + make_interval(secs => $4::float8)
        )
    )
ORDER BY r.scheduled_at
LIMIT $2::bigint
