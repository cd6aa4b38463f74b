-- register, heartbeat and leave: a worker is there, its leases go on, it is gone. ?1 is the worker.

-- [register]
-- ?3, ?4: what it serves, as JSON arrays.
INSERT INTO holdfast_worker (id, name, queues, types, registered_at, seen_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5)
ON CONFLICT (id) DO UPDATE SET
    name = excluded.name, queues = excluded.queues, types = excluded.types, seen_at = excluded.seen_at, is_lost = 0

-- [seen]
UPDATE holdfast_worker SET seen_at = ?2 WHERE id = ?1 AND NOT is_lost

-- [held]
-- ?1: seqs as a JSON array. The caller compares the tokens.
SELECT job, token, cancel_requested, expires_at, visibility_seconds, lifetime_ends_at
FROM holdfast_running WHERE job IN (SELECT value FROM json_each(?1))

-- [extend]
UPDATE holdfast_running SET expires_at = ?2 WHERE job = ?1

-- [leases]
-- Index: holdfast_running_owner.
SELECT job, token FROM holdfast_running WHERE owner = ?1 ORDER BY job

-- [leave]
DELETE FROM holdfast_worker WHERE id = ?1
