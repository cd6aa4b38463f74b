-- tick: ask which parts have work. An idle tick is this one statement, which reads little and writes nothing.
-- Silence counts against workers only while ticks came no further apart than half the timeout: those of this process
-- ($10), and those that were noted. After a longer gap it counts a timeout later. Heartbeats prove nothing here: the first
-- after an outage would hide it from the tick behind it. The first tick of all is noted; after that ticks are noted only
-- while a worker is silent, and not every one: for processes that start then.
-- A time in the future is from before the clock was put back, and proves nothing.
-- In the order of an index and LIMIT 1: without both, a planner that expects a match soon reads whole tables instead.
-- Locks: the one row of beat, where it is noted. Index: waiting_due, running_expires, ready_lifetime, waiting_lifetime,
-- ended_done, ended_dead, idempotency_expires, cron_slot_fired, mark_place.
-- Commits without waiting for the disk: a server that crashed gives everyone a timeout of grace anyway.
WITH clock AS MATERIALIZED (
    SELECT
        coalesce($1::timestamptz, clock_timestamp()) AS now,
        set_config('synchronous_commit', 'off', true) AS commit_mode
),
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
        CASE WHEN pg_postmaster_start_time() <= clock.now
            THEN pg_postmaster_start_time() + make_interval(secs => $2::float8) END
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
