"""A database with a backlog and a history, made by SQL because two hundred thousand submits would take too long."""

import psycopg

JOBS = 200_000
READY = 120_000
RUNNING = 5_000
WAITING = 20_000
FILLED = (
    "job",
    "ready",
    "waiting",
    "running",
    "ended",
    "edge",
    "note",
    "attempt",
    "tag",
    "idempotency",
    "cron_slot",
    "api_key",
)

# seq:  1 … READY are ready, then RUNNING are running, then WAITING are waiting, the rest has ended.
FILL = f"""
INSERT INTO holdfast.job (
    id, type, queue, priority, depth, payload, is_json, created_at, max_attempts, visibility_seconds, lifetime_seconds
)
SELECT gen_random_uuid(), 'example', 'queue-' || n % 20, n % 5, 0, '{{}}', true, now(), 3, 300, 604800
FROM generate_series(1, {JOBS}) n;

INSERT INTO holdfast.ready (
    job, place, scheduled_at, lifetime_ends_at, version, attempt, replays, priority, is_fragile, has_dependents, queue
)
SELECT n, n, now(), now() + interval '7 days', 0, 0, 0, n % 5, false, false,
    'queue-' || n % 20
FROM generate_series(1, {READY}) n;

INSERT INTO holdfast.worker (id, name, registered_at, seen_at)
SELECT md5(n::text)::uuid, 'worker', now(), now() + interval '1 day' FROM generate_series(0, 9) n;

INSERT INTO holdfast.running (
    job, scheduled_at, started_at, expires_at, lifetime_ends_at, visibility_seconds, token, owner, version, attempt,
    replays, is_fragile, has_dependents, queue
)
SELECT {READY} + n, now(), now(), now() + interval '1 hour', now() + interval '7 days', 300, gen_random_uuid(),
    md5((n % 10)::text)::uuid, 1, 1, 0, false, false, 'queue-' || n % 20
FROM generate_series(1, {RUNNING}) n;

INSERT INTO holdfast.waiting (
    job, due_at, updated_at, lifetime_ends_at, version, attempt, replays, is_fragile, has_dependents, state
)
SELECT {READY} + {RUNNING} + n, CASE WHEN n % 2 = 0 THEN now() + interval '1 day' END, now(),
    now() + interval '7 days', 0, 0, 0, false, false, CASE WHEN n % 2 = 0 THEN 'DELAYED' ELSE 'PENDING' END
FROM generate_series(1, {WAITING}) n;

INSERT INTO holdfast.ended (
    job, completed_at, scheduled_at, started_at, last_token, owner, version, attempt, replays, is_fragile,
    has_dependents, state, failure
)
SELECT n, now(), now(), now(), md5(n::text)::uuid, md5((n % 10)::text)::uuid, 1, 1, 0, false, false,
    CASE WHEN n % 10 = 0 THEN 'FAILED' ELSE 'COMPLETED' END,
    CASE WHEN n % 10 = 0 THEN '{{"category": "PERMANENT"}}' END
FROM generate_series({READY} + {RUNNING} + {WAITING} + 1, {JOBS}) n;

INSERT INTO holdfast.edge (child, parent, is_open, kind)
SELECT {READY} + {RUNNING} + n, n, true, 'AFTER' FROM generate_series(1, {WAITING}, 2) n;

INSERT INTO holdfast.note (job, percent, message)
SELECT {JOBS} - n, 50, 'half way' FROM generate_series(0, 19999) n;

INSERT INTO holdfast.attempt (
    token, job, number, version, owner, started_at, ended_at, is_ended_by_holder, failure
)
SELECT md5(n::text)::uuid, n, 1, 1, md5((n % 10)::text)::uuid, now(), now(), true, '{{"category": "PERMANENT"}}'
FROM generate_series({JOBS} - 19999, {JOBS}) n;

INSERT INTO holdfast.tag (name, value, job)
SELECT 'customer', (n % 100)::text, n FROM generate_series(1, 40000) n;

INSERT INTO holdfast.idempotency (job_type, key, job_id, digest, expires_at)
SELECT 'example', n::text, gen_random_uuid(), '', now() + interval '1 day' FROM generate_series(1, 40000) n;

INSERT INTO holdfast.cron_slot (name, slot, fired_at, job_id)
SELECT 'cron-' || n % 50, now() - (40000 - n) * interval '1 second', now(), gen_random_uuid()
FROM generate_series(1, 40000) n;

INSERT INTO holdfast.api_key (id, name, scopes, digest, created_at)
SELECT gen_random_uuid(), 'ci', '{{read}}', sha256(n::text::bytea), now() FROM generate_series(1, 40000) n;

INSERT INTO holdfast.tally (queue, state, delta)
SELECT 'queue-' || n % 20, 'SCHEDULED', {READY} / 20 FROM generate_series(0, 19) n;
"""


def keep_statistics_as_they_are(connection: "psycopg.Connection[tuple[object, ...]]") -> None:
    """Autovacuum would analyse the tables in the middle of a test."""
    for table in (*FILLED, "mark", "worker", "pause", "tally", "beat"):
        connection.execute(f"ALTER TABLE holdfast.{table} SET (autovacuum_enabled = off)".encode())
