-- tick: leases past their end, locked, skipping what another tick or a settle has. Found from the leases alone: whether
-- their worker has a row does not matter.
-- Index: running_expires, from where the last sweep ended.
SELECT r.seq
FROM (
    SELECT r.job AS seq, r.expires_at
    FROM {schema}.running r
    WHERE r.expires_at <= $1::timestamptz AND r.expires_at > $2::timestamptz
    ORDER BY r.expires_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
) r
ORDER BY r.expires_at, r.seq
