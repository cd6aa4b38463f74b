-- wait: what has become claimable.

-- [queues_after]
-- Which of the queues (?2, a JSON array) have jobs behind the place ?1. Index: holdfast_ready_claim, five looks a queue.
SELECT q.value
FROM json_each(?2) q
WHERE EXISTS (
    SELECT 1
    FROM json_each('[0, 1, 2, 3, 4]') p
    CROSS JOIN holdfast_ready r INDEXED BY holdfast_ready_claim
    WHERE r.queue = q.value AND r.priority = p.value AND r.place > ?1
)
