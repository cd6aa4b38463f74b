-- What a connection or a transaction asks of the server itself. Locks: none.

-- [now]
SELECT clock_timestamp() AS now

-- [learn_types]
-- Every type of our parameters that asyncpg has to ask the server about.
SELECT NULL::uuid[], NULL::bigint[], NULL::int[], NULL::smallint[], NULL::float8[], NULL::boolean[], NULL::bytea[],
    NULL::timestamptz[]

-- [replicate]
-- For a transaction that found what it was to write, and writes nothing.
SELECT {replicated}
