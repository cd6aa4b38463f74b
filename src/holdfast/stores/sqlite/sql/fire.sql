-- fire: the slots of periodic jobs.
-- Locks: none of its own; the transaction has the only write lock there is. Index: the primary key.

-- [find]
-- That very slot (?2) of a name (?1), and the newest that has come by now (?3).
SELECT name, slot, job_id, fired_at FROM holdfast_cron_slot WHERE name = ?1 AND slot = ?2
UNION ALL
SELECT * FROM (
    SELECT name, slot, job_id, fired_at FROM holdfast_cron_slot
    WHERE name = ?1 AND slot <= ?3 ORDER BY slot DESC LIMIT 1
)

-- [add]
INSERT INTO holdfast_cron_slot (name, slot, job_id, fired_at) VALUES (?, ?, ?, ?)
