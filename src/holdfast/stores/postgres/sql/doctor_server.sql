-- doctor: the set-up and the state of the server; it reads catalogs and statistics, and no table of ours. Locks: none.

-- [privileges]
-- What the role lacks of what the statements of the store need. Names that this schema does not have are not its fault.
SELECT lacks.what
FROM (
    SELECT p.privilege || ' on table ' || c.relname AS what
    FROM unnest(ARRAY[
        'job', 'ready', 'waiting', 'running', 'ended', 'edge', 'mark', 'idempotency', 'tag', 'attempt', 'note', 'worker',
        'pause', 'tally', 'beat', 'cron_slot', 'api_key'
    ]) AS ours (name)
    JOIN pg_class c ON c.relname = ours.name AND c.relkind = 'r' AND c.relnamespace = to_regnamespace('{schema}')
    CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p (privilege)
    WHERE NOT has_table_privilege(c.oid, p.privilege)
    UNION ALL
    SELECT 'USAGE on sequence job_seq'
    FROM pg_class c
    WHERE c.relname = 'job_seq' AND c.relkind = 'S' AND c.relnamespace = to_regnamespace('{schema}')
        AND NOT has_sequence_privilege(c.oid, 'USAGE')
    UNION ALL
    SELECT 'EXECUTE on function ' || f.proname
    FROM pg_proc f
    WHERE f.proname = 'compact_tally' AND f.pronamespace = to_regnamespace('{schema}')
        AND NOT has_function_privilege(f.oid, 'EXECUTE')
) lacks
ORDER BY 1

-- [old_transaction]
-- Open for longer than $1 seconds, or prepared and not finished.
SELECT 'pid ' || a.pid || ' (' || coalesce(nullif(a.application_name, ''), 'unnamed') || ', user ' || a.usename
    || ') since ' || to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC' AS what
FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
    AND a.xact_start < clock_timestamp() - make_interval(secs => $1::float8)
    AND a.backend_type IN ('client backend', 'walsender')
UNION ALL
SELECT 'prepared ' || p.gid || ' since ' || to_char(p.prepared AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC'
FROM pg_prepared_xacts p
WHERE p.database = current_database() AND p.prepared < clock_timestamp() - make_interval(secs => $1::float8)

-- [dead_rows]
-- Tables with more than $1 dead rows, and twice as many as live ones.
SELECT c.relname || ': ' || pg_stat_get_dead_tuples(c.oid) || ' dead, ' || pg_stat_get_live_tuples(c.oid) || ' live' AS what
FROM pg_class c
WHERE c.relnamespace = to_regnamespace('{schema}') AND c.relkind = 'r'
    AND pg_stat_get_dead_tuples(c.oid) > greatest($1::bigint, 2 * pg_stat_get_live_tuples(c.oid))
ORDER BY pg_stat_get_dead_tuples(c.oid) DESC

-- [index_bloat]
-- Indexes of more than $1 bytes that have more than $2 bytes for every row of their table.
SELECT i.relname || ': ' || pg_size_pretty(pg_relation_size(i.oid)) || ' for ' || t.rows || ' rows' AS what
FROM pg_class c
JOIN pg_index x ON x.indrelid = c.oid
JOIN pg_class i ON i.oid = x.indexrelid
CROSS JOIN LATERAL (
    SELECT greatest(pg_stat_get_live_tuples(c.oid), c.reltuples::bigint, 0) AS rows OFFSET 0
) t
WHERE c.relnamespace = to_regnamespace('{schema}') AND c.relkind = 'r'
    AND pg_relation_size(i.oid) > $1::bigint AND pg_relation_size(i.oid) > $2::bigint * t.rows
ORDER BY pg_relation_size(i.oid) DESC
