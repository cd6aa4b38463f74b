"""Clients of a store that keep books: what they were told is the only thing that may be held against it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

from holdfast.core.batches import ids_of
from holdfast.core.commands import SettleAnswer, Settled, Settlement, Submit
from holdfast.core.errors import HoldfastError, JobNotFound, StaleLease, Unavailable
from holdfast.core.job import ClaimedJob
from holdfast.core.states import State
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.factories import COMPLETED, RETRY, after, new_claim, new_job, register
from holdfast.testing.invariants import require_consistent
from tests.integration.postgres.databases import fetch, jobs_that_stand_wrongly, opened

Answer = TypeVar("Answer")

SUBMITTERS = 4
WORKERS = 3
CALL_SECONDS = 30.0
REPEATS = 1000
PAUSE_SECONDS = 0.02


@dataclass
class Books:
    """What the clients were told: the only thing that may be held against the store."""

    submitted: set[UUID] = field(default_factory=set)
    settled: set[UUID] = field(default_factory=set)
    refused: set[UUID] = field(default_factory=set)
    """What they wait for is not there."""
    stale: int = 0
    missing: set[UUID] = field(default_factory=set)
    """Jobs that were claimed, and that the store does not know when they are settled."""
    outages: int = 0


async def repeated(books: Books, call: Callable[[bool], Awaitable[Answer]]) -> Answer:
    """Do as the port says: repeat after Unavailable, and after nothing else. A call that hangs fails the test."""
    for attempt in range(REPEATS):
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await call(attempt > 0)
        except Unavailable:
            books.outages += 1
            await asyncio.sleep(PAUSE_SECONDS)
    raise AssertionError(f"still unavailable after {REPEATS} repeats")


async def submit_for_ever(store: PostgresStore, books: Books) -> None:
    while True:
        jobs = tuple(new_job() for _ in range(3))
        plain = Submit(jobs=jobs)
        keyed = Submit(jobs=(new_job(key=str(jobs[0].id)), new_job(dependencies=after(jobs[0].id))))
        for submit in (plain, keyed):
            (answer,) = await repeated(books, lambda _, submit=submit: store.submit([submit]))  # type: ignore[misc]
            (books.refused if isinstance(answer, HoldfastError) else books.submitted).update(ids_of(submit.jobs))


async def work_for_ever(store: PostgresStore, books: Books) -> None:
    worker = await repeated(books, lambda _: register(store))
    while True:
        asked = new_claim(worker, limit=10)
        repeat = new_claim(worker, limit=10, nonce=asked.nonce, is_repeat=True)
        jobs = await repeated(books, lambda is_repeat, a=asked, r=repeat: store.claim(r if is_repeat else a))  # type: ignore[misc]
        await settle_all(store, books, jobs)


async def settle_all(store: PostgresStore, books: Books, jobs: list[ClaimedJob]) -> None:
    # One in five takes the verbs' way.
    outcomes = [RETRY if n % 5 == 0 else COMPLETED for n in range(len(jobs))]
    left = [Settlement(lease=job.lease, outcome=one) for job, one in zip(jobs, outcomes, strict=True)]
    while left:
        settlements, left = left, []
        answers = await repeated(books, lambda _, some=settlements: store.settle(some))  # type: ignore[misc]
        for settlement, answer in zip(settlements, answers, strict=True):
            if isinstance(answer, Unavailable):
                # Of this one alone: somebody who waits for the standby holds it (PORT-7).
                left.append(settlement)
            else:
                note_end(books, settlement.lease.job_id, answer)


def note_end(books: Books, job_id: UUID, answer: SettleAnswer) -> None:
    if isinstance(answer, Settled):
        books.settled.update({job_id} if answer.state is State.COMPLETED else ())
    elif isinstance(answer, JobNotFound):
        books.missing.add(job_id)
    else:
        assert isinstance(answer, StaleLease), answer
        books.stale += 1


@asynccontextmanager
async def clients(store: PostgresStore, books: Books) -> AsyncIterator[None]:
    """Submitters and workers; whatever one of them fails with, other than Unavailable, fails the test."""
    tasks = [asyncio.create_task(submit_for_ever(store, books)) for _ in range(SUBMITTERS)]
    tasks += [asyncio.create_task(work_for_ever(store, books)) for _ in range(WORKERS)]
    try:
        yield
        for task in tasks:
            assert not task.done() or task.exception() is None, task.exception()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def growth(of: set[UUID], by: int) -> None:
    """Wait until this many more are in the set."""
    target = len(of) + by
    async with asyncio.timeout(CALL_SECONDS):
        while len(of) < target:
            await asyncio.sleep(0.01)


async def require_books_kept(url: str, books: Books) -> None:
    """Everything acknowledged is there, and each job stands in exactly one place."""
    assert await jobs_that_stand_wrongly(url) == []
    assert not books.missing, "claimed, and lost"
    assert not books.refused, "what they wait for was accepted, and lost"
    ids = {row["id"] for row in await fetch(url, "SELECT id FROM holdfast.job")}
    assert not books.submitted - ids, "accepted, and lost"
    ended = await fetch(url, "SELECT j.id FROM holdfast.ended e JOIN holdfast.job j ON j.seq = e.job")
    assert not books.settled - {row["id"] for row in ended}, "settled, and forgotten"
    async with opened(url, listen=False) as store:
        await require_consistent(store)
