"""A file of the test's own, and stores on it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.stores.sqlite import SQLiteStore

OpenStore = Callable[..., Awaitable[SQLiteStore]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def open_store(path: Path) -> AsyncIterator[OpenStore]:
    """Opens as many stores on the file as asked for; all are closed after the test."""
    stores: list[SQLiteStore] = []

    async def open_one(**settings: Any) -> SQLiteStore:
        store = SQLiteStore(path, **settings)
        await store.open()
        stores.append(store)
        return store

    yield open_one
    for store in stores:
        await store.close()


@pytest.fixture
async def store(open_store: OpenStore) -> SQLiteStore:
    return await open_store()
