-- claim, repeated: the leases a claim got whose answer was lost.
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
