-- What the verbs write: jobs that come, move from table to table, and change where they stand.
-- Locks: none of their own that somebody else could hold; the verbs lock what they write first (lock.sql).
-- Index: the primary keys.

-- [reserve]
-- Numbers for jobs.
SELECT nextval('{schema}.job_seq') AS seq FROM generate_series(1, $1::int)

-- [job]
-- The facts of jobs whose seq is already drawn; from $8 on in the order of rows._COLUMNS.
INSERT INTO {schema}.job (
    seq, depth, created_at, run_at, spawned_by, id, payload,
    options, type, queue, is_json, priority, visibility_seconds, lifetime_seconds, max_attempts, "group"
)
SELECT * FROM unnest(
    $1::bigint[], $2::smallint[], $3::timestamptz[], $4::timestamptz[], $5::bigint[], $6::uuid[], $7::bytea[],
    $8::text[], $9::text[], $10::text[], $11::boolean[], $12::smallint[], $13::float8[], $14::float8[], $15::smallint[],
    $16::text[]
)

-- [tag]
INSERT INTO {schema}.tag (job, name, value) SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[])

-- [ready]
-- Into SCHEDULED, each at a new place, in the order given.
INSERT INTO {schema}.ready (
    job, queue, priority, version, attempt, replays, is_fragile, has_dependents,
    scheduled_at, started_at, last_token, lifetime_ends_at, type, place
)
SELECT g.*, nextval('{schema}.job_seq') FROM unnest(
    $1::bigint[], $2::text[], $3::smallint[], $4::int[], $5::smallint[], $6::smallint[], $7::boolean[], $8::boolean[],
    $9::timestamptz[], $10::timestamptz[], $11::uuid[], $12::timestamptz[], $13::text[]
) AS g

-- [waiting]
-- Into PENDING, DELAYED or RETRYING.
INSERT INTO {schema}.waiting (
    job, state, version, attempt, replays, is_fragile, has_dependents,
    scheduled_at, started_at, last_token, lifetime_ends_at, due_at, updated_at
)
SELECT * FROM unnest(
    $1::bigint[], $2::text[], $3::int[], $4::smallint[], $5::smallint[], $6::boolean[], $7::boolean[],
    $8::timestamptz[], $9::timestamptz[], $10::uuid[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[]
)

-- [ended]
-- Into a terminal state.
INSERT INTO {schema}.ended (
    job, state, version, attempt, replays, is_fragile, has_dependents,
    scheduled_at, started_at, last_token, owner, completed_at, ended_by, failure, result
)
SELECT * FROM unnest(
    $1::bigint[], $2::text[], $3::int[], $4::smallint[], $5::smallint[], $6::boolean[], $7::boolean[],
    $8::timestamptz[], $9::timestamptz[], $10::uuid[], $11::uuid[], $12::timestamptz[], $13::bigint[],
    $14::text[], $15::bytea[]
)

-- [change_ready]
-- Within SCHEDULED: the place stays. By address, here and below: no plan can take the whole table for the shorter way.
UPDATE {schema}.ready t SET has_dependents = g.has_dependents
FROM unnest($1::bigint[], $2::boolean[]) AS g (job, has_dependents)
CROSS JOIN LATERAL (
    SELECT t.ctid AS address FROM {schema}.ready t WHERE t.job = g.job OFFSET 0
) found
WHERE t.ctid = found.address

-- [change_waiting]
UPDATE {schema}.waiting t SET has_dependents = g.has_dependents
FROM unnest($1::bigint[], $2::boolean[]) AS g (job, has_dependents)
CROSS JOIN LATERAL (
    SELECT t.ctid AS address FROM {schema}.waiting t WHERE t.job = g.job OFFSET 0
) found
WHERE t.ctid = found.address

-- [change_running]
UPDATE {schema}.running t SET has_dependents = g.has_dependents, cancel_requested = g.cancel_requested, expires_at = g.expires_at
FROM unnest($1::bigint[], $2::boolean[], $3::boolean[], $4::timestamptz[]) AS g (job, has_dependents, cancel_requested, expires_at)
CROSS JOIN LATERAL (
    SELECT t.ctid AS address FROM {schema}.running t WHERE t.job = g.job OFFSET 0
) found
WHERE t.ctid = found.address

-- [change_ended]
-- Within a terminal state: the result, which no record carries, stays.
UPDATE {schema}.ended t SET has_dependents = g.has_dependents, ended_by = g.ended_by
FROM unnest($1::bigint[], $2::boolean[], $3::bigint[]) AS g (job, has_dependents, ended_by)
CROSS JOIN LATERAL (
    SELECT t.ctid AS address FROM {schema}.ended t WHERE t.job = g.job OFFSET 0
) found
WHERE t.ctid = found.address

-- [leave_ready]
DELETE FROM {schema}.ready WHERE job = ANY ($1::bigint[])

-- [leave_waiting]
DELETE FROM {schema}.waiting WHERE job = ANY ($1::bigint[])

-- [leave_running]
DELETE FROM {schema}.running WHERE job = ANY ($1::bigint[])

-- [leave_ended]
DELETE FROM {schema}.ended WHERE job = ANY ($1::bigint[])

-- [tally]
-- Appended: no row is updated, and tick adds them up.
INSERT INTO {schema}.tally (queue, state, delta) SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])

-- [attempt]
INSERT INTO {schema}.attempt (
    token, job, number, version, owner, started_at, ended_at, previous, is_ended_by_holder, failure
)
SELECT * FROM unnest(
    $1::uuid[], $2::bigint[], $3::smallint[], $4::int[], $5::uuid[], $6::timestamptz[], $7::timestamptz[], $8::uuid[],
    $9::boolean[], $10::text[]
)

-- [ended_by_holder]
-- Index: attempt_pkey.
SELECT job, token FROM {schema}.attempt WHERE job = ANY ($1::bigint[]) AND is_ended_by_holder

-- [note]
-- Progress and checkpoint of running jobs; NULL leaves what is there.
INSERT INTO {schema}.note (job, percent, message, checkpoint)
SELECT * FROM unnest($1::bigint[], $2::float8[], $3::text[], $4::bytea[])
ON CONFLICT (job) DO UPDATE SET
    percent = coalesce(excluded.percent, note.percent),
    message = coalesce(excluded.message, note.message),
    checkpoint = coalesce(excluded.checkpoint, note.checkpoint)

-- [place_again]
-- An UPDATE locks ready for writing before it draws the places, as POSTGRES-3 asks.
UPDATE {schema}.ready SET place = nextval('{schema}.job_seq'), scheduled_at = $2::timestamptz
WHERE job = ANY ($1::bigint[])
