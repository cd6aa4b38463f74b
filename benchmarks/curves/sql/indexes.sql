-- How the indexes of table $1 are dropped and made again, whether they serve a constraint or not.
SELECT
    CASE WHEN c.oid IS NULL THEN format('DROP INDEX %s', i.indexrelid::regclass)
        ELSE format('ALTER TABLE %s DROP CONSTRAINT %I', i.indrelid::regclass, c.conname::text)
    END AS drop,
    CASE WHEN c.oid IS NULL THEN pg_get_indexdef(i.indexrelid)
        ELSE format(
            'ALTER TABLE %s ADD CONSTRAINT %I %s', i.indrelid::regclass, c.conname::text, pg_get_constraintdef(c.oid)
        )
    END AS make
FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid
WHERE i.indrelid = to_regclass($1::text)
