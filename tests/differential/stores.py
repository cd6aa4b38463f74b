"""The stores under test, each empty at the beginning of an episode and reading the episode's clock.

PostgreSQL has one database a run and is emptied between episodes; its store is opened again, because it remembers where
in a queue it was.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import asyncpg

from holdfast.stores.memory import MemoryStore
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.version import VERSION_TABLE
from holdfast.stores.sqlite import SQLiteStore
from holdfast.testing.clock import ManualClock
from tests.differential.driver import OpenWorld

SCHEMA: Final = "holdfast"
KEPT: Final = ("beat", VERSION_TABLE)
OpenStore = Callable[[ManualClock], AbstractAsyncContextManager[Any]]


def worlds(stores: dict[str, OpenStore]) -> OpenWorld:
    @asynccontextmanager
    async def open_world() -> AsyncIterator[tuple[ManualClock, dict[str, Any]]]:
        clock = ManualClock()
        async with AsyncExitStack() as stack:
            yield clock, {name: await stack.enter_async_context(opened(clock)) for name, opened in stores.items()}

    return open_world


@asynccontextmanager
async def memory(clock: ManualClock) -> AsyncIterator[Any]:
    yield MemoryStore(clock=clock)


def postgres(url: str) -> OpenStore:
    """``url`` names a migrated database of the run's own."""

    @asynccontextmanager
    async def opened(clock: ManualClock) -> AsyncIterator[Any]:
        await empty(url)
        store = PostgresStore(url, schema=SCHEMA, clock=clock, listen=False, notify=False, pool_size=1)
        # What had to stay is looked at again at every tick, as the others do it.
        for retention in (store._database.sweeps.done, store._database.sweeps.dead):
            retention.again_seconds = retention.rest_seconds = 0.0
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    return opened


def sqlite(folder: Path) -> OpenStore:
    """A file of its own for each episode, under ``folder``."""

    @asynccontextmanager
    async def opened(clock: ManualClock) -> AsyncIterator[Any]:
        with TemporaryDirectory(dir=folder) as place:
            store = SQLiteStore(Path(place) / "jobs.db", synchronous="NORMAL", clock=clock)
            await store.open()
            try:
                yield store
            finally:
                await store.close()

    return opened


async def empty(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", SCHEMA)
        names = [row["tablename"] for row in rows if row["tablename"] not in KEPT]
        # Small tables: to delete is faster than to truncate fifteen files.
        await connection.execute("".join(f"DELETE FROM {SCHEMA}.{name};" for name in names))
        await connection.execute(f"UPDATE {SCHEMA}.beat SET last_tick_at = NULL, silence_counts_from = NULL")
    finally:
        await connection.close()
