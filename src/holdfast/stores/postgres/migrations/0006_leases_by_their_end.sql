-- compatible since 0004

-- [alone]
-- Leases are found by their end, never through the row of their worker, which may be gone. Those of one worker are found
-- by walking over all, which are as many as there are slots: an index for that would cost every claim and settle.
CREATE INDEX CONCURRENTLY IF NOT EXISTS running_expires ON {schema}.running (expires_at);
DROP INDEX CONCURRENTLY IF EXISTS {schema}.running_owner;

-- [together]
-- No row of the tally is ever deleted, so that it has no dead ones, however long somebody's transaction is open: its sums
-- take its place at once. Nothing happens between the steps that a client could hold up, and nothing is waited for
-- while the table is locked. As its owner: those who only use the tables need no right to truncate them.
CREATE OR REPLACE FUNCTION {schema}.compact_tally(wait_milliseconds int) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    queues text[];
    states text[];
    deltas bigint[];
BEGIN
    PERFORM set_config('lock_timeout', wait_milliseconds::text, true);
    LOCK TABLE {schema}.tally IN ACCESS EXCLUSIVE MODE;
    SELECT array_agg(s.queue), array_agg(s.state), array_agg(s.delta) INTO queues, states, deltas
    FROM (SELECT queue, state, sum(delta)::bigint AS delta FROM {schema}.tally GROUP BY queue, state) s;
    TRUNCATE {schema}.tally;
    INSERT INTO {schema}.tally (queue, state, delta) SELECT * FROM unnest(queues, states, deltas);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;
ALTER TABLE {schema}.tally SET (autovacuum_enabled = off);

-- [together]
-- Read before the sequence is locked, because it walks over all that are ready. Places that come meanwhile are drawn from
-- the sequence.
SELECT set_config('holdfast.last_place', coalesce(max(place), 0)::text, true) FROM {schema}.ready;
-- Waits for those who have drawn from it, and keeps others from drawing. It is only ever moved up.
ALTER SEQUENCE {schema}.job_seq OWNED BY NONE;
SELECT setval('{schema}.job_seq', greatest(
    (SELECT last_value FROM {schema}.job_seq),
    (SELECT max(seq) FROM {schema}.job),
    current_setting('holdfast.last_place')::bigint
));
