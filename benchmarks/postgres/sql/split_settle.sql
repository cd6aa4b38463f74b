-- The floor in the store's own layout: jobs move from running to ended, fenced by the token.
WITH gone AS (
    DELETE FROM {schema}.running r
    USING unnest($1::bigint[], $2::bytea[]) AS g (job, result)
    WHERE r.job = g.job AND r.token = $3::uuid
    RETURNING r.*, g.result
)
INSERT INTO {schema}.ended (
    job, state, completed_at, scheduled_at, started_at, last_token, owner, version, attempt, replays,
    is_fragile, has_dependents, result
)
SELECT
    job, 'COMPLETED', now(), scheduled_at, started_at, token, owner, version, attempt, replays,
    is_fragile, has_dependents, result
FROM gone
