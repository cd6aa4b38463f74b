-- migrate, and whoever asks which schema a file has. What is done to the tables stands in migrations/.
-- Locks: none of its own; what writes has the only write lock there is.

-- [has_version]
SELECT 1 FROM sqlite_master WHERE name = 'holdfast_meta'

-- [version]
-- The second column came later than the table.
SELECT * FROM holdfast_meta ORDER BY version DESC

-- [make_version]
CREATE TABLE IF NOT EXISTS holdfast_meta (version INTEGER NOT NULL, compatible_since INTEGER) STRICT

-- [is_extended]
SELECT 1 FROM pragma_table_info('holdfast_meta') WHERE name = 'compatible_since'

-- [extend_version]
-- A table of the time before this column.
ALTER TABLE holdfast_meta ADD COLUMN compatible_since INTEGER

-- [forget_version]
DELETE FROM holdfast_meta

-- [next_version]
INSERT INTO holdfast_meta (version, compatible_since) VALUES (?, ?)
