"""One migrated database a test process, emptied for each test; fresh ones where a test needs its own."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from holdfast.stores.postgres import PostgresStore, migrate
from tests.integration.postgres.databases import empty, opened
from tests.servers import Postgres


@pytest.fixture(scope="session")
def migrated_database(postgres_server: Postgres) -> Iterator[str]:
    """The name of a database with Holdfast's tables."""
    name = postgres_server.create_database()
    asyncio.run(migrate.upgrade(postgres_server.url(name)))
    yield name
    postgres_server.drop_database(name)


@pytest.fixture
def url(migrated_database: str, postgres_server: Postgres) -> str:
    """The URL of a migrated, empty database."""
    url = postgres_server.url(migrated_database)
    asyncio.run(empty(url))
    return url


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    async with opened(url) as store:
        yield store


@pytest.fixture
async def other_store(url: str) -> AsyncIterator[PostgresStore]:
    """As another process would have it: connections, cursors and wake-ups of its own."""
    async with opened(url) as store:
        yield store
