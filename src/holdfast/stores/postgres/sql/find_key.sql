-- find_key: an API key with its digest, and the time to judge it by. Locks: none. Index: api_key_pkey.
SELECT k.*, coalesce($1::timestamptz, clock_timestamp()) AS now FROM {schema}.api_key k WHERE k.id = $2::uuid
