-- submit: insert plain jobs that may run at once and differ in id and payload alone; submit.sql without its choices.
-- Guarantees: a job whose id is already there fails the statement, which costs less than looking first; a repeat then
-- has ON CONFLICT, and leaves it alone, so it doubles nothing. It waits for replicas all the same (Statements.for_repeat).
-- Locks: none but those of its own rows. Index: job_id_key for the conflict.
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
        g.id, $4::text, $5::text, $6::smallint, 0, g.payload, $7::boolean, clock.now,
        $8::smallint, $9::float8, $10::float8, $11::text
    FROM clock, unnest($2::uuid[], $3::bytea[]) AS g (id, payload)
    {on_conflict}
    RETURNING seq
),
readied AS (
    INSERT INTO {schema}.ready (
        job, queue, priority, place, version, attempt, replays, is_fragile, has_dependents,
        scheduled_at, lifetime_ends_at, type
    )
    SELECT
        seq, $5::text, $6::smallint, seq, 0, 0, 0, false, false,
        (SELECT now FROM clock), (SELECT now + make_interval(secs => $10::float8) FROM clock), $4::text
    FROM inserted
)
INSERT INTO {schema}.tally (queue, state, delta)
SELECT $5::text, 'SCHEDULED', count(*) FROM inserted HAVING count(*) > 0
