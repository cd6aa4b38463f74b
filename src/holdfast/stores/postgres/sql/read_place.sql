-- read_place: how many jobs stand before one in its queue, counted backwards from it and no further than $3; whether the
-- queue is paused; and the time. Locks: none. Index: job_id_key, the primary keys, ready_claim.
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
