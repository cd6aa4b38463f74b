-- API keys. Index: api_key_pkey; the list is read whole, there are as many as people made.

-- [add]
-- Once: who repeats it, also at the same moment, is given the first; nothing of it changes. Locks: the row.
INSERT INTO {schema}.api_key AS k (id, name, scopes, digest, created_at, expires_at)
SELECT $2::uuid, $3::text, $4::text[], $5::bytea, clock.now, clock.now + make_interval(secs => $6::float8)
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) clock
-- Not DO NOTHING, which returns nothing.
ON CONFLICT (id) DO UPDATE SET id = k.id
RETURNING k.*

-- [revoke]
-- The first time stays. Locks: the row.
UPDATE {schema}.api_key k
SET revoked_at = coalesce(k.revoked_at, $1::timestamptz, clock_timestamp())
WHERE k.id = $2::uuid
RETURNING k.*

-- [find]
-- With its digest, and the time to judge it by. Locks: none.
SELECT k.*, coalesce($1::timestamptz, clock_timestamp()) AS now FROM {schema}.api_key k WHERE k.id = $2::uuid

-- [read]
-- Without the digests: whoever lists keys has no use for them. Locks: none.
SELECT k.id, k.name, k.scopes, k.created_at, k.expires_at, k.revoked_at FROM {schema}.api_key k
ORDER BY k.created_at, k.id
