-- Text that several statements share, filled in where its name stands in braces. No statements.

-- [facts]
j.seq, j.id, j.type, j.queue, j.priority, j.depth, j.created_at, j.run_at, j.max_attempts, j.visibility_seconds, j.lifetime_seconds, j.spawned_by

-- [noted]
n.percent, n.message, n.checkpoint, (SELECT p.id FROM holdfast_job p WHERE p.seq = j.spawned_by) AS spawned_by_id

-- [lane]
-- The jobs of one priority in queue ?1 in claim order, from its own place on: [find] of claim.sql puts all in {lanes}.
SELECT * FROM (
            SELECT r.* FROM holdfast_ready r INDEXED BY holdfast_ready_claim
            WHERE r.queue = ?1 AND r.priority = {priority} AND r.place > ?{after} AND r.lifetime_ends_at > ?2
                AND (?4 IS NULL OR coalesce(r.type, (SELECT f.type FROM holdfast_job f WHERE f.seq = r.job))
                    IN (SELECT value FROM json_each(?4)))
            ORDER BY r.place LIMIT ?3
        )

-- [left]
-- The last place of one priority in queue ?1: [left] of claim.sql puts all in {lefts}.
(SELECT max(place) FROM holdfast_ready INDEXED BY holdfast_ready_claim WHERE queue = ?1 AND priority = {priority})
