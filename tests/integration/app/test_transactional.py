"""options(connection=…): the job is accepted with the caller's own commit, and gone with its rollback."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from holdfast import InvalidInput, JobNotFound, State, UsageError, chain
from tests.integration.app.conftest import Jobs
from tests.integration.postgres.callers import CALLERS, dialect


@pytest.mark.parametrize("driver", list(CALLERS))
async def test_a_job_is_accepted_with_the_callers_commit(postgres_app_url: str, driver: str) -> None:
    jobs = Jobs(postgres_app_url)
    async with jobs.app, CALLERS[driver](postgres_app_url) as caller:
        single = await jobs.add.options(connection=caller.connection).submit(1)
        (many,) = await jobs.app.submit_many([jobs.add.call(2)], connection=caller.connection)
        flow = await chain(jobs.add.call(3), jobs.total.call()).submit(connection=caller.connection)
        named = await jobs.app.submit("elsewhere", connection=caller.connection)
        handles = [single, many, *flow.handles, named]
        for handle in handles:
            with pytest.raises(JobNotFound):
                await handle.job()
        await caller.commit()
        states = [(await handle.job()).state for handle in handles]
        assert states == [State.SCHEDULED, State.SCHEDULED, State.SCHEDULED, State.PENDING, State.SCHEDULED]


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg", "sqlalchemy async session, asyncpg"])
async def test_a_job_is_gone_with_the_callers_rollback(postgres_app_url: str, driver: str) -> None:
    jobs = Jobs(postgres_app_url)
    async with jobs.app, CALLERS[driver](postgres_app_url) as caller:
        await jobs.add.options(connection=caller.connection).submit(1)
        await caller.rollback()
        assert (await jobs.app.list()).jobs == ()


async def test_sqlite_takes_part_too(sqlite_app_url: str) -> None:
    jobs = Jobs(sqlite_app_url)
    async with jobs.app:
        with closing(sqlite3.connect(sqlite_app_url.removeprefix("sqlite:///"))) as connection:
            connection.execute("CREATE TABLE orders (name TEXT)")
            connection.execute("INSERT INTO orders VALUES ('tea')")
            handle = await jobs.add.options(connection=connection).submit(1)
            with pytest.raises(JobNotFound):
                await handle.job()
            connection.commit()
        assert (await handle.job()).state is State.SCHEDULED


# without a loop: the caller's connection is its thread's, and is used there

Connect = Callable[[str], Any]


@contextmanager
def sqlite_connection(url: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        yield connection


@contextmanager
def sqlalchemy_session(url: str) -> Iterator[Session]:
    engine = create_engine(dialect(url, "psycopg"))
    with Session(engine) as session:
        yield session
    engine.dispose()


@pytest.mark.parametrize(
    ("store", "connect"),
    [("sqlite", sqlite_connection), ("postgres", psycopg.connect), ("postgres", sqlalchemy_session)],
)
def test_a_program_without_a_loop_submits_in_its_own_transaction(
    store: str, connect: Connect, request: pytest.FixtureRequest
) -> None:
    url: str = request.getfixturevalue(f"{store}_app_url")
    jobs = Jobs(url)
    jobs.app.list_sync()
    with connect(url) as connection:
        single = jobs.add.options(connection=connection, key="order-7").submit_sync(1)
        (many,) = jobs.app.submit_many_sync([jobs.add.call(2)], connection=connection)
        flow = chain(jobs.add.call(3)).submit_sync(connection=connection)
        named = jobs.app.submit_sync("elsewhere", connection=connection)
        with pytest.raises(InvalidInput):
            jobs.add.options(connection=connection, queue="").submit_sync(1)
        assert jobs.app.list_sync().jobs == ()
        connection.commit()
        stored = {job.id for job in jobs.app.list_sync().jobs}
        assert stored == {single.id, many.id, named.id, *(handle.id for handle in flow.handles)}
        jobs.add.submit_sync(5)
        jobs.add.options(connection=connection).submit_sync(6)
        connection.rollback()
    assert len(jobs.app.list_sync().jobs) == 5
    jobs.app.close_sync()


async def test_what_cannot_take_part_is_refused(opened: Jobs) -> None:
    with pytest.raises(UsageError, match="connection="):
        await opened.add.options(connection=object()).submit(1)
    with pytest.raises(UsageError, match="connection="):
        await asyncio.to_thread(opened.add.options(connection=object()).submit_sync, 1)
    assert (await opened.app.list()).jobs == ()
