-- compatible since 0003
-- A claim takes the types that its worker knows. Without a value: written by a program of before; job has it.
ALTER TABLE holdfast_ready ADD COLUMN type TEXT;
