-- claim's floors: where each lane's first visible row of these types is.
-- Reads rows that others have locked, too: they may come back. Its snapshot is younger than the answer of
-- claim_holders.sql, or a commit in between would be missed.
-- Index: ready_claim from the lane's floor on; job_pkey for rows of programs that did not write their type.
SELECT first.place
FROM unnest($1::text[], $2::smallint[], $3::bigint[]) WITH ORDINALITY AS lane (queue, priority, after, number)
LEFT JOIN LATERAL (
    SELECT r.place
    FROM {schema}.ready r
    WHERE r.queue = lane.queue AND r.priority = lane.priority AND r.place > lane.after
        AND ($4::text[] IS NULL
            OR coalesce(r.type, (SELECT j.type FROM {schema}.job j WHERE j.seq = r.job)) = ANY ($4::text[]))
    ORDER BY r.place
    LIMIT (SELECT 1)
) first ON true
ORDER BY lane.number
