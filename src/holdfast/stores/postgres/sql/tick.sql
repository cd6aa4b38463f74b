-- tick: what time has done to jobs and workers. One statement asks ([ask]); the others find and lock what a part of tick
-- then deals with, skipping what another process is at work on.

-- [ask]
-- Which parts have work. An idle tick is this one statement, which reads little and writes nothing.
-- Silence counts against workers only while ticks came no further apart than half the timeout: those of this process
-- ($10), and those that were noted. After a longer gap it counts a timeout later. Heartbeats prove nothing here: the first
-- after an outage would hide it from the tick behind it. The first tick of all is noted; after that ticks are noted only
-- while a worker is silent, and not every one: for processes that start then.
-- A time in the future is from before the clock was put back, and proves nothing.
-- In the order of an index and LIMIT 1: without both, a planner that expects a match soon reads whole tables instead.
-- Locks: the one row of beat, where it is noted. Index: waiting_due, running_expires, ready_lifetime, waiting_lifetime,
-- ended_done, ended_dead, idempotency_expires, cron_slot_fired, mark_place.
-- Commits without waiting for the disk: a server that crashed gives everyone a timeout of grace anyway.
{clock},
life AS MATERIALIZED (
    SELECT
        clock.now,
        greatest(
            (SELECT b.last_tick_at FROM {schema}.beat b WHERE b.last_tick_at <= clock.now),
            CASE WHEN $10::timestamptz <= clock.now THEN $10::timestamptz END
        ) AS ticked_at,
        coalesce(bool_or(
            NOT w.is_lost AND NOT w.seen_at BETWEEN
                clock.now - make_interval(secs => $2::float8 / 2) AND clock.now + make_interval(secs => $2::float8)
        ), false) AS is_somebody_silent,
        coalesce(bool_or(
            NOT w.is_lost AND NOT w.seen_at BETWEEN
                clock.now - make_interval(secs => $2::float8) AND clock.now + make_interval(secs => $2::float8)
        ), false) AS is_somebody_lost,
        count(*) FILTER (WHERE NOT w.is_lost AND w.session_key IS NOT NULL) AS attended,
        coalesce(bool_or(
            w.is_lost AND w.seen_at < clock.now - make_interval(secs => $8::float8)
        ), false) AS is_somebody_forgotten
    FROM clock LEFT JOIN {schema}.worker w ON true
    GROUP BY clock.now
),
beaten AS (
    UPDATE {schema}.beat b SET
        silence_counts_from = CASE
            WHEN b.last_tick_at IS NULL OR b.last_tick_at > life.now
                OR life.ticked_at IS NULL OR life.now - life.ticked_at > make_interval(secs => $2::float8 / 2)
            THEN life.now + make_interval(secs => $2::float8)
            ELSE b.silence_counts_from
        END,
        last_tick_at = life.now
    FROM life
    WHERE b.last_tick_at IS NULL OR (
        life.is_somebody_silent
        AND NOT life.now - b.last_tick_at BETWEEN interval '0' AND make_interval(secs => $2::float8 / 16)
    )
    RETURNING b.silence_counts_from
)
SELECT
    clock.now,
    coalesce((
        SELECT true FROM {schema}.waiting w
        WHERE w.due_at <= clock.now AND w.due_at > $3::timestamptz
        ORDER BY w.due_at LIMIT 1
    ), false) AS due,
    coalesce((
        SELECT extract(epoch FROM w.due_at - clock.now)::float8 FROM {schema}.waiting w
        WHERE w.due_at > clock.now
        ORDER BY w.due_at LIMIT 1
    ), 'infinity') AS quiet_seconds,
    coalesce((
        SELECT true FROM {schema}.running r
        WHERE r.expires_at <= clock.now AND r.expires_at > $4::timestamptz
        ORDER BY r.expires_at LIMIT 1
    ), false) AS expired,
    life.is_somebody_lost AND clock.now >= greatest(
        coalesce((SELECT silence_counts_from FROM beaten), (SELECT silence_counts_from FROM {schema}.beat), '-infinity'),
        {server_grace}
    ) AS lost_workers,
    coalesce((
        SELECT true FROM {schema}.ready r WHERE r.lifetime_ends_at <= clock.now
        ORDER BY r.lifetime_ends_at LIMIT 1
    ), (
        SELECT true FROM {schema}.waiting w WHERE w.lifetime_ends_at <= clock.now
        ORDER BY w.lifetime_ends_at LIMIT 1
    ), false) AS lifetimes,
    coalesce((
        SELECT true FROM {schema}.mark m WHERE m.place >= $12::bigint ORDER BY m.place LIMIT 1
    ), false) AS marks,
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next_number,
    coalesce((
        SELECT true FROM {schema}.ended e
        WHERE e.state IN ({done_states}) AND e.completed_at >= $7::timestamptz
            AND e.completed_at <= clock.now - make_interval(secs => $5::float8)
        ORDER BY e.completed_at LIMIT 1
    ), (
        SELECT true FROM {schema}.ended e
        WHERE e.state IN ({dead_states}) AND e.completed_at >= $11::timestamptz
            AND e.completed_at <= clock.now - make_interval(secs => $6::float8)
        ORDER BY e.completed_at LIMIT 1
    ), (
        SELECT true FROM {schema}.idempotency k WHERE k.expires_at <= clock.now ORDER BY k.expires_at LIMIT 1
    ), (
        SELECT true FROM {schema}.cron_slot c
        WHERE c.fired_at <= clock.now - make_interval(secs => $9::float8) AND (
            SELECT n.slot FROM {schema}.cron_slot n
            WHERE n.name = c.name AND n.slot > c.slot AND n.slot <= clock.now
            ORDER BY n.slot LIMIT 1
        ) IS NOT NULL
        ORDER BY c.fired_at LIMIT 1
    ), false) OR life.is_somebody_forgotten AS retention,
    pg_relation_size('{schema}.tally') AS tally_bytes,
    -- How many workers can be seen to be dead: see presence.py.
    life.attended
FROM clock, life

-- [silence]
-- From when on silence counts against workers ($2: their timeout): not before a timeout after a gap, or after the
-- server's start. Locks: none; the table has one row.
SELECT greatest(coalesce(b.silence_counts_from, '-infinity'), {server_grace}) AS counts_from
FROM {schema}.beat b, (SELECT $1::timestamptz AS now) clock

-- [mark_lost]
-- Whoever was last seen before $1; or after $2: one that was seen in the future was seen before the clock was put back,
-- and a live one is seen again by now. Locks: the rows of those workers. Reads all workers.
UPDATE {schema}.worker SET is_lost = true
WHERE NOT is_lost AND NOT seen_at BETWEEN $1::timestamptz AND $2::timestamptz

-- [mark_gone]
-- Workers ($1) whose process has died are lost, unless they have proved themselves alive in this moment.
-- Locks: their rows, in the order of their IDs, skipping those that a heartbeat or another watcher has. Index: worker_pkey.
UPDATE {schema}.worker w SET is_lost = true
WHERE w.id = ANY (ARRAY(
    SELECT found.id
    FROM unnest((SELECT $1::uuid[])) AS g (id)
    CROSS JOIN LATERAL (
        SELECT w.id FROM {schema}.worker w
        WHERE w.id = g.id AND NOT w.is_lost AND w.session_key IS NOT NULL
        FOR UPDATE SKIP LOCKED
    ) found
    ORDER BY found.id
)) AND NOT EXISTS (
    SELECT 1 FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        AND ((l.classid::bigint << 32) | l.objid::bigint) = w.session_key
)

-- [find_due]
-- DELAYED and RETRYING jobs whose time has come, locked, skipping what another tick has.
-- Index: waiting_due.
SELECT w.job AS seq
FROM {schema}.waiting w
WHERE w.due_at <= $1::timestamptz AND w.due_at > $2::timestamptz
ORDER BY w.due_at, w.job
LIMIT $3
FOR UPDATE SKIP LOCKED

-- [find_expired]
-- Leases past their end, locked, skipping what another tick or a settle has. Found from the leases alone: whether
-- their worker has a row does not matter.
-- Index: running_expires, from where the last sweep ended.
SELECT r.seq
FROM (
    SELECT r.job AS seq, r.expires_at
    FROM {schema}.running r
    WHERE r.expires_at <= $1::timestamptz AND r.expires_at > $2::timestamptz
    ORDER BY r.expires_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
) r
ORDER BY r.expires_at, r.seq

-- [find_overaged]
-- Jobs over their lifetime that are not running, locked. Index: ready_lifetime, waiting_lifetime.
WITH in_ready AS (
    SELECT r.job AS seq, r.lifetime_ends_at
    FROM {schema}.ready r
    WHERE r.lifetime_ends_at <= $1::timestamptz
    ORDER BY r.lifetime_ends_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
in_waiting AS (
    SELECT w.job AS seq, w.lifetime_ends_at
    FROM {schema}.waiting w
    WHERE w.lifetime_ends_at <= $1::timestamptz
    ORDER BY w.lifetime_ends_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
SELECT seq FROM (SELECT * FROM in_ready UNION ALL SELECT * FROM in_waiting) found
ORDER BY lifetime_ends_at, seq
LIMIT $2

-- [find_lost]
-- Leases whose worker is lost, or has no row, locked, skipping what another tick or a settle has.
-- It walks over all leases, which are as many as there are slots: it is asked when a worker was just lost, and otherwise
-- now and then. A claim that ran beside leave, or beside the loss of its worker, is found this way.
-- Index: running_expires, worker_pkey.
SELECT r.seq
FROM (
    SELECT r.job AS seq
    FROM {schema}.running r
    WHERE (SELECT w.id FROM {schema}.worker w WHERE w.id = r.owner AND NOT w.is_lost) IS NULL
    ORDER BY r.expires_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
) r
ORDER BY r.seq

-- [tally_rows]
-- How many rows the tally has, and to how many they would add up. Reads all of it. Locks: none.
SELECT count(*) AS rows, (SELECT count(*) FROM (SELECT DISTINCT queue, state FROM {schema}.tally) AS sums) AS sums
FROM {schema}.tally

-- [compact_tally]
-- Add the tally up, if the table can be had for itself within $1 milliseconds; whether that was so.
-- Locks: all of tally, for as long as it takes to write the sums. Nothing else is locked, so nobody can wait in a circle.
SELECT {schema}.compact_tally($1::int) AS is_done
