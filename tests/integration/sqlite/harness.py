"""The SQLite store as the conformance suite needs it."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from uuid import UUID

from holdfast.core.ports import Store
from holdfast.stores.sqlite import SQLiteStore
from holdfast.testing import ManualClock, StoreHarness


class SQLiteHarness:
    is_durable = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = ManualClock()
        self.store: Store = self._new_store()
        self._second_stores: list[Store] = []

    def _new_store(self) -> Store:
        return SQLiteStore(self.path, clock=self.clock)

    async def second_store(self) -> Store:
        store = self._new_store()
        await store.open()
        self._second_stores.append(store)
        return store

    async def reopened(self) -> Store:
        await self.store.close()
        self.store = self._new_store()
        await self.store.open()
        return self.store

    async def set_max_attempts(self, job_id: UUID, max_attempts: int) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute("UPDATE holdfast_job SET max_attempts = ? WHERE id = ?", (max_attempts, job_id.bytes))

    async def close(self) -> None:
        for store in (*self._second_stores, self.store):
            await store.close()


@asynccontextmanager
async def open_sqlite(path: Path) -> AsyncIterator[StoreHarness]:
    harness = SQLiteHarness(path)
    await harness.store.open()
    try:
        yield harness
    finally:
        await harness.close()
