-- One job's facts, inserted and committed by itself: what pgbench repeats.
INSERT INTO {schema}.job (
    id, type, queue, priority, depth, payload, is_json, created_at, max_attempts, visibility_seconds, lifetime_seconds
) VALUES (
    gen_random_uuid(), 'example', 'queue-0', 2, 0, '{payload}', true, now(), 3, 300, 604800
);
