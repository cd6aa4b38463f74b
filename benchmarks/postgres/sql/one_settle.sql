-- The floor in one table: jobs become COMPLETED, fenced by the token.
UPDATE {schema}.one AS o
SET state = 'COMPLETED', completed_at = now(), result = g.result, last_token = token, token = NULL
FROM unnest($1::bigint[], $2::bytea[]) AS g (job, result)
WHERE o.seq = g.job AND o.token = $3::uuid
