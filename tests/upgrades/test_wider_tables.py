"""Programs of today go on when the next version adds a column to every table."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast.stores.postgres import PostgresStore, migrate
from holdfast.stores.sqlite import SQLiteStore
from holdfast.testing import ManualClock
from tests.integration.postgres.databases import TABLES, fetch
from tests.integration.postgres.workload import use_every_verb


def clock() -> ManualClock:
    return ManualClock(datetime.now(UTC) + timedelta(days=1))


async def test_on_postgresql(postgres_url: str) -> None:
    """On connections that have every statement prepared."""
    await migrate.upgrade(postgres_url)
    given = clock()
    store = PostgresStore(postgres_url, clock=given, listen=False, pool_size=1)
    await store.open()
    await use_every_verb(store, given)
    for table in TABLES:
        await fetch(postgres_url, f"ALTER TABLE holdfast.{table} ADD COLUMN next_version int")
    await use_every_verb(store, given)
    await store.close()


async def test_on_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    given = clock()
    store = SQLiteStore(path, clock=given)
    await store.open()
    await use_every_verb(store, given)
    await asyncio.to_thread(widen, path)
    await use_every_verb(store, given)
    await store.close()


def widen(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for table in TABLES:
            connection.execute(f"ALTER TABLE holdfast_{table} ADD COLUMN next_version INTEGER")
