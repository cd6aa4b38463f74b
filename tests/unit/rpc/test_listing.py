"""Pages from the oldest job on: all that there are, in order, and not by reading the whole table."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from holdfast.core.commands import NewJob, Page, Submit, Tick
from holdfast.core.ports import Store
from holdfast.rpc.engine_jobs import new_job
from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from holdfast.rpc.listing import READ_JOBS, SLACK_MS, list_jobs
from holdfast.wiring import create_store

EVERY: frozenset[int] = frozenset()


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Store]:
    store = create_store(f"sqlite:///{folder}/jobs.db")
    await store.open()
    try:
        yield store
    finally:
        await store.close()


class Counting:
    """The store, and how many jobs were read from it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.read = 0

    async def read_page(self, *given: Any, **named: Any) -> Page:
        page = await self.store.read_page(*given, **named)
        self.read += len(page.jobs)
        return page


def ours(count: int) -> list[NewJob]:
    return [new_job(uuid4(), pb.JobSpec(job_type="x"), key="") for _ in range(count)]


def others(count: int) -> list[NewJob]:
    return [NewJob(id=uuid4(), type="other") for _ in range(count)]


async def submit(store: Store, jobs: list[NewJob]) -> list[str]:
    """Their IDs in the order of a page: written at once, they have one time."""
    await store.submit([Submit(jobs=tuple(jobs))])
    await asyncio.sleep(0.002)  # the next ones have another
    return sorted(str(job.id) for job in jobs)


async def walk(store: Any, statuses: frozenset[int] = EVERY, *, size: int = 150) -> list[str]:
    found: list[str] = []
    while True:
        page = await list_jobs(store, statuses, offset=len(found), size=size, sort=pb.CREATED_AT_ASC)
        found += [job.job_id for job in page.jobs]
        if not page.page.next_page_token:
            return found
        assert page.page.next_page_token == str(len(found))


async def test_an_empty_table_has_an_empty_page(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        assert await walk(store) == []
        await submit(store, others(3))
        assert await walk(store) == []


async def test_jobs_between_many_others_are_all_found(tmp_path: Path) -> None:
    """Windows grow over what is not asked for, and shrink where it is."""
    async with opened(tmp_path) as store:
        wanted = await submit(store, ours(5))
        for count in (700, 900, 900):
            await submit(store, others(count))
        wanted += await submit(store, ours(1))
        wanted += await submit(store, ours(700))
        await submit(store, others(30))
        wanted += await submit(store, ours(2))
        assert await walk(store) == wanted


async def test_a_table_whose_beginning_was_removed_begins_with_what_is_left(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        gone = ours(500)
        await submit(store, gone)
        await store.cancel([job.id for job in gone])
        await asyncio.sleep(0.01)
        report = await store.tick(Tick(completed_retention_seconds=0.001, dead_retention_seconds=0.001))
        assert report.removed == 500
        wanted = await submit(store, ours(10)) + await submit(store, ours(10))
        assert await walk(store) == wanted


async def test_only_the_statuses_that_are_asked_for(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        jobs = ours(600)
        await submit(store, jobs)
        canceled = jobs[::100]
        await store.cancel([job.id for job in canceled])
        assert await walk(store, frozenset({pb.CANCELED})) == sorted(str(job.id) for job in canceled)


async def test_the_first_page_of_a_large_table_reads_little_of_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        first = await submit(store, ours(READ_JOBS))
        await asyncio.sleep(2 * SLACK_MS / 1000)
        for _ in range(4):
            await submit(store, ours(1000))
        counting: Any = Counting(store)
        page = await list_jobs(counting, EVERY, offset=0, size=50, sort=pb.CREATED_AT_ASC)
        assert [job.job_id for job in page.jobs] == first[:50]
        # Seqs have gaps, and a window over one reads what lies below it again.
        assert counting.read < 2_000
