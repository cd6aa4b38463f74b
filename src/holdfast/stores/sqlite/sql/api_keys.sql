-- API keys. Locks: none of its own. Index: the primary key; the list is read whole, there are as many as people made.

-- [add]
-- Once: who repeats it finds the first.
INSERT INTO holdfast_api_key (id, name, scopes, digest, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING

-- [revoke]
-- The first time stays.
UPDATE holdfast_api_key SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL

-- [find]
SELECT id, name, scopes, created_at, expires_at, revoked_at, digest FROM holdfast_api_key WHERE id = ?1

-- [read]
-- Without the digests: whoever lists keys has no use for them.
SELECT id, name, scopes, created_at, expires_at, revoked_at FROM holdfast_api_key ORDER BY created_at, id
