"""A submit that is written part by part while it is made: whatever happens between two parts, it is all or nothing."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest

from holdfast.core.batches import JobsInParts
from holdfast.core.commands import NewJob, Submit, Submitted
from holdfast.core.errors import Unavailable
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.factories import new_job, read_all, submit_one
from tests.integration.postgres.databases import opened

END_ALL = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'holdfast'
"""


def interrupted(*steps: Any) -> JobsInParts:
    """Three parts; between the second and the third the steps are run."""

    def rest() -> Iterator[Sequence[NewJob]]:
        yield [new_job() for _ in range(10)]
        for step in steps:
            step()
        yield [new_job() for _ in range(10)]

    return JobsInParts([new_job() for _ in range(10)], rest())


async def count(store: PostgresStore) -> int:
    return len(await read_all(store))


async def test_a_connection_that_breaks_between_parts_leaves_nothing(url: str) -> None:
    def end_all() -> None:
        with psycopg.connect(url) as connection:
            connection.execute(END_ALL)

    async with opened(url) as store:
        before = await count(store)
        jobs = interrupted(end_all)
        with pytest.raises(Unavailable):
            await store.submit([Submit(jobs=jobs)])
        assert await count(store) == before
        assert await store.submit([Submit(jobs=jobs)]) == [tuple(map(Submitted, jobs.ids))]
        assert await count(store) == before + 30


async def test_a_caller_that_gives_up_between_parts_leaves_nothing(url: str) -> None:
    async with opened(url) as store:
        before = await count(store)
        callers: list[asyncio.Task[Any]] = []
        jobs = interrupted(lambda: callers[0].cancel())
        callers.append(asyncio.create_task(store.submit([Submit(jobs=jobs)])))
        with pytest.raises(asyncio.CancelledError):
            await callers[0]
        assert await count(store) == before
        await submit_one(store)
        assert await count(store) == before + 1


async def test_nobody_sees_a_part(url: str) -> None:
    seen: list[int] = []

    def look() -> None:
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT count(*) FROM holdfast.job").fetchone()
            assert row is not None
            seen.append(row[0])

    async with opened(url) as store:
        before = await count(store)
        await store.submit([Submit(jobs=interrupted(look))])
        assert seen == [before]
        assert await count(store) == before + 30
