"""The stores of this repository as the suite needs them. A new store is one harness and one line in ``STORES``."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import pytest

from holdfast.core.ports import Store
from holdfast.testing import ManualClock, StoreHarness

if TYPE_CHECKING:
    from tests.conformance.postgres import ConformanceDatabase, KeptStores

OpenHarness = Callable[[], AbstractAsyncContextManager[StoreHarness]]


class MemoryHarness:
    is_durable = False

    def __init__(self) -> None:
        from holdfast.stores.memory import MemoryStore

        self.clock = ManualClock()
        self._memory = MemoryStore(clock=self.clock)
        self.store: Store = self._memory

    async def second_store(self) -> Store:
        return self.store

    async def reopened(self) -> Store:
        return self.store

    async def forget_worker(self, worker_id: UUID) -> None:
        del self._memory._tables.workers[worker_id]

    async def set_max_attempts(self, job_id: UUID, max_attempts: int) -> None:
        tables = self._memory._tables
        seq = tables.seqs[job_id]
        tables.records[seq] = replace(tables.records[seq], max_attempts=max_attempts)


class DurableHarness:
    """A store whose data outlives it: opened as often as asked, closed together."""

    is_durable = True
    store: Store

    def __init__(self, new_store: Callable[[ManualClock], Store], change: Callable[..., None]) -> None:
        """``change`` runs a statement with its arguments behind the store's back."""
        self.clock = ManualClock()
        self._new_store = new_store
        self._change = change
        self._stores: list[Store] = []

    async def second_store(self) -> Store:
        store = self._new_store(self.clock)
        await store.open()
        self._stores.append(store)
        return store

    async def reopened(self) -> Store:
        await self.close()
        self.store = await self.second_store()
        return self.store

    async def forget_worker(self, worker_id: UUID) -> None:
        self._change("DELETE FROM holdfast_worker WHERE id = ?", worker_id.bytes)

    async def set_max_attempts(self, job_id: UUID, max_attempts: int) -> None:
        self._change("UPDATE holdfast_job SET max_attempts = ? WHERE id = ?", max_attempts, job_id.bytes)

    async def close(self) -> None:
        while self._stores:
            await self._stores.pop().close()


@asynccontextmanager
async def open_memory() -> AsyncIterator[StoreHarness]:
    yield MemoryHarness()


@asynccontextmanager
async def open_durable(harness: DurableHarness) -> AsyncIterator[StoreHarness]:
    harness.store = await harness.second_store()
    try:
        yield harness
    finally:
        await harness.close()


def memory(_: pytest.FixtureRequest) -> OpenHarness:
    return open_memory


def sqlite(request: pytest.FixtureRequest) -> OpenHarness:
    from holdfast.stores.sqlite import SQLiteStore

    path: Path = request.getfixturevalue("tmp_path") / "holdfast.db"

    def change(statement: str, *arguments: Any) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement, arguments)

    harness = DurableHarness(lambda clock: SQLiteStore(path, clock=clock, synchronous="NORMAL"), change)
    return lambda: open_durable(harness)


def postgres(request: pytest.FixtureRequest) -> OpenHarness:
    database: ConformanceDatabase = request.getfixturevalue("conformance_database")
    stores: KeptStores = request.getfixturevalue("kept_stores")
    database.clear()
    return lambda: open_kept(KeptHarness(database, stores))


class KeptHarness:
    """The stores of the whole run, over a database that is empty again."""

    is_durable = True
    store: Store

    def __init__(self, database: "ConformanceDatabase", stores: "KeptStores") -> None:
        self.clock = stores.clock
        self._database = database
        self._stores = stores

    async def second_store(self) -> Store:
        return await self._stores.second()

    async def reopened(self) -> Store:
        await self._stores.close()
        self.store = await self._stores.first()
        return self.store

    async def forget_worker(self, worker_id: UUID) -> None:
        self._database.forget_worker(worker_id)

    async def set_max_attempts(self, job_id: UUID, max_attempts: int) -> None:
        self._database.set_max_attempts(job_id, max_attempts)


@asynccontextmanager
async def open_kept(harness: KeptHarness) -> AsyncIterator[StoreHarness]:
    harness.clock.advance(1)
    harness.store = await harness._stores.first()
    yield harness


STORES: Final[dict[str, Callable[[pytest.FixtureRequest], OpenHarness]]] = {
    "memory": memory,
    "sqlite": sqlite,
    "postgres": postgres,
}
