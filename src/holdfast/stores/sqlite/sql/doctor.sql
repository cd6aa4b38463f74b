-- doctor: which rules the data breaks. Each check names the seq of a job and how to show it; all are asked in one snapshot.
-- ?1: how many of the newest rows of a table are walked over, -1 for all; ?2: now.
-- Unlike all other statements these walk over tables, by design. Locks: none.

-- [summed]
-- How often a check finds something wrong, and examples.
WITH found AS MATERIALIZED ({check})
SELECT count(*), (SELECT json_group_array(example) FROM (SELECT example FROM found LIMIT {examples})) FROM found

-- [in_two_tables]
-- From the jobs that have not ended: looked up in the other tables by primary key.
SELECT DISTINCT s.job AS seq, coalesce((SELECT hex(j.id) FROM holdfast_job j WHERE j.seq = s.job), 'seq ' || s.job) AS example
FROM (
    SELECT * FROM (SELECT job, 'ready' AS place FROM holdfast_ready ORDER BY job DESC LIMIT ?1)
    UNION ALL
    SELECT * FROM (SELECT job, 'waiting' FROM holdfast_waiting ORDER BY job DESC LIMIT ?1)
    UNION ALL
    SELECT * FROM (SELECT job, 'running' FROM holdfast_running ORDER BY job DESC LIMIT ?1)
) s
WHERE EXISTS (SELECT 1 FROM holdfast_ended e WHERE e.job = s.job)
    OR s.place <> 'ready' AND EXISTS (SELECT 1 FROM holdfast_ready r WHERE r.job = s.job)
    OR s.place <> 'waiting' AND EXISTS (SELECT 1 FROM holdfast_waiting w WHERE w.job = s.job)
    OR s.place <> 'running' AND EXISTS (SELECT 1 FROM holdfast_running r WHERE r.job = s.job)

-- [in_no_table]
SELECT j.seq, hex(j.id) AS example
FROM (SELECT seq, id FROM holdfast_job ORDER BY seq DESC LIMIT ?1) j
WHERE NOT EXISTS (SELECT 1 FROM holdfast_ended e WHERE e.job = j.seq)
    AND NOT EXISTS (SELECT 1 FROM holdfast_ready r WHERE r.job = j.seq)
    AND NOT EXISTS (SELECT 1 FROM holdfast_waiting w WHERE w.job = j.seq)
    AND NOT EXISTS (SELECT 1 FROM holdfast_running r WHERE r.job = j.seq)

-- [row_without_job]
SELECT s.job AS seq, s.place || ': seq ' || s.job AS example
FROM (
    SELECT * FROM (SELECT job, 'ready' AS place FROM holdfast_ready ORDER BY job DESC LIMIT ?1)
    UNION ALL
    SELECT * FROM (SELECT job, 'waiting' FROM holdfast_waiting ORDER BY job DESC LIMIT ?1)
    UNION ALL
    SELECT * FROM (SELECT job, 'running' FROM holdfast_running ORDER BY job DESC LIMIT ?1)
    UNION ALL
    SELECT * FROM (SELECT job, 'ended' FROM holdfast_ended ORDER BY job DESC LIMIT ?1)
) s
WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = s.job)

-- [tally_wrong]
-- How many jobs there are of each queue and state, and how many are counted, where that differs. ?1: -1 for ended jobs, too.
WITH there (queue, state, jobs) AS (
    SELECT queue, 'SCHEDULED', count(*) FROM holdfast_ready GROUP BY queue
    UNION ALL
    SELECT queue, 'RUNNING', count(*) FROM holdfast_running GROUP BY queue
    UNION ALL
    SELECT j.queue, w.state, count(*) FROM holdfast_waiting w CROSS JOIN holdfast_job j ON j.seq = w.job GROUP BY 1, 2
    UNION ALL
    SELECT j.queue, e.state, count(*) FROM holdfast_ended e CROSS JOIN holdfast_job j ON j.seq = e.job
    WHERE ?1 = -1 GROUP BY 1, 2
),
counted (queue, state, jobs) AS (
    SELECT queue, state, jobs FROM holdfast_tally WHERE ?1 = -1 OR state NOT IN ({ended_states})
)
SELECT queue, state, sum(jobs) AS jobs, sum(tallied) AS tallied FROM (
    SELECT queue, state, jobs, 0 AS tallied FROM there UNION ALL SELECT queue, state, 0, jobs FROM counted
)
GROUP BY queue, state HAVING sum(jobs) <> sum(tallied)
ORDER BY queue, state

-- [sequence_behind]
SELECT 0 AS seq, 'at ' || at || ', given out: ' || given AS example
FROM (
    SELECT
        coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'holdfast_job'), 0) AS at,
        max(
            coalesce((SELECT max(seq) FROM holdfast_job), 0), coalesce((SELECT max(place) FROM holdfast_ready), 0)
        ) AS given
)
WHERE given > at

-- [pending_without_edge]
SELECT w.job AS seq, (SELECT hex(j.id) FROM holdfast_job j WHERE j.seq = w.job) AS example
FROM (
    SELECT job FROM holdfast_waiting INDEXED BY holdfast_waiting_state WHERE state = 'PENDING' ORDER BY job DESC LIMIT ?1
) w
WHERE NOT EXISTS (SELECT 1 FROM holdfast_edge e WHERE e.child = w.job AND e.is_open)

-- [waits_for_nothing]
SELECT e.child AS seq, (SELECT hex(j.id) FROM holdfast_job j WHERE j.seq = e.child) AS example
FROM (SELECT child, parent FROM holdfast_edge WHERE is_open ORDER BY child DESC LIMIT ?1) e
WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = e.parent)
    AND EXISTS (SELECT 1 FROM holdfast_waiting w WHERE w.job = e.child AND w.state = 'PENDING')

-- [end_untold]
SELECT e.parent AS seq, (SELECT hex(j.id) FROM holdfast_job j WHERE j.seq = e.child) AS example
FROM (SELECT child, parent FROM holdfast_edge WHERE is_open ORDER BY child DESC LIMIT ?1) e
WHERE EXISTS (SELECT 1 FROM holdfast_ended p WHERE p.job = e.parent)
    AND NOT EXISTS (SELECT 1 FROM holdfast_mark m WHERE m.job = e.parent)
    AND EXISTS (SELECT 1 FROM holdfast_waiting w WHERE w.job = e.child AND w.state = 'PENDING')

-- [dependents_forgotten]
SELECT e.parent AS seq, (SELECT hex(j.id) FROM holdfast_job j WHERE j.seq = e.parent) AS example
FROM (SELECT child, parent FROM holdfast_edge WHERE is_open ORDER BY child DESC LIMIT ?1) e
WHERE EXISTS (SELECT 1 FROM holdfast_waiting w WHERE w.job = e.child AND w.state = 'PENDING') AND (
    EXISTS (SELECT 1 FROM holdfast_ready p WHERE p.job = e.parent AND NOT p.has_dependents)
    OR EXISTS (SELECT 1 FROM holdfast_waiting p WHERE p.job = e.parent AND NOT p.has_dependents)
    OR EXISTS (SELECT 1 FROM holdfast_running p WHERE p.job = e.parent AND NOT p.has_dependents)
)

-- [open_edge_left]
-- Who was replayed by a person runs although what it waited for has not ended.
SELECT e.child AS seq, (SELECT hex(j.id) FROM holdfast_job j WHERE j.seq = e.child) AS example
FROM (SELECT child FROM holdfast_edge WHERE is_open ORDER BY child DESC LIMIT ?1) e
WHERE EXISTS (SELECT 1 FROM holdfast_ready c WHERE c.job = e.child AND c.replays = 0)
    OR EXISTS (SELECT 1 FROM holdfast_waiting c WHERE c.job = e.child AND c.replays = 0 AND c.state <> 'PENDING')
    OR EXISTS (SELECT 1 FROM holdfast_running c WHERE c.job = e.child AND c.replays = 0)
    OR EXISTS (SELECT 1 FROM holdfast_ended c WHERE c.job = e.child AND c.replays = 0 AND c.state = 'COMPLETED')

-- [edge_to_nothing]
SELECT e.child AS seq, 'seq ' || e.child || ' after seq ' || e.parent AS example
FROM (SELECT child, parent, is_open FROM holdfast_edge ORDER BY child DESC LIMIT ?1) e
WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = e.child)
    OR NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = e.parent) AND NOT (
        e.is_open AND EXISTS (SELECT 1 FROM holdfast_waiting w WHERE w.job = e.child AND w.state = 'PENDING'))

-- [mark_without_job]
SELECT m.job AS seq, 'seq ' || m.job AS example
FROM (SELECT job FROM holdfast_mark ORDER BY job LIMIT ?1) m
WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = m.job)

-- [key_without_job]
SELECT 0 AS seq, k.job_type || ' ' || k.key AS example
FROM (
    SELECT job_type, key, job_id FROM holdfast_idempotency INDEXED BY holdfast_idempotency_expires
    WHERE expires_at > ?2 ORDER BY expires_at DESC LIMIT ?1
) k
WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.id = k.job_id)

-- [label_without_job]
SELECT s.job AS seq, s.what || ' of seq ' || s.job AS example
FROM (
    SELECT * FROM (SELECT job, 'tag' AS what FROM holdfast_tag ORDER BY job DESC LIMIT ?1)
    UNION ALL
    SELECT * FROM (SELECT job, 'note' FROM holdfast_note ORDER BY job DESC LIMIT ?1)
    UNION ALL
    SELECT * FROM (SELECT job, 'attempt' FROM holdfast_attempt ORDER BY job DESC LIMIT ?1)
) s
WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = s.job)
