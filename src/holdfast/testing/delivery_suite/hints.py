"""Workers that hear too much, too little, too early or nonsense: it changes only when a job runs (DELIVERY-1)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from holdfast.core.commands import Hint
from holdfast.core.job import Timeouts
from holdfast.core.payload import Payload
from holdfast.core.states import State
from holdfast.testing.delivery_suite.rumours import Change, Rumours
from holdfast.testing.factories import (
    cancel_one,
    claim_one,
    new_job,
    read_one,
    read_states,
    register,
    submit_jobs,
    submit_one,
    tick,
)
from holdfast.testing.harness import DeliveryHarness
from holdfast.worker.context import Context
from holdfast.worker.handler import Handler, Isolation, Registry
from holdfast.worker.options import WorkerOptions
from holdfast.worker.worker import Worker

PATIENCE_SECONDS: Final = 60.0
"""How long a test waits for what must happen; never a measure of speed."""
POLL_SECONDS: Final = 0.3


class Runs:
    """What ran, and how often; ``gate`` keeps all of it from ending."""

    def __init__(self) -> None:
        self.counts: Counter[UUID] = Counter()
        self.gate = asyncio.Event()
        self.gate.set()

    async def run(self, ctx: Context) -> None:
        self.counts[ctx.job_id] += 1
        await self.gate.wait()


class OnlyContext:
    wants_context = True

    def decode(self, _: Payload) -> dict[str, Any]:
        return {}

    def encode_result(self, _: Any) -> bytes | None:
        return None


@asynccontextmanager
async def working(harness: DeliveryHarness, rumours: Rumours, runs: Runs, **options: Any) -> AsyncIterator[Worker]:
    registry = Registry()
    registry.add(
        Handler(name="example", function=runs.run, isolation=Isolation.LOOP, is_async=True, signature=OnlyContext())
    )
    given = {"queues": ("default",), "concurrency": 4, "poll_seconds": POLL_SECONDS, "tick": None, **options}
    async with Worker(
        harness.store, delivery=rumours, registry=registry, options=WorkerOptions(heartbeat_seconds=0.1, **given)
    ) as worker:
        yield worker


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110 - the tests know no event for it
            await asyncio.sleep(0.01)


async def until_all_completed(harness: DeliveryHarness, ids: Sequence[UUID]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while set(await read_states(harness.store, ids)) != {State.COMPLETED}:  # noqa: ASYNC110 - the same
            await asyncio.sleep(0.02)


def one_in_two() -> Change:
    heard = 0

    def lose(hints: Sequence[Hint]) -> Sequence[Hint]:
        nonlocal heard
        heard += 1
        return hints if heard % 2 else ()

    return lose


CHANGES: Final[dict[str, Callable[[], dict[str, Any]]]] = {
    "as they are": dict,
    "twice": lambda: {"change": lambda hints: [*hints, *hints]},
    "every other one lost": lambda: {"change": one_in_two()},
    "late": lambda: {"delay_seconds": 0.2},
}


@pytest.mark.parametrize("change", CHANGES)
async def test_whatever_becomes_of_hints_each_job_runs_once(delivery_harness: DeliveryHarness, change: str) -> None:
    rumours, runs = Rumours(delivery_harness.new_delivery(), **CHANGES[change]()), Runs()
    async with working(delivery_harness, rumours, runs):
        ids = []
        for _ in range(5):
            jobs = [new_job() for _ in range(3)]
            await submit_jobs(delivery_harness.store, *jobs)
            ids += [job.id for job in jobs]
            await asyncio.sleep(0.02)
        await until_all_completed(delivery_harness, ids)
    assert runs.counts == Counter(ids)


async def test_a_hint_is_finished_once_the_outcome_is_stored(delivery_harness: DeliveryHarness) -> None:
    """DELIVERY-4. Said several times over, the job runs once."""
    rumours, runs = Rumours(delivery_harness.new_delivery()), Runs()
    runs.gate.clear()
    job_id = await submit_one(delivery_harness.store, delay_seconds=60.0)
    delivery_harness.clock.advance(60)
    async with working(delivery_harness, rumours, runs):
        for _ in range(2):
            rumours.say_again(Hint("default", (job_id,), receipt=rumours))
        await eventually(lambda: bool(runs.counts))
        rumours.say(job_id)
        await eventually(lambda: len(rumours.released) == 1)  # it runs
        assert rumours.finished == []
        runs.gate.set()
        await eventually(lambda: len(rumours.finished) == 2)
        assert (await read_one(delivery_harness.store, job_id)).state is State.COMPLETED
    assert runs.counts == {job_id: 1}


async def test_a_hint_before_its_time_goes_back_until_then(delivery_harness: DeliveryHarness) -> None:
    rumours, runs = Rumours(delivery_harness.new_delivery()), Runs()
    job_id = await submit_one(delivery_harness.store, delay_seconds=60.0)
    async with working(delivery_harness, rumours, runs):
        hint = rumours.say(job_id)
        await eventually(lambda: bool(rumours.released))
        assert [(release.hint, release.delay_seconds) for release in rumours.released] == [(hint, 60.0)]
        delivery_harness.clock.advance(60)
        rumours.say_again(hint)
        # No tick has run: the claim itself finds that the job is due.
        await eventually(lambda: rumours.finished == [hint])
    assert runs.counts == {job_id: 1}


async def test_hints_of_jobs_that_are_none_of_ours_go_back(delivery_harness: DeliveryHarness) -> None:
    rumours, runs = Rumours(delivery_harness.new_delivery()), Runs()
    store = delivery_harness.store
    elsewhere, unknown = await submit_one(store, queue="elsewhere"), await submit_one(store, type="unknown")
    async with working(delivery_harness, rumours, runs):
        for job_id, queue in ((elsewhere, "elsewhere"), (elsewhere, "default"), (unknown, "default")):
            rumours.say(job_id, queue=queue)
        await eventually(lambda: len(rumours.released) == 3)
        assert all(release.delay_seconds > 1.0 for release in rumours.released)
    assert await read_states(store, [elsewhere, unknown]) == [State.SCHEDULED] * 2
    assert (runs.counts, rumours.finished) == ({}, [])


async def test_hints_of_jobs_that_are_gone_or_paused_are_dropped(delivery_harness: DeliveryHarness) -> None:
    rumours, runs = Rumours(delivery_harness.new_delivery()), Runs()
    store = delivery_harness.store
    cancelled = await submit_one(store)
    await cancel_one(store, cancelled)
    paused = await submit_one(store, queue="paused")
    await store.pause("paused")
    async with working(delivery_harness, rumours, runs, queues=("default", "paused")):
        said = [rumours.say(cancelled), rumours.say(paused, queue="paused"), rumours.say(uuid4())]
        await eventually(lambda: len(rumours.finished) == len(said))
        assert {hint.ids for hint in rumours.finished} == {hint.ids for hint in said}
        await store.resume("paused")
        await until_all_completed(delivery_harness, [paused])
    assert (runs.counts, rumours.released) == ({paused: 1}, [])


async def test_nonsense_is_a_reason_to_look_and_no_more(delivery_harness: DeliveryHarness) -> None:
    rumours, runs = Rumours(delivery_harness.new_delivery()), Runs()
    async with working(delivery_harness, rumours, runs):
        rumours.say(queue=None)
        rumours.say(uuid4(), queue=None)
        rumours.say()
        rumours.say(uuid4(), queue="no such queue \0 " + 300 * "q")
        await eventually(lambda: len(rumours.finished) == 3 and len(rumours.released) == 1)
        job_id = await submit_one(delivery_harness.store)
        await until_all_completed(delivery_harness, [job_id])
    assert runs.counts == {job_id: 1}


async def test_a_hint_of_several_jobs_is_held_for_all_of_them(delivery_harness: DeliveryHarness) -> None:
    """What is early in it comes again when the others have ended."""
    rumours, runs = Rumours(delivery_harness.new_delivery()), Runs()
    runs.gate.clear()
    due, early = [new_job(delay_seconds=60.0), new_job(delay_seconds=60.0)], new_job(delay_seconds=100.0)
    await submit_jobs(delivery_harness.store, *due, early)
    delivery_harness.clock.advance(60)
    async with working(delivery_harness, rumours, runs):
        hint = rumours.say(due[0].id, early.id, due[1].id, uuid4())
        await eventually(lambda: len(runs.counts) == 2)
        assert (rumours.finished, rumours.released) == ([], [])
        runs.gate.set()
        await eventually(lambda: bool(rumours.released))
        assert [(release.hint, release.delay_seconds) for release in rumours.released] == [(hint, 40.0)]
        delivery_harness.clock.advance(40)
        rumours.say_again(hint)
        await eventually(lambda: rumours.finished == [hint])
    assert runs.counts == Counter([*(job.id for job in due), early.id])


async def test_a_job_that_must_be_taken_alone_sends_its_neighbours_back(delivery_harness: DeliveryHarness) -> None:
    store, runs = delivery_harness.store, Runs()
    rumours = Rumours(delivery_harness.new_delivery())
    fragile = await submit_one(store, timeouts=Timeouts(visibility=10.0), delay_seconds=1.0)
    delivery_harness.clock.advance(1)
    await tick(store)
    await claim_one(store, await register(store))
    delivery_harness.clock.advance(10)
    await tick(store)
    others = [new_job(delay_seconds=1.0) for _ in range(2)]
    await submit_jobs(store, *others)
    # Out of the way of claims by queue.
    await store.pause("default")
    delivery_harness.clock.advance(1)
    async with working(delivery_harness, rumours, runs):
        await store.resume("default")
        hints = [rumours.say(job_id) for job_id in (fragile, *(job.id for job in others))]
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(rumours.finished) < len(hints):
                for release in rumours.released[:]:
                    rumours.released.remove(release)
                    rumours.say_again(release.hint)
                await asyncio.sleep(0.02)
    assert runs.counts == Counter([fragile, *(job.id for job in others)])
