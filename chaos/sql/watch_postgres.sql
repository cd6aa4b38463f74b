-- The watch: every job that has not ended, with what somebody is bound to act on. One statement, so one snapshot.
SELECT j.id, j.type, j.queue, s.state, s.version, s.place, s.at, s.owner, s.is_met
FROM (
    SELECT job, 'SCHEDULED' AS state, version, place, NULL::float8 AS at, NULL::uuid AS owner, false AS is_met
    FROM holdfast.ready
    UNION ALL
    SELECT job, 'RUNNING', version, NULL, extract(epoch FROM expires_at)::float8, owner, false
    FROM holdfast.running
    UNION ALL
    SELECT
        w.job, w.state, w.version, NULL, extract(epoch FROM w.due_at)::float8, NULL,
        w.state = 'PENDING' AND (
            NOT EXISTS (
                SELECT FROM holdfast.edge e
                WHERE e.child = w.job AND NOT EXISTS (SELECT FROM holdfast.ended p WHERE p.job = e.parent)
            )
            OR EXISTS (
                SELECT FROM holdfast.edge e JOIN holdfast.ended p ON p.job = e.parent
                WHERE e.child = w.job AND p.state <> 'COMPLETED'
            )
        )
    FROM holdfast.waiting w
) s
JOIN holdfast.job j ON j.seq = s.job
