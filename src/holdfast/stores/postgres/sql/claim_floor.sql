-- claim's cursors: where each lane's first visible row is, and which transactions are still open.
-- Reads rows that others have locked, too: they may come back. Index: ready_claim.
SELECT
    lane.queue, lane.priority,
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS oldest_open,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next_transaction,
    first.place AS first_place
FROM unnest($1::text[], $2::smallint[], $3::bigint[]) AS lane (queue, priority, after)
LEFT JOIN LATERAL (
    SELECT r.place
    FROM {schema}.ready r
    WHERE r.queue = lane.queue AND r.priority = lane.priority AND r.place > lane.after
    ORDER BY r.place
    LIMIT 1
) first ON true
