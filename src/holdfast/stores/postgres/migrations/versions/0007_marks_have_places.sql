-- The number of the transaction that left a mark: marks that others left are looked for from a number on.
ALTER TABLE {schema}.mark ADD COLUMN place bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint;
CREATE INDEX mark_place ON {schema}.mark (place);
