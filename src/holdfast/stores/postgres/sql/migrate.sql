-- migrate, and whoever asks which schema a database has. What is done to the tables stands in migrations/.

-- [version]
-- The second column came later than the table. Locks: none.
SELECT version_num, to_jsonb(v) ->> 'compatible_since' AS compatible_since FROM {schema}.schema_version v

-- [may_read]
-- NULL: there is no such table. Locks: none.
SELECT has_table_privilege(to_regclass('{schema}.schema_version')::oid, 'SELECT')

-- [rights]
-- What the role may do, and a table that is not its own. Locks: none.
SELECT
    current_user AS role, current_database() AS database, n.oid IS NOT NULL AS schema_exists,
    has_database_privilege(current_database(), 'CREATE') AS may_create_schema,
    has_schema_privilege(n.oid, 'USAGE') AS may_use_schema,
    has_schema_privilege(n.oid, 'CREATE') AS may_create_tables,
    foreign_one.relname AS foreign_table, pg_get_userbyid(foreign_one.relowner) AS foreign_owner
FROM (SELECT) AS one_row
LEFT JOIN pg_namespace n ON n.nspname = $1
LEFT JOIN LATERAL (
    SELECT c.relname, c.relowner FROM pg_class c
    WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'S') AND NOT pg_has_role(c.relowner, 'USAGE')
    ORDER BY c.relname LIMIT 1
) AS foreign_one ON true

-- [take_turn]
-- Locks: the number, until the transaction ends.
SELECT pg_try_advisory_xact_lock($1)

-- [has_schema]
SELECT to_regnamespace('{schema}') IS NOT NULL

-- [make_schema]
CREATE SCHEMA {schema}

-- [make_schema_once]
CREATE SCHEMA IF NOT EXISTS {schema}

-- [make_version]
CREATE TABLE IF NOT EXISTS {schema}.schema_version (
    version_num varchar(32) NOT NULL CONSTRAINT schema_version_pkc PRIMARY KEY, compatible_since varchar(32)
)

-- [first_version]
INSERT INTO {schema}.schema_version (version_num, compatible_since) VALUES ('{number}', '{since}')

-- [extend_version]
-- A table of the time before this column.
ALTER TABLE {schema}.schema_version ADD COLUMN IF NOT EXISTS compatible_since varchar(32)

-- [next_version]
UPDATE {schema}.schema_version SET version_num = '{number}', compatible_since = '{since}'

-- [has_table]
SELECT to_regclass($1) IS NOT NULL

-- [have_vacuum_leave]
-- Locks: the table against vacuum, and other changes of it.
LOCK TABLE {table} IN SHARE UPDATE EXCLUSIVE MODE

-- [has_broken_index]
-- One that was to be made beside others at work, and was not finished. Locks: none.
SELECT true FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = to_regnamespace('{schema}') AND c.relname = $1 AND NOT i.indisvalid

-- [drop_index]
-- Locks: the table against other changes of it; waits for the end of what others do.
DROP INDEX CONCURRENTLY {schema}.{index}

-- [blockers]
-- Whom the connection $1 waits for. Locks: none.
SELECT a.pid, a.application_name, a.usename, a.xact_start
FROM pg_stat_activity a WHERE a.pid = ANY (pg_blocking_pids($1::int)) ORDER BY a.xact_start LIMIT 3

-- [holders]
-- Who but ourselves has held a lock of a table for longer than $1 seconds. A prepared transaction has no pid. Locks: none.
SELECT DISTINCT l.pid, a.application_name, a.usename, a.xact_start
FROM pg_locks l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND l.relation IN (SELECT c.oid FROM pg_class c WHERE c.relnamespace = to_regnamespace('{schema}'))
    AND coalesce(a.xact_start < clock_timestamp() - make_interval(secs => $1::float8), true)
ORDER BY a.xact_start NULLS LAST
LIMIT 3
