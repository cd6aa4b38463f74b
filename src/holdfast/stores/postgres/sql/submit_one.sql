-- submit: insert one plain job that may run at once; submit.sql for one, without arrays.
-- Guarantees: a job whose id is already there fails the statement, which costs less than looking first; a repeat then
-- has ON CONFLICT, and leaves it alone, so it doubles nothing. It waits for replicas all the same (Statements.for_repeat).
-- $12 is the channel on which to say so, or NULL: see wake.Notifier.
-- Locks: none but those of its own rows; with a channel, the one that lets notifications come in the order of commits. Index: job_id_key for the conflict.
-- A job's number is its place, too: ready is locked for writing before the statement draws it (PG3).
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
),
inserted AS (
    INSERT INTO {schema}.job (
        id, type, queue, priority, depth, payload, is_json, created_at,
        max_attempts, visibility_seconds, lifetime_seconds, options
    )
    SELECT
        $2::uuid, $4::text, $5::text, $6::smallint, 0, $3::bytea, $7::boolean,
        clock.now, $8::smallint, $9::float8, $10::float8, $11::text
    FROM clock
    {on_conflict}
    RETURNING seq, queue, priority, created_at, lifetime_seconds
),
counted AS (
    INSERT INTO {schema}.tally (queue, state, delta) SELECT queue, 'SCHEDULED', 1 FROM inserted
),
readied AS (
    INSERT INTO {schema}.ready (
        job, queue, priority, place, version, attempt, replays, is_fragile, has_dependents,
        scheduled_at, lifetime_ends_at, type
    )
    SELECT
        seq, queue, priority, seq, 0, 0, 0, false, false,
        created_at, created_at + make_interval(secs => lifetime_seconds), $4::text
    FROM inserted
)
SELECT pg_notify($12::text, queue) FROM inserted WHERE $12::text IS NOT NULL
