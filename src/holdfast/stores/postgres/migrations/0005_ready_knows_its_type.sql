-- compatible since 0004
-- A claim takes the types that its worker knows. Without a value: written by a program of before; job has it.
ALTER TABLE {schema}.ready ADD COLUMN type text;
