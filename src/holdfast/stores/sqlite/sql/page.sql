-- read_page and replay_where: jobs of some states below a cursor (?1), newest first, each state from its own table.
-- Index: every part gives its jobs in the order of seq from an index alone, so that joining them is a merge and the
-- search stops where the page is full. COMPLETED jobs are the rule in ended, so its primary key serves them.

-- [any]
SELECT seq AS job FROM holdfast_job WHERE seq < ?1

-- [scheduled]
SELECT job FROM holdfast_ready WHERE job < ?1

-- [waiting]
SELECT job FROM holdfast_waiting INDEXED BY holdfast_waiting_state WHERE state = '{state}' AND job < ?1

-- [running]
SELECT job FROM holdfast_running WHERE job < ?1

-- [completed]
SELECT job FROM holdfast_ended NOT INDEXED WHERE state = 'COMPLETED' AND job < ?1

-- [ended]
SELECT job FROM holdfast_ended INDEXED BY holdfast_ended_seldom
WHERE state = '{state}' AND state <> 'COMPLETED' AND job < ?1

-- [matching]
-- Looks at ?2 candidates, returns ?3. A filter that is NULL is not asked for. From ?8 on: commands.EQUAL.
SELECT c.job, j.id
FROM ({candidates} ORDER BY 1 DESC LIMIT ?2) c
CROSS JOIN holdfast_job j ON j.seq = c.job
WHERE (?4 IS NULL OR EXISTS (SELECT 1 FROM holdfast_tag t WHERE t.name = ?4 AND t.value = ?5 AND t.job = j.seq))
    AND (?6 IS NULL OR j.created_at >= ?6)
    AND (?7 IS NULL OR j.created_at < ?7)
    AND (?8 IS NULL OR j.queue = ?8)
    AND (?9 IS NULL OR j.type = ?9)
    AND (?10 IS NULL OR j."group" = ?10)
LIMIT ?3

-- [looked_at]
-- How many candidates a search with the budget ?2 saw, and the last of them.
SELECT count(*), min(job) FROM ({candidates} ORDER BY 1 DESC LIMIT ?2)

-- [more]
SELECT EXISTS (SELECT 1 FROM ({candidates} LIMIT 1))
