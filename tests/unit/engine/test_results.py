"""app/results.py: RESULT-1 to RESULT-4, on a store that answers as it is told."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from holdfast import InvalidInput, Job, JobNotFound, State, Unavailable, UsageError
from holdfast.engine.results import MAX_SECONDS, READ_JOBS, ResultWaiter
from holdfast.stores.memory import MemoryStore
from holdfast.testing.factories import job_in_state, submit_one

PATIENCE_SECONDS = 30.0


class CountingStore(MemoryStore):
    """A store that knows what it was asked, and can be away."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[UUID]] = []
        self.errors: list[Exception] = []
        self.gate: asyncio.Event | None = None

    async def read(self, ids: Sequence[UUID]) -> list[Job | None]:
        self.asked.append(list(ids))
        if self.gate is not None:
            await self.gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        return await super().read(ids)

    async def until_asked(self, times: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.asked) < times:
                await asyncio.sleep(0)


@pytest.fixture
async def store() -> CountingStore:
    return CountingStore()


@pytest.fixture
async def waiter(store: CountingStore) -> AsyncIterator[ResultWaiter]:
    waiter = ResultWaiter(store)
    yield waiter
    waiter.close()


def waiting(waiter: ResultWaiter, job_id: UUID) -> asyncio.Task[Job]:
    return asyncio.create_task(waiter.wait(job_id))


def is_quiet(waiter: ResultWaiter) -> bool:
    return waiter._timer is None and waiter._reading is None and not waiter._awaited


async def test_a_job_that_has_ended_is_read_once(store: CountingStore, waiter: ResultWaiter) -> None:
    job_id = await job_in_state(store, State.COMPLETED)
    assert (await waiter.wait(job_id)).state is State.COMPLETED
    assert store.asked == [[job_id]]
    await asyncio.sleep(0)
    assert is_quiet(waiter)


@pytest.mark.parametrize("state", [State.COMPLETED, State.FAILED, State.DEAD_LETTER, State.CANCELLED])
async def test_every_end_is_an_end(store: CountingStore, waiter: ResultWaiter, state: State) -> None:
    assert (await waiter.wait(await job_in_state(store, state))).state is state


async def test_the_wait_ends_when_the_job_does(store: CountingStore, waiter: ResultWaiter) -> None:
    job_id = await submit_one(store)
    task = waiting(waiter, job_id)
    await store.until_asked(3)
    assert not task.done()
    await store.cancel([job_id])
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert (await task).state is State.CANCELLED


async def test_all_who_wait_share_a_read(store: CountingStore, waiter: ResultWaiter) -> None:
    """RESULT-1: many jobs, and several waiters for one of them."""
    ids = [await job_in_state(store, State.COMPLETED) for _ in range(50)]
    found = await asyncio.gather(*(waiter.wait(job_id) for job_id in [*ids, ids[0], ids[0]]))
    assert [job.id for job in found] == [*ids, ids[0], ids[0]]
    assert store.asked == [ids]


async def test_who_comes_while_a_read_is_under_way_is_in_the_next(store: CountingStore, waiter: ResultWaiter) -> None:
    first, second = [await job_in_state(store, State.COMPLETED) for _ in range(2)]
    store.gate = asyncio.Event()
    early = waiting(waiter, first)
    await store.until_asked(1)
    late = waiting(waiter, second)
    await asyncio.sleep(0)
    store.gate.set()
    await asyncio.gather(early, late)
    assert store.asked == [[first], [second]]


async def test_more_jobs_than_a_read_takes_are_read_one_part_after_the_other(
    store: CountingStore, waiter: ResultWaiter
) -> None:
    job_id = await job_in_state(store, State.COMPLETED)
    unknown = [uuid4() for _ in range(READ_JOBS)]
    answers = await asyncio.gather(*(waiter.wait(one) for one in [*unknown, job_id]), return_exceptions=True)
    assert [len(ids) for ids in store.asked] == [READ_JOBS, 1]
    assert isinstance(answers[0], JobNotFound)
    assert isinstance(answers[-1], Job)


async def test_a_job_is_looked_at_less_and_less_often_up_to_a_bound(store: CountingStore, waiter: ResultWaiter) -> None:
    """RESULT-2: the intervals, not the time they take."""
    job_id = await submit_one(store)
    task = waiting(waiter, job_id)
    intervals = []
    for times in range(1, 6):
        await store.until_asked(times)
        intervals.append(waiter._awaited[job_id].interval_seconds)
    assert intervals == sorted(intervals)
    assert intervals[0] < intervals[-1]
    awaited = waiter._awaited[job_id]
    for _ in range(100):
        awaited.postpone(0.0)
    assert awaited.due_at == awaited.interval_seconds == MAX_SECONDS
    task.cancel()


async def test_nothing_runs_once_nobody_waits(store: CountingStore, waiter: ResultWaiter) -> None:
    """RESULT-3: not even for a job that has not ended."""
    job_id = await submit_one(store)
    tasks = [waiting(waiter, job_id), waiting(waiter, job_id)]
    await store.until_asked(2)
    tasks[0].cancel()
    await asyncio.wait([tasks[0]])
    assert not is_quiet(waiter)
    tasks[1].cancel()
    await asyncio.wait([tasks[1]])
    if waiter._reading is not None:
        await asyncio.wait([waiter._reading])
    assert is_quiet(waiter)


async def test_a_store_that_is_away_delays_the_answer(store: CountingStore, waiter: ResultWaiter) -> None:
    """RESULT-4."""
    job_id = await job_in_state(store, State.COMPLETED)
    store.errors = [Unavailable("away"), Unavailable("still away")]
    assert (await waiter.wait(job_id)).id == job_id
    assert len(store.asked) == 3


async def test_any_other_error_is_everybodys_who_waits_for_that_read(
    store: CountingStore, waiter: ResultWaiter
) -> None:
    store.errors = [InvalidInput([])]
    answers = await asyncio.gather(*(waiter.wait(uuid4()) for _ in range(2)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [InvalidInput, InvalidInput]
    # And nobody else's.
    assert (await waiter.wait(await job_in_state(store, State.FAILED))).state is State.FAILED


async def test_closing_tells_those_who_wait(store: CountingStore, waiter: ResultWaiter) -> None:
    tasks: list[asyncio.Task[Any]] = [waiting(waiter, await submit_one(store)) for _ in range(2)]
    await store.until_asked(1)
    waiter.close()
    for answer in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(answer, UsageError)
        assert "closed" in str(answer)
    assert is_quiet(waiter) or waiter._reading is not None
