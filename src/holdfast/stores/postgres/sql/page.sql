-- read_page and replay_where: jobs of some states below a cursor ($1), newest first, each state from its own table. No more
-- than $2 of them are looked at. Locks: none.
-- Index: every part gives its jobs in the order of seq from an index alone, so that the search stops where the budget ends.

-- [any]
SELECT seq FROM {schema}.job WHERE seq < $1::bigint ORDER BY seq DESC LIMIT $2

-- [scheduled]
(SELECT job AS seq FROM {schema}.ready WHERE job < $1::bigint ORDER BY job DESC LIMIT $2)

-- [running]
(SELECT job AS seq FROM {schema}.running WHERE job < $1::bigint ORDER BY job DESC LIMIT $2)

-- [waiting]
(SELECT job AS seq FROM {schema}.waiting WHERE job < $1::bigint AND state = '{state}' ORDER BY job DESC LIMIT $2)

-- [ended]
(SELECT job AS seq FROM {schema}.ended WHERE job < $1::bigint AND state = '{state}' ORDER BY job DESC LIMIT $2)

-- [merged]
SELECT seq FROM ({parts}) u ORDER BY seq DESC LIMIT $2

-- [matching]
-- One more candidate than the budget, and one more match than the page ($3), tell whether anything remains.
-- matched takes candidates in the order they lie in, and needs no more of them than it shows: an ORDER BY there would look
-- at every one first. A filter that is NULL is not asked for. From $8 on: commands.EQUAL.
WITH candidates AS MATERIALIZED (
    {candidates}
),
counted AS MATERIALIZED (
    SELECT seq, row_number() OVER (ORDER BY seq DESC) AS n FROM candidates
),
matched AS (
    SELECT c.seq, c.n, j.id
    FROM counted c
    CROSS JOIN LATERAL (SELECT * FROM {schema}.job j WHERE j.seq = c.seq OFFSET 0) j
    WHERE c.n < $2
        AND ($4::text IS NULL OR (
            SELECT true FROM {schema}.tag t WHERE t.job = j.seq AND t.name = $4::text AND t.value = $5::text
        ))
        AND ($6::timestamptz IS NULL OR j.created_at >= $6::timestamptz)
        AND ($7::timestamptz IS NULL OR j.created_at < $7::timestamptz)
        AND ($8::text IS NULL OR j.queue = $8::text)
        AND ($9::text IS NULL OR j.type = $9::text)
        AND ($10::text IS NULL OR j."group" = $10::text)
    LIMIT $3
)
SELECT m.seq, m.id, m.n, t.total, t.budget_seq
FROM (SELECT count(*) AS total, min(seq) FILTER (WHERE n < $2) AS budget_seq FROM counted) t
LEFT JOIN matched m ON true
ORDER BY m.n
