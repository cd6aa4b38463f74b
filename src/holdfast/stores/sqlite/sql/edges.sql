-- Who waits for whom, and the marks of ended jobs whose dependents have not been told.
-- Lists of seqs come as JSON arrays in ?1. Index: the primary key (child first), holdfast_edge_parent, holdfast_edge_open.

-- [add]
INSERT OR REPLACE INTO holdfast_edge (child, parent, kind, is_open) VALUES (?, ?, ?, ?)

-- [to]
SELECT e.child, e.parent, e.kind, e.is_open
FROM json_each(?1) g CROSS JOIN holdfast_edge e ON e.child = g.value

-- [from]
SELECT e.child, e.parent, e.kind, e.is_open
FROM json_each(?1) g CROSS JOIN holdfast_edge e INDEXED BY holdfast_edge_parent ON e.parent = g.value

-- [open_from]
SELECT e.child, e.parent, e.kind, e.is_open
FROM json_each(?1) g CROSS JOIN holdfast_edge e INDEXED BY holdfast_edge_parent ON e.parent = g.value
WHERE e.is_open
ORDER BY e.parent, e.child
LIMIT ?2

-- [close_alternatives]
UPDATE holdfast_edge SET is_open = 0
WHERE child IN (SELECT value FROM json_each(?1)) AND kind = 'AFTER_ANY' AND is_open

-- [with_open]
SELECT DISTINCT e.child
FROM json_each(?1) g CROSS JOIN holdfast_edge e INDEXED BY holdfast_edge_open ON e.child = g.value
WHERE e.is_open

-- [spawned]
SELECT j.seq
FROM json_each(?1) g CROSS JOIN holdfast_job j INDEXED BY holdfast_job_spawned_by ON j.spawned_by = g.value
ORDER BY j.seq

-- [mark]
INSERT OR IGNORE INTO holdfast_mark (job) VALUES (?)

-- [unmark]
DELETE FROM holdfast_mark WHERE job IN (SELECT value FROM json_each(?1))

-- [find_marks]
SELECT job FROM holdfast_mark ORDER BY job LIMIT ?1
