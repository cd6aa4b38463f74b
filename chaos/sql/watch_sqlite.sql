-- The watch: as watch_postgres.sql.
SELECT j.id, j.type, j.queue, s.state, s.version, s.place, s.at, s.owner, s.is_met
FROM (
    SELECT job, 'SCHEDULED' AS state, version, place, NULL AS at, NULL AS owner, 0 AS is_met FROM holdfast_ready
    UNION ALL
    SELECT job, 'RUNNING', version, NULL, expires_at / 1e6, owner, 0 FROM holdfast_running
    UNION ALL
    SELECT
        w.job, w.state, w.version, NULL, w.due_at / 1e6, NULL,
        w.state = 'PENDING' AND (
            NOT EXISTS (
                SELECT 1 FROM holdfast_edge e
                WHERE e.child = w.job AND NOT EXISTS (SELECT 1 FROM holdfast_ended p WHERE p.job = e.parent)
            )
            OR EXISTS (
                SELECT 1 FROM holdfast_edge e JOIN holdfast_ended p ON p.job = e.parent
                WHERE e.child = w.job AND p.state <> 'COMPLETED'
            )
        )
    FROM holdfast_waiting w
) s
JOIN holdfast_job j ON j.seq = s.job
