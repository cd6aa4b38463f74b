-- tick: add the tally up. Each row is taken by one process and comes back in one sum, so nothing is counted twice.
-- Locks: the rows it adds up, skipping locked ones.
WITH taken AS (
    DELETE FROM {schema}.tally t
    WHERE t.ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}.tally
        WHERE (SELECT count(*) FROM (SELECT FROM {schema}.tally LIMIT $1 + 1) AS sample) > $1
        LIMIT 100000
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING t.queue, t.state, t.delta
)
INSERT INTO {schema}.tally (queue, state, delta)
SELECT queue, state, sum(delta) FROM taken GROUP BY queue, state
