"""One database of each kind, with two stores on it, as two processes have them, and callers with their own connections.

What a store does by a timer of its own is done when the stream says that time has passed, so that a stream runs the
same way every time: a claim's cursors are refreshed by ``pass_a_second``, and what could not be told is left to tick.
Nobody waits for a lock for longer than a moment, because whoever holds it does so until the stream goes on.
"""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

import asyncpg
import pytest

from holdfast.core.commands import Submit, SubmitAnswer
from holdfast.stores.postgres import PostgresStore, database, locks
from holdfast.stores.sqlite import SQLiteStore
from tests.differential.overlaps.time import JumpingClock, Steady
from tests.differential.stores import SCHEMA, empty

STORES: Final = 2
BRIEFLY: Final = "40ms"
BRIEFLY_SECONDS: Final = 0.04
IN_POSTGRES: Final = "holdfast.stores.postgres."


Meanwhile = Callable[[], Awaitable[None]]


class Caller(Protocol):
    """Somebody's own transaction."""

    async def submit(self, store: Any, submits: Sequence[Submit]) -> list[SubmitAnswer]: ...

    async def end(self, *, is_commit: bool) -> None: ...


class Database(Protocol):
    stores: list[Any]
    callers: int
    """How many transactions can be open at once."""
    has_one_writer: bool
    """While a transaction is open, nobody else can write anything."""

    async def begin(self) -> Caller: ...

    async def pass_a_second(self) -> None:
        """What processes do once a second beside everything else."""
        ...

    async def refresh(self, store: int, *, after: str, meanwhile: Meanwhile) -> None:
        """One of those, and something else while the answer to its question ``after`` is on the way."""
        ...

    def interrupted(self, store: int, *, after: str, meanwhile: Meanwhile) -> AbstractContextManager[None]:
        """Something happens while the answer to the next question ``after`` is on the way to a store."""
        ...


OpenDatabase = Callable[[JumpingClock, Steady], AbstractAsyncContextManager[Database]]


# PostgreSQL


class PostgresCaller:
    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def submit(self, store: Any, submits: Sequence[Submit]) -> list[SubmitAnswer]:
        answers: list[SubmitAnswer] = await store.submit(submits, connection=self._connection)
        return answers

    async def end(self, *, is_commit: bool) -> None:
        await self._connection.execute("COMMIT" if is_commit else "ROLLBACK")


class PostgresDatabase:
    callers: int = 2
    has_one_writer: bool = False

    def __init__(self, stores: list[Any], connections: list[asyncpg.Connection], steady: Steady) -> None:
        self.stores = stores
        self._connections = connections
        self._steady = steady

    async def begin(self) -> PostgresCaller:
        connection = next(one for one in self._connections if not one.is_in_transaction())
        await connection.execute(f"BEGIN; SET LOCAL lock_timeout = '{BRIEFLY}'")
        return PostgresCaller(connection)

    async def pass_a_second(self) -> None:
        for store in self.stores:
            if store._claims.cursors.is_refresh_owed(monotonic=self._steady.monotonic()):
                await store._claims.floors.refresh()

    async def refresh(self, store: int, *, after: str, meanwhile: Meanwhile) -> None:
        with self.interrupted(store, after=after, meanwhile=meanwhile):
            await self.stores[store]._claims.floors.refresh()

    @contextmanager
    def interrupted(self, store: int, *, after: str, meanwhile: Meanwhile) -> Iterator[None]:
        within = self.stores[store]._database
        text, fetch, is_done = within.sql[after], within.fetch, False

        async def fetch_slowly(sql: str, *arguments: Any) -> Any:
            nonlocal is_done
            rows = await fetch(sql, *arguments)
            if sql == text and not is_done:
                is_done = True
                await meanwhile()
            return rows

        with pytest.MonkeyPatch.context() as patches:
            patches.setattr(within, "fetch", fetch_slowly)
            yield


def postgres(url: str) -> OpenDatabase:
    """``url`` names a migrated database of the run's own."""

    @asynccontextmanager
    async def opened(clock: JumpingClock, steady: Steady) -> AsyncIterator[Database]:
        await empty(url)
        async with AsyncExitStack() as stack:
            patches = stack.enter_context(pytest.MonkeyPatch.context())
            for module in ("claim", "floors", "marks", "telling"):
                patches.setattr(f"{IN_POSTGRES}{module}.time", steady)
            patches.setattr(database, "KEY_PATIENCE_SECONDS", 0.0)
            patches.setattr(database, "LONE_PATIENCE_SECONDS", 0.0)
            patches.setattr(database, "Waiting", partial(locks.Waiting, patience=BRIEFLY))
            patches.setattr(f"{IN_POSTGRES}settle.BRIEFLY", BRIEFLY)
            stores = []
            for _ in range(STORES):
                store = _without_timers(_new_store(url, clock), patches, steady)
                stack.push_async_callback(store.close)
                await store.open()
                stores.append(store)
            connections = []
            for _ in range(PostgresDatabase.callers):
                connections.append(await asyncpg.connect(url))
                stack.push_async_callback(connections[-1].close)
            yield PostgresDatabase(stores, connections, steady)

    return opened


def _new_store(url: str, clock: JumpingClock) -> PostgresStore:
    return PostgresStore(url, schema=SCHEMA, clock=clock, listen=False, notify=False, pool_size=2)


def _without_timers(store: PostgresStore, patches: pytest.MonkeyPatch, steady: Steady) -> PostgresStore:
    patches.setattr(store._claims.floors, "start", lambda: None)
    patches.setattr(store._database._retelling, "add", lambda marked: None)
    sweeps = store._database.sweeps
    for sweep in (sweeps.due, sweeps.expired, sweeps.orphaned, sweeps.tally, sweeps.unknown):
        patches.setattr(sweep, "_monotonic", steady.monotonic)
    for retention in (sweeps.done, sweeps.dead):
        retention.monotonic = steady.monotonic
    return store


# SQLite


class SQLiteCaller:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def submit(self, store: Any, submits: Sequence[Submit]) -> list[SubmitAnswer]:
        answers: list[SubmitAnswer] = await store.submit(submits, connection=self._connection)
        return answers

    async def end(self, *, is_commit: bool) -> None:
        self._connection.execute("COMMIT" if is_commit else "ROLLBACK")


class SQLiteDatabase:
    callers: int = 1
    has_one_writer: bool = True

    def __init__(self, stores: list[Any], connection: sqlite3.Connection) -> None:
        self.stores = stores
        self._connection = connection

    async def begin(self) -> SQLiteCaller:
        self._connection.execute("BEGIN IMMEDIATE")
        return SQLiteCaller(self._connection)

    async def pass_a_second(self) -> None: ...

    async def refresh(self, store: int, *, after: str, meanwhile: Meanwhile) -> None:
        await meanwhile()

    @contextmanager
    def interrupted(self, store: int, *, after: str, meanwhile: Meanwhile) -> Iterator[None]:
        yield


def sqlite(folder: Path) -> OpenDatabase:
    @asynccontextmanager
    async def opened(clock: JumpingClock, steady: Steady) -> AsyncIterator[Database]:
        async with AsyncExitStack() as stack:
            place = stack.enter_context(TemporaryDirectory(dir=folder))
            patches = stack.enter_context(pytest.MonkeyPatch.context())
            path = Path(place) / "jobs.db"
            stores = []
            for _ in range(STORES):
                store = SQLiteStore(path, synchronous="NORMAL", clock=clock)
                stack.push_async_callback(store.close)
                await store.open()
                stores.append(store)
            patches.setattr("holdfast.stores.sqlite.connection.BUSY_SECONDS", BRIEFLY_SECONDS)
            connection = sqlite3.connect(path, isolation_level=None)
            stack.callback(connection.close)
            yield SQLiteDatabase(stores, connection)

    return opened
