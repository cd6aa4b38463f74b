"""A world on each store."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.stores.postgres import migrate
from holdfast.wiring import create_store
from tests.integration.postgres.databases import empty
from tests.integration.worker.world import World
from tests.servers import Postgres


@pytest.fixture(scope="session")
def worker_database(postgres_server: Postgres) -> Iterator[str]:
    name = postgres_server.create_database()
    asyncio.run(migrate.upgrade(postgres_server.url(name)))
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    url: str = request.getfixturevalue("worker_database")
    asyncio.run(empty(url))
    return url


@pytest.fixture
async def world(url: str) -> AsyncIterator[World]:
    store = create_store(url)
    await store.open()
    yield World(url, store)
    await store.close()


def on(*stores: str) -> pytest.MarkDecorator:
    """Only on these stores: for tests that need another process, or nothing of the store at all."""
    return pytest.mark.parametrize("url", stores, indirect=True)
