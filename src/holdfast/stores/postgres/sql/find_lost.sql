-- tick: leases whose worker is lost, or has no row, locked, skipping what another tick or a settle has.
-- It walks over all leases, which are as many as there are slots: it is asked when a worker was just lost, and otherwise
-- now and then. A claim that ran beside leave, or beside the loss of its worker, is found this way.
-- Index: running_expires, worker_pkey.
SELECT r.seq
FROM (
    SELECT r.job AS seq
    FROM {schema}.running r
    WHERE (SELECT w.id FROM {schema}.worker w WHERE w.id = r.owner AND NOT w.is_lost) IS NULL
    ORDER BY r.expires_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
) r
ORDER BY r.seq
