-- compatible since 0004

-- [together]
-- The number of the transaction that left a mark: marks that others left are looked for from a number on. Those of before
-- come first. In two steps, because a column that comes with a different value for each row writes all of them again.
ALTER TABLE {schema}.mark ADD COLUMN IF NOT EXISTS place bigint NOT NULL DEFAULT 0;
ALTER TABLE {schema}.mark ALTER COLUMN place SET DEFAULT pg_current_xact_id()::text::bigint;

-- [alone]
CREATE INDEX CONCURRENTLY IF NOT EXISTS mark_place ON {schema}.mark (place);
