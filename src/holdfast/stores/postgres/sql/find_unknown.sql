-- heartbeat: leases in a worker's name that it does not know of, locked.
-- Index: running_owner.
SELECT r.job AS seq
FROM {schema}.running r
WHERE r.owner = $1::uuid
    AND NOT r.token = ANY ($4::uuid[])
    AND NOT EXISTS (
        SELECT FROM unnest($2::bigint[], $3::uuid[]) AS g (job, token) WHERE g.job = r.job AND g.token = r.token
    )
ORDER BY r.job
FOR UPDATE SKIP LOCKED
