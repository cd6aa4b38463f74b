-- pause and resume: a paused queue's jobs are not claimed.

-- [pause]
INSERT OR IGNORE INTO holdfast_pause (queue, paused_at) VALUES (?, ?)

-- [resume]
DELETE FROM holdfast_pause WHERE queue = ?1
