"""The stores that outlive a process, each with something of everything in it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.stores.postgres import migrate
from tests.integration.doctor.world import Database


@pytest.fixture(params=["sqlite", "postgresql"])
def new_database_of(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Database]:
    def make() -> Database:
        if request.param == "sqlite":
            return Database(f"sqlite:///{tmp_path / 'jobs.db'}")
        url: str = request.getfixturevalue("postgres_url")
        asyncio.run(migrate.upgrade(url))
        return Database(url)

    return make


@pytest.fixture
def database(new_database_of: Callable[[], Database]) -> Database:
    """Of each store, with our tables and nothing in them."""
    return new_database_of()
