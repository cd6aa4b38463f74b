-- tick: from when on silence counts against workers: not before a timeout after a gap, or after the server's start.
SELECT greatest(
    coalesce(b.silence_counts_from, '-infinity'), pg_postmaster_start_time() + make_interval(secs => $1::float8)
) AS counts_from
FROM {schema}.beat b
