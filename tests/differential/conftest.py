"""One PostgreSQL database for all of the differential tests."""

import asyncio
from collections.abc import Iterator

import pytest

from holdfast.stores.postgres import migrate
from tests.differential.driver import OpenWorld
from tests.differential.overlaps import databases
from tests.differential.stores import SCHEMA, memory, postgres, sqlite, worlds
from tests.servers import Postgres


@pytest.fixture(scope="session")
def differential_database(postgres_server: Postgres) -> Iterator[str]:
    name = postgres_server.create_database()
    url = postgres_server.url(name)
    asyncio.run(migrate.upgrade(url, schema=SCHEMA))
    yield url
    postgres_server.drop_database(name)


@pytest.fixture(scope="session")
def open_world(differential_database: str, tmp_path_factory: pytest.TempPathFactory) -> OpenWorld:
    """Every store of this repository. A new store is one line here."""
    return worlds(
        {
            "memory": memory,
            "sqlite": sqlite(tmp_path_factory.mktemp("differential")),
            "postgres": postgres(differential_database),
        }
    )


@pytest.fixture(scope="session")
def open_databases(
    differential_database: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, databases.OpenDatabase]:
    """Every store with which a program can share its own transaction. A new one is one line here."""
    return {
        "postgres": databases.postgres(differential_database),
        "sqlite": databases.sqlite(tmp_path_factory.mktemp("overlaps")),
    }
