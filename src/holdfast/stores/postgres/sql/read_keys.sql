-- read_keys: all API keys, oldest first, without their digests. Locks: none. Read whole: there are as many as people made.
SELECT k.id, k.name, k.scopes, k.created_at, k.expires_at, k.revoked_at FROM {schema}.api_key k
ORDER BY k.created_at, k.id
