"""A worker that is told to stop: WORKER-1, WORKER-2, FETCHER-3. No attempt is spent, nothing is lost."""

import asyncio
import threading
from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest

from holdfast.core.commands import NewJob, Tick
from holdfast.core.errors import Unavailable
from holdfast.core.failures import Category
from holdfast.core.job import Timeouts
from holdfast.core.retry import Retry
from holdfast.core.states import State
from holdfast.stores.wakeup import Wakeups
from holdfast.wiring import create_store
from holdfast.worker.context import Context
from tests.integration.worker.awkward import Awkward, Deed, Gate, never, raising
from tests.integration.worker.conftest import on
from tests.integration.worker.world import PATIENCE_SECONDS, SOON, World, eventually, slots_of

TURNS_TO_DRAIN = 20
"""Of the loop, and far more than it takes from the end of claiming to waiting for what runs."""


async def test_what_runs_is_finished_within_the_grace_time(world: World) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        started.set()
        await go_on.wait()
        return "finished"

    job_id = await world.submit(world.handle(work))
    worker = world.new_worker()
    async with worker:
        await started.wait()
        worker.stop()
        go_on.set()
    job = await world.job(job_id)
    assert (job.state, job.result) == (State.COMPLETED, b'"finished"')


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_does_not_finish_is_handed_back_without_an_attempt(world: World, is_async: bool) -> None:
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def work(ctx: Context) -> None:
        started.set()
        await asyncio.sleep(3600)

    def thread_work(ctx: Context) -> None:
        loop.call_soon_threadsafe(started.set)
        while not ctx.cancelled:
            pass

    job_id = await world.submit(world.handle(work if is_async else thread_work))
    async with world.worker(grace_seconds=0.0):
        await started.wait()
    job = await world.job(job_id)
    assert (job.state, job.attempt, job.lease) == (State.SCHEDULED, 0, None)
    assert await world.store.read_attempts(job_id) == []


async def test_a_worker_that_is_woken_in_the_moment_it_is_told_to_stop_stops(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    awaited: list[Wakeups] = []
    next_wakeup = Wakeups.next

    async def watched(wakeups: Wakeups, queues: Sequence[str]) -> None:
        awaited.append(wakeups)
        await next_wakeup(wakeups, queues)

    async def work() -> None: ...

    monkeypatch.setattr(Wakeups, "next", watched)
    worker = world.new_worker()
    async with worker:
        await world.until(await world.submit(world.handle(work)))
        # It has claimed in vain, and sleeps.
        await asyncio.sleep(0.1)
        await eventually(lambda: awaited[-1].is_awaited)
        awaited[-1].wake_all()
        worker.stop()
        await asyncio.wait_for(worker.wait_stopped(), PATIENCE_SECONDS)


async def test_a_second_stop_does_not_wait_for_the_grace_time(world: World) -> None:
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.sleep(3600)

    job_id = await world.submit(world.handle(work))
    worker = world.new_worker(grace_seconds=3600.0)
    async with worker:
        await started.wait()
        worker.stop()
        worker.stop_now()
    assert (await world.job(job_id)).state is State.SCHEDULED


async def test_what_was_claimed_ahead_is_handed_back(world: World) -> None:
    """Short jobs first, so that the worker claims ahead; then one that holds the only slot."""
    started = asyncio.Event()

    async def short() -> None: ...

    async def long() -> None:
        started.set()
        await asyncio.sleep(3600)

    world.handle(short), world.handle(long)
    shorts = [NewJob(id=uuid4(), type="short", retry=SOON) for _ in range(300)]
    behind = [NewJob(id=uuid4(), type="short", retry=SOON) for _ in range(300)]
    await world.submit_all([*shorts, NewJob(id=uuid4(), type="long", retry=SOON), *behind])
    worker = world.new_worker(concurrency=1, grace_seconds=0.0)
    async with worker:
        await started.wait()
        await eventually(lambda: bool(slots_of(worker).fetcher.ready))
    (queue,) = await world.store.read_queues()
    counts = {state: jobs for state, jobs in queue.counts.items() if jobs}
    assert counts == {State.COMPLETED: 300, State.SCHEDULED: 301}
    for job in behind[:20]:
        assert (await world.job(job.id)).attempt == 0


@pytest.mark.parametrize("is_leased", [True, False])
async def test_what_a_claim_under_way_gets_is_handed_back_while_the_rest_is_finished(
    world: World, is_leased: bool
) -> None:
    """The claim of the first queue is answered, that of the second is not: it is stopped before the store has done it,
    or between its commit and its answer. A long job of the second queue keeps the worker for its grace time."""
    started, go_on = asyncio.Event(), asyncio.Event()
    gate = Gate()

    async def long() -> None:
        started.set()
        await go_on.wait()

    async def short() -> None:
        raise AssertionError("must not run")

    world.handle(long), world.handle(short)
    store = Awkward(world.store, after={"claim": gate}) if is_leased else Awkward(world.store, claim=gate)
    await world.submit("long", queue="second")
    worker = world.new_worker(
        store=store, queues=("first", "second"), limits={"first": 2}, concurrency=4, grace_seconds=3600.0
    )
    async with worker:
        await started.wait()
        gate.shut()
        jobs = [NewJob(id=uuid4(), type="short", queue=queue, retry=SOON) for queue in ("first", "second")]
        await world.submit_all(jobs)
        await gate.met.wait()
        if is_leased:
            # The first queue's claim has met the gate: on to the second's.
            gate.met.clear()
            gate.open()
            gate.shut()
            await gate.met.wait()
        worker.stop()
        for job in jobs:
            handed_back = await world.until(job.id, State.SCHEDULED)
            assert (handed_back.attempt, handed_back.lease) == (0, None)
        assert not worker._stopped.is_set()
        go_on.set()
    for job in jobs:
        assert (await world.job(job.id)).state is State.SCHEDULED
        assert await world.store.read_attempts(job.id) == []


@on("sqlite", "postgres")
@pytest.mark.parametrize("mishap", [None, raising(Unavailable("away")), raising(RuntimeError("a bug")), never])
async def test_a_worker_whose_last_job_the_heartbeat_settles_stops(
    world: World, monkeypatch: pytest.MonkeyPatch, mishap: Deed | None
) -> None:
    """A coroutine blocks the loop past its timeout while the worker drains: PULSE-4 ends its job, and so the drain.

    Whatever goes wrong with the first try, the next heartbeat tries again.
    """
    monkeypatch.setattr("holdfast.worker.pulse.BLOCKED_SECONDS", 0.1)
    started, draining = asyncio.Event(), asyncio.Event()
    settled = threading.Event()
    mishaps = [] if mishap is None else [mishap]

    async def fail_once() -> None:
        if mishaps:
            await mishaps.pop()()

    async def note() -> None:
        settled.set()

    async def block() -> None:
        started.set()
        await draining.wait()
        settled.wait(PATIENCE_SECONDS)

    job_id = await world.submit(world.handle(block), timeouts=Timeouts(execution=1.0), retry=Retry(max_attempts=1))
    worker = world.new_worker(
        grace_seconds=3600.0,
        tick=Tick(worker_timeout_seconds=1.0),
        create_pulse_store=lambda: Awkward(create_store(world.url), settle=fail_once, after={"settle": note}),
    )
    await worker.start()
    await started.wait()
    worker.stop()
    await eventually(worker._fetching.done)
    for _ in range(TURNS_TO_DRAIN):
        await asyncio.sleep(0)
    draining.set()
    await asyncio.wait_for(worker.wait_stopped(), PATIENCE_SECONDS)
    job = await world.job(job_id)
    assert (job.state, job.lease, len(worker._leases)) == (State.DEAD_LETTER, None, 0)
    assert job.failure is not None
    assert job.failure.category is Category.TIMEOUT
    assert not mishaps


async def test_a_worker_that_left_is_not_alive(world: World) -> None:
    async with world.worker() as worker:
        assert [one.id for one in await world.store.read_workers()] == [worker.id]
    assert [one for one in await world.store.read_workers() if one.id == worker.id and not one.is_lost] == []


async def test_it_keeps_its_leases_alive_while_it_drains(world: World) -> None:
    """With a worker timeout far below what the drain takes, a second worker's tick would reclaim the job."""
    started, go_on = asyncio.Event(), asyncio.Event()
    runs: list[UUID] = []

    async def work(ctx: Context) -> None:
        runs.append(ctx.attempt_id)
        started.set()
        await go_on.wait()

    job_id = await world.submit(world.handle(work))
    tick = Tick(worker_timeout_seconds=1.0)
    draining = world.new_worker(tick=tick, heartbeat_seconds=0.05)
    async with draining:
        await started.wait()
        draining.stop()
        async with world.worker(tick=tick, heartbeat_seconds=0.05):
            beats = 0
            seen = None
            while beats < 3:
                (alive,) = [one for one in await world.store.read_workers() if one.id == draining.id]
                if alive.seen_at != seen:
                    seen, beats = alive.seen_at, beats + 1
                await asyncio.sleep(0.02)
            go_on.set()
            await world.until(job_id)
    assert len(runs) == 1


async def test_a_stuck_thread_does_not_keep_the_worker_from_stopping(world: World) -> None:
    started = asyncio.Event()
    loop = asyncio.get_running_loop()
    release = threading.Event()

    def deaf() -> None:
        loop.call_soon_threadsafe(started.set)
        release.wait()

    job_id = await world.submit(world.handle(deaf))
    try:
        async with world.worker(grace_seconds=0.0):
            await started.wait()
        assert (await world.job(job_id)).state is State.SCHEDULED
    finally:
        release.set()
