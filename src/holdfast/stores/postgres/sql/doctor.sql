-- doctor: which rules the data breaks. Each check names the seq of a job and how to show it; all are asked in one snapshot.
-- $1: how many of the newest rows of a table are walked over, NULL for all. $2: now.
-- Unlike all other statements these walk over tables, by design, with the planner's settings as the server has them; what is
-- looked up row by row is a scalar subquery, which no planner turns into a walk over the other table. Locks: none.

-- [hold_tally]
-- Its adding up empties the table, which a snapshot does not see as others do. Locks: the tally against that, and nothing
-- else; taken before the snapshot.
LOCK TABLE {schema}.tally IN ACCESS SHARE MODE

-- [summed]
-- How often a check finds something wrong, and examples.
WITH found AS MATERIALIZED ({check})
SELECT count(*) AS count, ARRAY(SELECT f.example FROM found f LIMIT {examples}) AS examples FROM found

-- [in_two_tables]
-- From the jobs that have not ended: looked up in the other tables by primary key.
SELECT DISTINCT s.job AS seq,
    coalesce((SELECT j.id::text FROM {schema}.job j WHERE j.seq = s.job), 'seq ' || s.job) AS example
FROM (
    (SELECT job, 'ready' AS place FROM {schema}.ready ORDER BY job DESC LIMIT $1::bigint)
    UNION ALL
    (SELECT job, 'waiting' FROM {schema}.waiting ORDER BY job DESC LIMIT $1::bigint)
    UNION ALL
    (SELECT job, 'running' FROM {schema}.running ORDER BY job DESC LIMIT $1::bigint)
) s
WHERE (SELECT e.job FROM {schema}.ended e WHERE e.job = s.job) IS NOT NULL
    OR s.place <> 'ready' AND (SELECT r.job FROM {schema}.ready r WHERE r.job = s.job) IS NOT NULL
    OR s.place <> 'waiting' AND (SELECT w.job FROM {schema}.waiting w WHERE w.job = s.job) IS NOT NULL
    OR s.place <> 'running' AND (SELECT r.job FROM {schema}.running r WHERE r.job = s.job) IS NOT NULL

-- [in_no_table]
SELECT j.seq, j.id::text AS example
FROM (SELECT seq, id FROM {schema}.job ORDER BY seq DESC LIMIT $1::bigint) j
WHERE (SELECT e.job FROM {schema}.ended e WHERE e.job = j.seq) IS NULL
    AND (SELECT r.job FROM {schema}.ready r WHERE r.job = j.seq) IS NULL
    AND (SELECT w.job FROM {schema}.waiting w WHERE w.job = j.seq) IS NULL
    AND (SELECT r.job FROM {schema}.running r WHERE r.job = j.seq) IS NULL

-- [row_without_job]
SELECT s.job AS seq, s.place || ': seq ' || s.job AS example
FROM (
    (SELECT job, 'ready' AS place FROM {schema}.ready ORDER BY job DESC LIMIT $1::bigint)
    UNION ALL
    (SELECT job, 'waiting' FROM {schema}.waiting ORDER BY job DESC LIMIT $1::bigint)
    UNION ALL
    (SELECT job, 'running' FROM {schema}.running ORDER BY job DESC LIMIT $1::bigint)
    UNION ALL
    (SELECT job, 'ended' FROM {schema}.ended ORDER BY job DESC LIMIT $1::bigint)
) s
WHERE (SELECT j.seq FROM {schema}.job j WHERE j.seq = s.job) IS NULL

-- [tally_wrong]
-- Where the jobs that there are and those that are counted differ. $1: NULL for ended jobs, too.
SELECT queue, state, sum(jobs)::bigint AS jobs, sum(tallied)::bigint AS tallied
FROM (
    SELECT queue, 'SCHEDULED' AS state, count(*) AS jobs, 0 AS tallied FROM {schema}.ready GROUP BY queue
    UNION ALL
    SELECT queue, 'RUNNING', count(*), 0 FROM {schema}.running GROUP BY queue
    UNION ALL
    SELECT j.queue, w.state, count(*), 0 FROM {schema}.waiting w JOIN {schema}.job j ON j.seq = w.job GROUP BY 1, 2
    UNION ALL
    SELECT j.queue, e.state, count(*), 0 FROM {schema}.ended e JOIN {schema}.job j ON j.seq = e.job
    WHERE $1::bigint IS NULL GROUP BY 1, 2
    UNION ALL
    SELECT queue, state, 0, sum(delta) FROM {schema}.tally
    WHERE $1::bigint IS NULL OR state NOT IN ({ended_states}) GROUP BY 1, 2
) s
GROUP BY queue, state
HAVING sum(jobs) <> sum(tallied)
ORDER BY queue, state

-- [sequence]
-- The highest number that a row has, and then the last that was given out; NULL where the role may not know.
SELECT given.highest, CASE WHEN has_sequence_privilege('{schema}.job_seq', 'USAGE, SELECT')
    THEN coalesce(pg_sequence_last_value('{schema}.job_seq'::regclass), 0) END AS at
FROM (
    SELECT greatest((SELECT max(seq) FROM {schema}.job), (SELECT max(place) FROM {schema}.ready), 0) AS highest OFFSET 0
) given

-- [pending_without_edge]
SELECT w.job AS seq, (SELECT j.id::text FROM {schema}.job j WHERE j.seq = w.job) AS example
FROM (SELECT job FROM {schema}.waiting WHERE state = 'PENDING' ORDER BY job DESC LIMIT $1::bigint) w
WHERE (SELECT e.child FROM {schema}.edge e WHERE e.child = w.job AND e.is_open LIMIT 1) IS NULL

-- [waits_for_nothing]
SELECT e.child AS seq, (SELECT j.id::text FROM {schema}.job j WHERE j.seq = e.child) AS example
FROM (SELECT child, parent FROM {schema}.edge WHERE is_open ORDER BY child DESC LIMIT $1::bigint) e
WHERE (SELECT j.seq FROM {schema}.job j WHERE j.seq = e.parent) IS NULL
    AND (SELECT w.job FROM {schema}.waiting w WHERE w.job = e.child AND w.state = 'PENDING') IS NOT NULL

-- [end_untold]
SELECT e.parent AS seq, (SELECT j.id::text FROM {schema}.job j WHERE j.seq = e.child) AS example
FROM (SELECT child, parent FROM {schema}.edge WHERE is_open ORDER BY child DESC LIMIT $1::bigint) e
WHERE (SELECT p.job FROM {schema}.ended p WHERE p.job = e.parent) IS NOT NULL
    AND (SELECT m.job FROM {schema}.mark m WHERE m.job = e.parent) IS NULL
    AND (SELECT w.job FROM {schema}.waiting w WHERE w.job = e.child AND w.state = 'PENDING') IS NOT NULL

-- [dependents_forgotten]
SELECT e.parent AS seq, (SELECT j.id::text FROM {schema}.job j WHERE j.seq = e.parent) AS example
FROM (SELECT child, parent FROM {schema}.edge WHERE is_open ORDER BY child DESC LIMIT $1::bigint) e
WHERE (SELECT w.job FROM {schema}.waiting w WHERE w.job = e.child AND w.state = 'PENDING') IS NOT NULL
    AND coalesce(
        (SELECT NOT p.has_dependents FROM {schema}.ready p WHERE p.job = e.parent),
        (SELECT NOT p.has_dependents FROM {schema}.waiting p WHERE p.job = e.parent),
        (SELECT NOT p.has_dependents FROM {schema}.running p WHERE p.job = e.parent)
    )

-- [open_edge_left]
-- Who was replayed by a person runs although what it waited for has not ended.
SELECT e.child AS seq, (SELECT j.id::text FROM {schema}.job j WHERE j.seq = e.child) AS example
FROM (SELECT child FROM {schema}.edge WHERE is_open ORDER BY child DESC LIMIT $1::bigint) e
WHERE coalesce(
    (SELECT c.replays = 0 FROM {schema}.ready c WHERE c.job = e.child),
    (SELECT c.replays = 0 AND c.state <> 'PENDING' FROM {schema}.waiting c WHERE c.job = e.child),
    (SELECT c.replays = 0 FROM {schema}.running c WHERE c.job = e.child),
    (SELECT c.replays = 0 AND c.state = 'COMPLETED' FROM {schema}.ended c WHERE c.job = e.child)
)

-- [edge_to_nothing]
SELECT e.child AS seq, 'seq ' || e.child || ' after seq ' || e.parent AS example
FROM (SELECT child, parent, is_open FROM {schema}.edge ORDER BY child DESC LIMIT $1::bigint) e
WHERE (SELECT j.seq FROM {schema}.job j WHERE j.seq = e.child) IS NULL
    OR (SELECT j.seq FROM {schema}.job j WHERE j.seq = e.parent) IS NULL AND NOT (
        e.is_open
        AND (SELECT w.job FROM {schema}.waiting w WHERE w.job = e.child AND w.state = 'PENDING') IS NOT NULL)

-- [mark_without_job]
SELECT m.job AS seq, 'seq ' || m.job AS example
FROM (SELECT job FROM {schema}.mark ORDER BY job LIMIT $1::bigint) m
WHERE (SELECT j.seq FROM {schema}.job j WHERE j.seq = m.job) IS NULL

-- [key_without_job]
SELECT 0::bigint AS seq, k.job_type || ' ' || k.key AS example
FROM (
    SELECT job_type, key, job_id FROM {schema}.idempotency
    WHERE expires_at > $2::timestamptz ORDER BY expires_at DESC LIMIT $1::bigint
) k
WHERE (SELECT j.id FROM {schema}.job j WHERE j.id = k.job_id) IS NULL

-- [label_without_job]
SELECT s.job AS seq, s.what || ' of seq ' || s.job AS example
FROM (
    (SELECT job, 'tag' AS what FROM {schema}.tag ORDER BY job DESC LIMIT $1::bigint)
    UNION ALL
    (SELECT job, 'note' FROM {schema}.note ORDER BY job DESC LIMIT $1::bigint)
    UNION ALL
    (SELECT job, 'attempt' FROM {schema}.attempt ORDER BY job DESC LIMIT $1::bigint)
) s
WHERE (SELECT j.seq FROM {schema}.job j WHERE j.seq = s.job) IS NULL
