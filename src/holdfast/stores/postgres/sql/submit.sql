-- submit: insert plain jobs (no key, no dependency, no tag, no absolute time), as one statement; which of the three is
-- for rows.py to say.
-- Guarantees: a job whose id is already there fails the statement, which costs less than looking first; a repeat then
-- has ON CONFLICT, and leaves it alone, so it doubles nothing. It waits for replicas all the same (Statements.for_repeat).
-- Locks: none but those of its own rows. Index: job_id_key for the conflict.
-- A job's number is its place, too: ready is locked for writing before the statement draws it (POSTGRES-3).

-- [many]
-- What all jobs of a batch share is given once, as an array of one: unnest fills up with NULL, and ``common`` stands in.
-- Only options may be nothing by themselves; among several they are then given as ''.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now{repeated}
),
common AS MATERIALIZED (
    SELECT
        ($4::text[])[1] AS type, ($5::text[])[1] AS queue, ($6::smallint[])[1] AS priority,
        ($7::boolean[])[1] AS is_json, ($8::smallint[])[1] AS max_attempts, ($9::float8[])[1] AS visibility_seconds,
        ($10::float8[])[1] AS lifetime_seconds, ($11::text[])[1] AS options, ($12::float8[])[1] AS delay_seconds
),
given AS (
    SELECT
        g.id, g.payload, coalesce(g.type, c.type) AS type, coalesce(g.queue, c.queue) AS queue,
        coalesce(g.priority, c.priority) AS priority, coalesce(g.is_json, c.is_json) AS is_json,
        coalesce(g.max_attempts, c.max_attempts) AS max_attempts,
        coalesce(g.visibility_seconds, c.visibility_seconds) AS visibility_seconds,
        coalesce(g.lifetime_seconds, c.lifetime_seconds) AS lifetime_seconds,
        nullif(coalesce(g.options, c.options), '') AS options,
        coalesce(g.delay_seconds, c.delay_seconds) AS delay_seconds
    FROM common c, unnest(
        $2::uuid[], $3::bytea[], $4::text[], $5::text[], $6::smallint[], $7::boolean[],
        $8::smallint[], $9::float8[], $10::float8[], $11::text[], $12::float8[]
    ) AS g (
        id, payload, type, queue, priority, is_json,
        max_attempts, visibility_seconds, lifetime_seconds, options, delay_seconds
    )
),
inserted AS (
    INSERT INTO {schema}.job (
        id, type, queue, priority, depth, payload, is_json, created_at, run_at,
        max_attempts, visibility_seconds, lifetime_seconds, options
    )
    SELECT
        g.id, g.type, g.queue, g.priority, 0, g.payload, g.is_json, clock.now,
        CASE WHEN g.delay_seconds > 0 THEN clock.now + make_interval(secs => g.delay_seconds) END,
        g.max_attempts, g.visibility_seconds, g.lifetime_seconds, g.options
    FROM clock, given g
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

-- [alike]
-- Jobs that may run at once and differ in id and payload alone: [many] without its choices.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now{repeated}
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

-- [one]
-- One job that may run at once: [many] for one, without arrays.
-- $12 is the channel on which to say so, or NULL: see wake.Notifier.
-- Locks: with a channel, also the one that lets notifications come in the order of commits.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now{repeated}
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
