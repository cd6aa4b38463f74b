-- Who waits for whom, and the marks of ended jobs whose dependents have not been told.
-- Locks: none of their own; edges and marks are written under the lock of a job they belong to (LOCK-4).
-- Index: edge_pkey (child first), edge_parent, edge_open.

-- [add]
INSERT INTO {schema}.edge (child, parent, kind, is_open)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::boolean[])
ON CONFLICT (child, parent) DO UPDATE SET is_open = excluded.is_open

-- [to]
SELECT * FROM {schema}.edge WHERE child = ANY ($1::bigint[]) ORDER BY child, parent

-- [from]
SELECT * FROM {schema}.edge WHERE parent = ANY ($1::bigint[]) ORDER BY parent, child

-- [open_from]
SELECT * FROM {schema}.edge WHERE parent = ANY ($1::bigint[]) AND is_open ORDER BY parent, child LIMIT $2

-- [set]
-- By address: no plan can take the whole table for the shorter way.
UPDATE {schema}.edge e SET is_open = g.is_open
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::boolean[]) AS g (child, parent, kind, is_open)
CROSS JOIN LATERAL (
    SELECT e.ctid AS address FROM {schema}.edge e
    WHERE e.child = g.child AND e.parent = g.parent OFFSET 0
) found
WHERE e.ctid = found.address

-- [close_alternatives]
UPDATE {schema}.edge SET is_open = false WHERE child = ANY ($1::bigint[]) AND kind = 'AFTER_ANY'

-- [with_open]
SELECT g.child FROM unnest($1::bigint[]) AS g (child)
WHERE (SELECT true FROM {schema}.edge e WHERE e.child = g.child AND e.is_open LIMIT 1)

-- [spawned]
-- Index: job_spawned_by.
SELECT seq FROM {schema}.job WHERE spawned_by = ANY ($1::bigint[])

-- [mark]
-- Index: mark_pkey; here and below.
INSERT INTO {schema}.mark (job) SELECT * FROM unnest($1::bigint[]) ON CONFLICT DO NOTHING

-- [unmark]
DELETE FROM {schema}.mark WHERE job = ANY ($1::bigint[])

-- [find_marks]
-- Behind the place and job that marks.py says. Index: mark_place; marks of one place, which one transaction left, are
-- sorted by job.
SELECT m.place, m.job FROM {schema}.mark m
WHERE m.place >= $1::bigint AND (m.place, m.job) > ($1::bigint, $2::bigint)
ORDER BY m.place, m.job LIMIT $3
