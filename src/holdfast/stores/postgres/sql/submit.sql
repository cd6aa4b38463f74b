-- submit: insert plain jobs (no key, no dependency, no tag, no absolute time), as one statement.
-- Guarantees: a job whose id is already there fails the statement, which costs less than looking first; a repeat then
-- has ON CONFLICT, and leaves it alone, so it doubles nothing. It waits for replicas all the same (Statements.for_repeat).
-- Locks: none but those of its own rows. Index: job_id_key for the conflict.
-- A job's number is its place, too: ready is locked for writing before the statement draws it (POSTGRES-3).

-- [alike]
-- Jobs that may run at once and differ in id ($3) and payload ($4) alone: arrays of these, or one of each (submit.py). From
-- $5 on what they share, in the order of rows._COLUMNS. $2 is the channel on which to say so, or NULL: see wake.Notifier.
-- Written as [each] writes them, a bulk submit takes 10 % longer on a busy machine.
-- Locks: with a channel, also the one that lets notifications come in the order of commits.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now{repeated}
),
inserted AS (
    INSERT INTO {schema}.job (
        id, payload, depth, created_at,
        options, type, queue, is_json, priority, visibility_seconds, lifetime_seconds, max_attempts, "group"
    )
    SELECT
        g.id, g.payload, 0, clock.now,
        $5::text, $6::text, $7::text, $8::boolean, $9::smallint, $10::float8, $11::float8, $12::smallint, $13::text
    FROM clock, {rows} AS g (id, payload)
    {on_conflict}
    RETURNING seq
),
readied AS (
    INSERT INTO {schema}.ready (
        job, queue, priority, place, version, attempt, replays, is_fragile, has_dependents,
        scheduled_at, lifetime_ends_at, type
    )
    SELECT
        seq, $7::text, $9::smallint, seq, 0, 0, 0, false, false,
        (SELECT now FROM clock), (SELECT now + make_interval(secs => $11::float8) FROM clock), $6::text
    FROM inserted
),
counted AS (
    INSERT INTO {schema}.tally (queue, state, delta)
    SELECT $7::text, 'SCHEDULED', count(*) FROM inserted HAVING count(*) > 0
)
SELECT pg_notify($2::text, $7::text) FROM inserted WHERE $2::text IS NOT NULL

-- [each]
-- Any plain jobs: id ($2), payload ($3), delay ($4), and from $5 on columns in the order of rows._COLUMNS.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now{repeated}
),
inserted AS (
    INSERT INTO {schema}.job (
        id, payload, depth, created_at, run_at,
        options, type, queue, is_json, priority, visibility_seconds, lifetime_seconds, max_attempts, "group"
    )
    SELECT
        g.id, g.payload, 0, clock.now,
        CASE WHEN g.delay_seconds > 0 THEN clock.now + make_interval(secs => g.delay_seconds) END,
        g.options, g.type, g.queue, g.is_json, g.priority, g.visibility_seconds, g.lifetime_seconds, g.max_attempts,
        g."group"
    FROM clock, unnest(
        $2::uuid[], $3::bytea[], $4::float8[],
        $5::text[], $6::text[], $7::text[], $8::boolean[], $9::smallint[], $10::float8[], $11::float8[], $12::smallint[],
        $13::text[]
    ) AS g (
        id, payload, delay_seconds,
        options, type, queue, is_json, priority, visibility_seconds, lifetime_seconds, max_attempts, "group"
    )
    {on_conflict}
    RETURNING seq, type, queue, priority, created_at, run_at, lifetime_seconds
),
readied AS (
    INSERT INTO {schema}.ready (
        job, queue, priority, place, version, attempt, replays, is_fragile, has_dependents,
        scheduled_at, lifetime_ends_at, type
    )
    SELECT
        seq, queue, priority, seq, 0, 0, 0, false, false,
        created_at, created_at + make_interval(secs => lifetime_seconds), type
    FROM inserted
    WHERE run_at IS NULL
),
delayed AS (
    INSERT INTO {schema}.waiting (
        job, state, due_at, updated_at, version, attempt, replays, is_fragile, has_dependents, lifetime_ends_at
    )
    SELECT seq, 'DELAYED', run_at, created_at, 0, 0, 0, false, false,
        created_at + make_interval(secs => lifetime_seconds)
    FROM inserted
    WHERE run_at IS NOT NULL
),
counted AS (
    INSERT INTO {schema}.tally (queue, state, delta)
    SELECT queue, CASE WHEN run_at IS NULL THEN 'SCHEDULED' ELSE 'DELAYED' END, count(*)
    FROM inserted
    GROUP BY 1, 2
)
SELECT count(*) FROM inserted
