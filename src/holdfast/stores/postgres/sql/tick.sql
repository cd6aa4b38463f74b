-- tick: note that one runs, and ask which parts have work. An idle tick is this one statement.
-- After a gap, or a restart of the server, silence counts against workers only a timeout later.
-- In the order of an index and LIMIT 1: without both, a planner that expects a match soon reads whole tables instead.
-- Locks: the one row of beat. Index: waiting_due, running_owner, ready_lifetime, waiting_lifetime, ended_done, ended_dead,
-- cron_slot_fired.
-- Commits without waiting for the disk: a server that crashed gives everyone a timeout of grace anyway.
WITH clock AS MATERIALIZED (
    SELECT
        coalesce($1::timestamptz, clock_timestamp()) AS now,
        set_config('synchronous_commit', 'off', true) AS commit_mode
),
beaten AS (
    UPDATE {schema}.beat b SET
        silence_counts_from = CASE
            WHEN b.last_tick_at IS NULL OR clock.now - b.last_tick_at > make_interval(secs => $2::float8 / 2)
            THEN clock.now + make_interval(secs => $2::float8)
            ELSE b.silence_counts_from
        END,
        last_tick_at = clock.now
    FROM clock
    RETURNING greatest(b.silence_counts_from, pg_postmaster_start_time() + make_interval(secs => $2::float8)) AS counts_from
)
SELECT
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
    EXISTS (
        SELECT FROM {schema}.worker w CROSS JOIN LATERAL (
            SELECT FROM {schema}.running r
            WHERE r.owner = w.id AND r.expires_at <= clock.now AND r.expires_at > $4::timestamptz
            ORDER BY r.expires_at LIMIT 1
        ) r
    ) AS expired,
    EXISTS (
        SELECT FROM {schema}.worker w
        WHERE (
            NOT w.is_lost AND w.seen_at < clock.now - make_interval(secs => $2::float8)
            AND clock.now >= (SELECT counts_from FROM beaten)
        ) OR (
            w.is_lost
            AND (SELECT true FROM {schema}.running r WHERE r.owner = w.id ORDER BY r.expires_at LIMIT 1)
        )
    ) AS lost_workers,
    coalesce((
        SELECT true FROM {schema}.ready r WHERE r.lifetime_ends_at <= clock.now
        ORDER BY r.lifetime_ends_at LIMIT 1
    ), (
        SELECT true FROM {schema}.waiting w WHERE w.lifetime_ends_at <= clock.now
        ORDER BY w.lifetime_ends_at LIMIT 1
    ), false) AS lifetimes,
    EXISTS (SELECT FROM {schema}.mark) AS marks,
    coalesce((
        SELECT true FROM {schema}.ended e
        WHERE e.state IN ({done_states}) AND e.completed_at <= clock.now - make_interval(secs => $5::float8)
        ORDER BY e.completed_at LIMIT 1
    ), (
        SELECT true FROM {schema}.ended e
        WHERE e.state IN ({dead_states}) AND e.completed_at <= clock.now - make_interval(secs => $6::float8)
        ORDER BY e.completed_at LIMIT 1
    ), (
        SELECT true FROM {schema}.idempotency k WHERE k.expires_at <= clock.now ORDER BY k.expires_at LIMIT 1
    ), false)
    OR EXISTS (SELECT FROM {schema}.worker w WHERE w.is_lost AND w.seen_at < clock.now - make_interval(secs => $8::float8))
    OR coalesce((
        SELECT true FROM {schema}.cron_slot c
        WHERE c.fired_at <= clock.now - make_interval(secs => $9::float8) AND (
            SELECT n.slot FROM {schema}.cron_slot n
            WHERE n.name = c.name AND n.slot > c.slot AND n.slot <= clock.now
            ORDER BY n.slot LIMIT 1
        ) IS NOT NULL
        ORDER BY c.fired_at LIMIT 1
    ), false)
    OR (SELECT count(*) FROM (SELECT FROM {schema}.tally LIMIT $7 + 1) AS sample) > $7 AS retention
FROM clock
