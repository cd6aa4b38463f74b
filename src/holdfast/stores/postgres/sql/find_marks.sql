-- tick: ended jobs whose dependents have not been told, behind the place and job that marks.py says. Locks: none. Index:
-- mark_place; marks of one place, which one transaction left, are sorted by job.
SELECT m.place, m.job FROM {schema}.mark m
WHERE m.place >= $1::bigint AND (m.place, m.job) > ($1::bigint, $2::bigint)
ORDER BY m.place, m.job LIMIT $3
