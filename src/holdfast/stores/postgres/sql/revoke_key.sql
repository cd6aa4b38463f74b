-- revoke_key: an API key is good for nothing any more; the first time stays. Locks: the row. Index: api_key_pkey.
UPDATE {schema}.api_key k
SET revoked_at = coalesce(k.revoked_at, $1::timestamptz, clock_timestamp())
WHERE k.id = $2::uuid
RETURNING k.*
