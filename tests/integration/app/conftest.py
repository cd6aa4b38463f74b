"""An app on each store."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast import Context, Holdfast, PermanentError
from holdfast.stores.postgres import migrate
from tests.integration.postgres.databases import empty
from tests.servers import Postgres


@pytest.fixture(scope="session")
def app_database(postgres_server: Postgres) -> Iterator[str]:
    name = postgres_server.create_database()
    asyncio.run(migrate.upgrade(postgres_server.url(name)))
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture
def postgres_app_url(app_database: str) -> str:
    """The URL of a migrated, empty database."""
    asyncio.run(empty(app_database))
    return app_database


@pytest.fixture
def sqlite_app_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "memory":
        return "memory://"
    url: str = request.getfixturevalue(f"{request.param}_app_url")
    return url


class Jobs:
    """An app with a few job types."""

    def __init__(self, url: str) -> None:
        self.app = Holdfast(url, logs="off")

        @self.app.job
        async def add(a: int, b: int = 0) -> int:
            return a + b

        @self.app.job
        def total(ctx: Context) -> int:
            return sum(ctx.results)

        @self.app.job
        async def fail(message: str) -> None:
            raise PermanentError(message)

        @self.app.job(queue="media")
        async def resize(path: str) -> str:
            return path

        self.add, self.total, self.fail, self.resize = add, total, fail, resize


@pytest.fixture
def jobs(url: str) -> Iterator[Jobs]:
    """Not open: for programs without a loop."""
    jobs = Jobs(url)
    yield jobs
    jobs.app.close_sync()


@pytest.fixture
async def opened(jobs: Jobs) -> AsyncIterator[Jobs]:
    async with jobs.app:
        yield jobs
