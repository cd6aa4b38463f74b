"""A migration that was interrupted is finished by the next one. It gets its locks without holding others up."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Unavailable
from holdfast.stores.migrations import Migration
from holdfast.stores.postgres import migrate, version
from holdfast.stores.sqlite import SQLiteStore
from holdfast.stores.sqlite import migrate as sqlite_migrate
from tests.conftest import NewDatabase
from tests.integration.postgres.databases import connected, fetch
from tests.integration.postgres.test_migrations import shape_of
from tests.upgrades.earlier import Earlier, as_then, said_by

WAITING_INDEX = """
    SELECT pid FROM pg_stat_activity
    WHERE query LIKE '%CREATE INDEX CONCURRENTLY%' AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()
        AND datname = current_database()
"""
LONG_SECONDS = 20.0


def shape_of_file(path: Path) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {(t, row[1]) for t in tables for row in connection.execute(f"PRAGMA table_info({t})")}
        indexes = connection.execute("SELECT tbl_name, name FROM sqlite_master WHERE type = 'index'").fetchall()
        return columns | set(indexes)


class Interrupted(Exception):
    pass


class Interruptions:
    """Before each statement and after it, once each."""

    def __init__(self) -> None:
        self.done: set[tuple[str, str]] = set()
        self.is_over = False

    def at(self, moment: str, statement: str) -> None:
        if not self.is_over and (moment, statement) not in self.done:
            self.done.add((moment, statement))
            raise Interrupted


@pytest.fixture
def interruptions(monkeypatch: pytest.MonkeyPatch) -> Interruptions:
    given = Interruptions()
    execute = migrate._Upgrade._execute

    async def interrupted(self: migrate._Upgrade, statement: str) -> str:
        given.at("before", statement)
        status = await execute(self, statement)
        given.at("after", statement)
        return status

    monkeypatch.setattr(migrate._Upgrade, "_execute", interrupted)
    return given


async def repeat_until_done(url: str) -> int:
    for tries in range(1000):
        try:
            await migrate.upgrade(url)
        except Interrupted:
            continue
        return tries
    raise AssertionError("never done")


async def test_an_upgrade_can_be_repeated_wherever_it_was_interrupted(
    new_database: NewDatabase, interruptions: Interruptions
) -> None:
    earlier, old, new = Earlier("postgres"), new_database(), new_database()
    earlier.restore(old)
    assert await repeat_until_done(old) > 2 * (version.own().number - 4)
    interruptions.is_over = True
    await migrate.upgrade(new)
    assert await shape_of(old) == await shape_of(new)
    async with earlier.opened(old) as (store, _):
        jobs = earlier.said["jobs"]
        now = await said_by(store, {name: earlier.id(name) for name in jobs})
        assert as_then(now["jobs"], jobs) == jobs


async def test_a_new_schema_is_made_whole_or_not_at_all(
    postgres_url: str, interruptions: Interruptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    last, at = "schema_version (version_num, compatible_since) VALUES", interruptions.at
    monkeypatch.setattr(interruptions, "at", lambda moment, text: at(moment, text) if last in text else None)
    for _ in ("before", "after"):
        with pytest.raises(Interrupted):
            await migrate.upgrade(postgres_url)
        assert await fetch(postgres_url, "SELECT 1 FROM pg_namespace WHERE nspname = 'holdfast'") == []
    assert await migrate.upgrade(postgres_url) == version.head()


async def test_a_file_is_upgraded_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier_file: Path
) -> None:
    before = shape_of_file(earlier_file)
    statements, interruptions = sqlite_migrate._statements, Interruptions()

    def interrupted(text: str) -> Iterator[str]:
        for statement in statements(text):
            interruptions.at("before", statement)
            yield statement
            interruptions.at("after", statement)

    monkeypatch.setattr(sqlite_migrate, "_statements", interrupted)
    for _ in range(1000):
        assert shape_of_file(earlier_file) == before
        store = SQLiteStore(earlier_file)
        try:
            await store.open()
        except Interrupted:
            continue
        await store.close()
        break
    assert interruptions.done
    monkeypatch.undo()
    fresh = SQLiteStore(tmp_path / "fresh.db")
    await fresh.open()
    await fresh.close()
    assert shape_of_file(earlier_file) == shape_of_file(tmp_path / "fresh.db")


async def test_many_open_an_earlier_file_at_once(earlier_file: Path) -> None:
    stores = [SQLiteStore(earlier_file) for _ in range(6)]
    await asyncio.gather(*(store.open() for store in stores))
    for store in stores:
        await store.close()
    with closing(sqlite3.connect(earlier_file)) as connection:
        found = connection.execute("SELECT version FROM holdfast_meta").fetchall()
    assert found == [(len(sqlite_migrate._migrations()),)]


@pytest.fixture
def earlier_file(tmp_path: Path) -> Path:
    path = tmp_path / "earlier.db"
    Earlier("sqlite").restore(str(path))
    return path


@pytest.fixture
def earlier_url(postgres_url: str) -> str:
    Earlier("postgres").restore(postgres_url)
    return postgres_url


async def until(url: str, question: str) -> Any:
    for _ in range(1000):
        if rows := await fetch(url, question):
            return rows[0][0]
        await asyncio.sleep(0.02)
    raise AssertionError(question)


async def test_an_index_that_a_killed_migration_left_behind_is_built_again(
    earlier_url: str, new_database: NewDatabase
) -> None:
    invalid = "SELECT relname FROM pg_index JOIN pg_class ON oid = indexrelid WHERE NOT indisvalid"
    async with connected(earlier_url) as stranger:
        await stranger.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM holdfast.running")
        command = [sys.executable, "-m", "holdfast", "migrate", "--url", earlier_url]
        process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
        pid = await until(earlier_url, WAITING_INDEX)
        process.send_signal(signal.SIGKILL)
        await process.communicate()
        await fetch(earlier_url, f"SELECT pg_terminate_backend({pid}, 10000)")
        assert await until(earlier_url, invalid) == "running_expires"
    await migrate.upgrade(earlier_url)
    assert await fetch(earlier_url, invalid) == []
    fresh = new_database()
    await migrate.upgrade(fresh)
    assert await shape_of(earlier_url) == await shape_of(fresh)


async def test_it_says_for_whom_an_index_waits(earlier_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the index does not wait for who asks: so often, one question is always under way."""
    monkeypatch.setattr(migrate, "TELL_SECONDS", 0.001)
    said = asyncio.Queue[str]()
    async with connected(earlier_url, application_name="billing") as stranger:
        await stranger.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM holdfast.running")
        migrating = asyncio.create_task(migrate.upgrade(earlier_url, say=said.put_nowait))
        assert "(billing, user postgres) has a transaction open" in await asyncio.wait_for(said.get(), LONG_SECONDS)
        await stranger.execute("ROLLBACK")
        await migrating


async def test_whoever_waits_for_their_turn_does_not_keep_an_index_waiting(earlier_url: str) -> None:
    """The one at work waits for all who have a snapshot; so the others must not have one."""
    said = asyncio.Queue[str]()
    async with connected(earlier_url) as stranger:
        await stranger.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM holdfast.running")
        first = asyncio.create_task(migrate.upgrade(earlier_url))
        await until(earlier_url, WAITING_INDEX)
        second = asyncio.create_task(migrate.upgrade(earlier_url, say=said.put_nowait))
        assert "another migration is at work" in await asyncio.wait_for(said.get(), LONG_SECONDS)
        await stranger.execute("ROLLBACK")
        for migrating in (first, second):
            assert await asyncio.wait_for(migrating, LONG_SECONDS) == version.head()


async def test_a_migration_that_lost_its_turn_stops(earlier_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else another one might be at work at the same time."""
    execute = migrate._Upgrade._execute
    guard = "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory' AND granted"

    async def cut_off(self: migrate._Upgrade, statement: str) -> str:
        await fetch(earlier_url, guard)
        return await execute(self, statement)

    with monkeypatch.context() as patched:
        patched.setattr(migrate._Upgrade, "_execute", cut_off)
        with pytest.raises(Unavailable):
            await migrate.upgrade(earlier_url)
    (row,) = await fetch(earlier_url, "SELECT version_num FROM holdfast.schema_version")
    assert row["version_num"] < version.head()
    await migrate.upgrade(earlier_url)


async def test_vacuum_is_waited_for_without_keeping_others_waiting(
    earlier_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MIGRATE-2: a lock such as autovacuum's is held for longer than a table is waited for."""
    monkeypatch.setattr(migrate, "LOCK_SECONDS", 0.05)
    waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND mode = 'ShareUpdateExclusiveLock'"
    async with connected(earlier_url) as vacuum, connected(earlier_url, lock_timeout="5s") as bystander:
        await vacuum.execute("BEGIN; LOCK TABLE holdfast.ready IN SHARE UPDATE EXCLUSIVE MODE")
        said: list[str] = []
        migrating = asyncio.create_task(migrate.upgrade(earlier_url, say=said.append))
        await until(earlier_url, waiting)
        await bystander.execute("UPDATE holdfast.ready SET attempt = attempt")
        await vacuum.execute("ROLLBACK")
        await migrating
    assert said == []


BATCHES = """-- compatible since 0004

-- [together]
ALTER TABLE {schema}.job ADD COLUMN IF NOT EXISTS region text;

-- [in batches]
UPDATE {schema}.job SET region = 'eu' WHERE seq = ANY (ARRAY(
    SELECT seq FROM {schema}.job WHERE region IS NULL ORDER BY seq LIMIT 5
));

-- [alone]
CREATE INDEX CONCURRENTLY IF NOT EXISTS job_region ON {schema}.job (region);
"""


async def test_rows_are_changed_in_batches_each_in_a_transaction_of_its_own(
    earlier_url: str, monkeypatch: pytest.MonkeyPatch, interruptions: Interruptions
) -> None:
    number = version.own().number + 1
    next_one = Migration(number=number, compatible_since=4, text=BATCHES)
    migrations = (*version.migrations(), next_one)
    monkeypatch.setattr(version, "migrations", lambda: migrations)
    await repeat_until_done(earlier_url)
    rows = await fetch(earlier_url, "SELECT region, xmin::text AS writer, count(*) FROM holdfast.job GROUP BY 1, 2")
    assert {row["region"] for row in rows} == {"eu"}
    assert max(row["count"] for row in rows) == 5
    (row,) = await fetch(earlier_url, "SELECT * FROM holdfast.schema_version")
    assert (row["version_num"], row["compatible_since"]) == (version.written(number), "0004")
