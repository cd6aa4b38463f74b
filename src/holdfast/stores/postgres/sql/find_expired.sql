-- tick: leases past their end, worker by worker, locked, skipping what another tick or a settle has.
-- Index: running_owner, from where the last sweep ended.
SELECT r.seq
FROM {schema}.worker w
CROSS JOIN LATERAL (
    SELECT r.job AS seq, r.expires_at
    FROM {schema}.running r
    WHERE r.owner = w.id AND r.expires_at <= $1::timestamptz AND r.expires_at > $2::timestamptz
    ORDER BY r.expires_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
) r
ORDER BY r.expires_at, r.seq
LIMIT $3
