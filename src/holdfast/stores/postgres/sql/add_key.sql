-- add_key: keep an API key, once. Who repeats it, also at the same moment, is given the first; nothing of it changes.
-- Locks: the row. Index: api_key_pkey.
INSERT INTO {schema}.api_key AS k (id, name, scopes, digest, created_at, expires_at)
SELECT $2::uuid, $3::text, $4::text[], $5::bytea, clock.now, clock.now + make_interval(secs => $6::float8)
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) clock
-- Not DO NOTHING, which returns nothing.
ON CONFLICT (id) DO UPDATE SET id = k.id
RETURNING k.*
