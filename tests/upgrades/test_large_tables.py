"""While tables of a million jobs are upgraded, nobody waits for a second. HOLDFAST_UPGRADE_JOBS says how many jobs."""

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from holdfast.stores.postgres import migrate, version
from holdfast.stores.sqlite import SQLiteStore
from tests.integration.postgres.databases import connected, empty
from tests.upgrades.earlier import Earlier

JOBS = int(os.environ.get("HOLDFAST_UPGRADE_JOBS", "1000000"))
LONGEST_SECONDS = 1.0
STRANGER_SECONDS = 4.0
BREATH_SECONDS = 0.002

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

FILL_POSTGRES = f"""
    INSERT INTO holdfast.job (
        id, type, queue, priority, depth, payload, is_json, created_at, max_attempts, visibility_seconds,
        lifetime_seconds
    )
    SELECT gen_random_uuid(), 'example', 'default', 2, 0, '{{}}', true, now(), 3, 300, 604800
    FROM generate_series(1, {JOBS});
    INSERT INTO holdfast.ready (
        job, place, scheduled_at, lifetime_ends_at, version, attempt, replays, priority, is_fragile, has_dependents,
        queue
    )
    SELECT seq, seq, now(), now() + interval '7 days', 0, 0, 0, 2, false, false, 'default' FROM holdfast.job;
    INSERT INTO holdfast.mark SELECT seq FROM holdfast.job;
    INSERT INTO holdfast.running (
        job, token, owner, version, attempt, replays, is_fragile, has_dependents, queue, scheduled_at, started_at,
        expires_at, lifetime_ends_at, visibility_seconds
    )
    SELECT seq + {JOBS}, gen_random_uuid(), gen_random_uuid(), 1, 1, 0, false, false, 'default', now(), now(),
        now() + interval '1 day', now() + interval '7 days', 86400
    FROM holdfast.job;
"""
SUBMIT = """
    WITH new AS (
        INSERT INTO holdfast.job (
            id, type, queue, priority, depth, payload, is_json, created_at, max_attempts, visibility_seconds,
            lifetime_seconds
        ) VALUES (gen_random_uuid(), 'example', 'default', 2, 0, '{}', true, now(), 3, 300, 604800) RETURNING seq
    ), counted AS (
        INSERT INTO holdfast.tally (queue, state, delta) VALUES ('default', 'SCHEDULED', 1)
    )
    INSERT INTO holdfast.ready (
        job, place, scheduled_at, lifetime_ends_at, version, attempt, replays, priority, is_fragile, has_dependents,
        queue
    )
    SELECT seq, seq, now(), now() + interval '7 days', 0, 0, 0, 2, false, false, 'default' FROM new
"""
CLAIM = """
    WITH taken AS (
        DELETE FROM holdfast.ready WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM holdfast.ready WHERE queue = 'default' AND priority = 2
            ORDER BY place LIMIT 10 FOR UPDATE SKIP LOCKED
        )) RETURNING *
    )
    INSERT INTO holdfast.running (
        job, token, owner, version, attempt, replays, is_fragile, has_dependents, queue, scheduled_at, started_at,
        expires_at, lifetime_ends_at, visibility_seconds
    )
    SELECT job, gen_random_uuid(), gen_random_uuid(), 1, 1, 0, false, false, queue, scheduled_at, now(),
        now() + interval '1 day', lifetime_ends_at, 86400
    FROM taken
"""
SETTLE = """
    WITH gone AS (
        DELETE FROM holdfast.running
        WHERE job = (SELECT job FROM holdfast.running ORDER BY job LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING job
    )
    INSERT INTO holdfast.mark (job) SELECT job FROM gone ON CONFLICT DO NOTHING
"""


class Longest:
    def __init__(self) -> None:
        self.seconds = 0.0
        self.is_over = False

    async def repeat(self, work: Callable[[], Awaitable[object]]) -> None:
        while not self.is_over:
            before = time.monotonic()
            await work()
            self.seconds = max(self.seconds, time.monotonic() - before)
            await asyncio.sleep(BREATH_SECONDS)


@pytest.fixture
async def large_url(postgres_url: str) -> str:
    Earlier("postgres").restore(postgres_url)
    await empty(postgres_url)
    async with connected(postgres_url, synchronous_commit="off") as connection:
        await connection.execute(FILL_POSTGRES, timeout=1500)
    return postgres_url


async def test_nobody_waits_for_a_second_while_postgresql_is_upgraded(large_url: str) -> None:
    """Those who submit, claim and settle as the version before does it; also behind somebody's open transaction."""
    longest = Longest()
    async with asyncio.TaskGroup() as group:
        probes = [group.create_task(_probe(large_url, longest, statement)) for statement in (SUBMIT, CLAIM, SETTLE)]
        stranger = group.create_task(_hold_a_row(large_url))
        await migrate.upgrade(large_url)
        await stranger
        longest.is_over = True
    assert all(probe.done() for probe in probes)
    assert longest.seconds < LONGEST_SECONDS
    async with connected(large_url) as connection:
        assert await connection.fetchval("SELECT version_num FROM holdfast.schema_version") == version.head()


async def _probe(url: str, longest: Longest, statement: str) -> None:
    async with connected(url, enable_seqscan="off", enable_bitmapscan="off") as connection:
        prepared: asyncpg.prepared_stmt.PreparedStatement = await connection.prepare(statement)
        await longest.repeat(prepared.fetch)


async def _hold_a_row(url: str) -> None:
    async with connected(url) as connection, connection.transaction():
        await connection.execute("SELECT 1 FROM holdfast.ready ORDER BY job DESC LIMIT 1 FOR UPDATE")
        await asyncio.sleep(STRANGER_SECONDS)


FILL_SQLITE = f"""
    BEGIN;
    WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {JOBS})
    INSERT INTO holdfast_ready (
        job, place, queue, priority, version, attempt, replays, is_fragile, has_dependents, scheduled_at,
        lifetime_ends_at
    )
    SELECT n, n, 'default', 2, 0, 0, 0, 0, 0, 0, 1 << 60 FROM number;
    WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {JOBS})
    INSERT INTO holdfast_job (
        seq, id, type, queue, priority, depth, created_at, max_attempts, visibility_seconds, lifetime_seconds, is_json,
        payload
    )
    SELECT n, randomblob(16), 'example', 'default', 2, 0, 0, 3, 300, 604800, 1, x'7b7d' FROM number;
    COMMIT;
"""


async def test_nobody_waits_for_a_second_while_a_file_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    Earlier("sqlite").restore(str(path))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript("DELETE FROM holdfast_job; DELETE FROM holdfast_ready;")
        connection.executescript(FILL_SQLITE)
    longest = [0.0]
    is_over = threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as connection:
            while not is_over.wait(BREATH_SECONDS):
                before = time.monotonic()
                connection.execute("INSERT INTO holdfast_mark SELECT coalesce(max(job), 0) + 1 FROM holdfast_mark")
                longest[0] = max(longest[0], time.monotonic() - before)

    writing = asyncio.create_task(asyncio.to_thread(write))
    await asyncio.sleep(0.2)
    store = SQLiteStore(path)
    await store.open()
    is_over.set()
    await writing
    await store.close()
    assert longest[0] < LONGEST_SECONDS
