-- doctor: what puts right what is not put right job by job. These walk over tables, by design.
-- Locks: none of their own; the transaction has the only write lock there is.

-- [sequence]
UPDATE sqlite_sequence SET seq = max(
    seq, coalesce((SELECT max(seq) FROM holdfast_job), 0), coalesce((SELECT max(place) FROM holdfast_ready), 0)
) WHERE name = 'holdfast_job'

-- [edges]
DELETE FROM holdfast_edge
WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = child)
    OR NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = parent) AND NOT (
        is_open AND EXISTS (SELECT 1 FROM holdfast_waiting w WHERE w.job = child AND w.state = 'PENDING'))

-- [keys]
DELETE FROM holdfast_idempotency WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.id = job_id)

-- [tags]
DELETE FROM holdfast_tag WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = job)

-- [notes]
DELETE FROM holdfast_note WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = job)

-- [attempts]
DELETE FROM holdfast_attempt WHERE NOT EXISTS (SELECT 1 FROM holdfast_job j WHERE j.seq = job)
