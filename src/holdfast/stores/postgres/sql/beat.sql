-- tick: note that one ran. After a gap, or a restart of the server, silence counts against workers only a timeout later.
UPDATE {schema}.beat b SET
    silence_counts_from = CASE
        WHEN b.last_tick_at IS NULL OR $1::timestamptz - b.last_tick_at > make_interval(secs => $2::float8 / 2)
        THEN $1::timestamptz + make_interval(secs => $2::float8)
        ELSE b.silence_counts_from
    END,
    last_tick_at = $1::timestamptz
RETURNING greatest(b.silence_counts_from, pg_postmaster_start_time() + make_interval(secs => $2::float8)) AS counts_from
