-- tick: from when on silence counts against workers: not before a timeout after a gap, or after the server's start.
-- A start in the future ($2 is now) is from before the clock was put back, and proves nothing.
SELECT greatest(
    coalesce(b.silence_counts_from, '-infinity'),
    CASE WHEN pg_postmaster_start_time() <= $2::timestamptz
        THEN pg_postmaster_start_time() + make_interval(secs => $1::float8) END
) AS counts_from
FROM {schema}.beat b
