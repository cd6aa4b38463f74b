-- compatible since 0004
-- The advisory lock that a worker's session holds for as long as its process lives; NULL where it holds none.
ALTER TABLE {schema}.worker ADD COLUMN session_key bigint;
