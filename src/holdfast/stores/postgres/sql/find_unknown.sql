-- heartbeat: leases in a worker's name that it does not know of, locked.
-- Index: running_expires (all leases are walked over), running_pkey.
WITH owned AS MATERIALIZED (
    SELECT r.job, r.token FROM {schema}.running r WHERE r.owner = $1::uuid AND NOT r.token = ANY ($4::uuid[])
),
unknown AS MATERIALIZED (
    SELECT o.job, o.token
    FROM owned o
    WHERE NOT EXISTS (
        SELECT FROM unnest($2::bigint[], $3::uuid[]) AS g (job, token) WHERE g.job = o.job AND g.token = o.token
    )
)
SELECT r.job AS seq
FROM unknown u
CROSS JOIN LATERAL (
    SELECT r.job FROM {schema}.running r WHERE r.job = u.job AND r.token = u.token FOR UPDATE SKIP LOCKED
) r
