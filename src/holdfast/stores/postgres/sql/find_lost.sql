-- tick: leases of workers given up for lost, locked. Index: running_owner.
SELECT r.seq
FROM {schema}.worker w
CROSS JOIN LATERAL (
    SELECT r.job AS seq
    FROM {schema}.running r
    WHERE r.owner = w.id
    LIMIT $1
    FOR UPDATE SKIP LOCKED
) r
WHERE w.is_lost
ORDER BY r.seq
LIMIT $1
