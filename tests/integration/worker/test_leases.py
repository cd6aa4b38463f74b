"""Leases: kept while a handler is at work, given up when they are lost.

PULSE-1, PULSE-4, LEASE-1, EXECUTOR-2, EXECUTOR-3.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from holdfast.core.commands import Claim, Hint, NewJob, Tick
from holdfast.core.errors import WorkerStuck
from holdfast.core.failures import Category
from holdfast.core.job import Timeouts
from holdfast.core.ports import Store
from holdfast.core.retry import Retry
from holdfast.core.states import State
from holdfast.deliveries.poll import PollDelivery
from holdfast.stores.sqlite import SQLiteStore
from holdfast.worker.context import Context
from tests.integration.worker.awkward import Awkward, Gate
from tests.integration.worker.conftest import on
from tests.integration.worker.world import SOON, World, eventually, slots_of

WORKER_TIMEOUT_SECONDS = 1.0


@on("sqlite", "postgres")
async def test_a_handler_that_blocks_the_loop_loses_neither_its_job_nor_its_neighbours(world: World) -> None:
    """The loop stands still for several worker timeouts, while a second worker ticks and would reclaim."""
    started = threading.Event()
    unblock = threading.Event()
    runs: list[str] = []

    async def block() -> None:
        runs.append("block")
        started.set()
        unblock.wait()

    async def neighbour() -> None:
        runs.append("neighbour")
        await asyncio.sleep(0)

    world.handle(block), world.handle(neighbour)
    ids = [await world.submit("neighbour"), await world.submit("block"), await world.submit("neighbour")]
    tick = Tick(worker_timeout_seconds=WORKER_TIMEOUT_SECONDS)
    watcher = threading.Thread(target=_watch, args=(world.url, started, unblock))
    watcher.start()
    async with world.worker(heartbeat_seconds=0.1, tick=tick):
        states = [(await world.until(job_id)).state for job_id in ids]
    watcher.join()
    assert states == [State.COMPLETED] * 3
    assert sorted(runs) == ["block", "neighbour", "neighbour"]


def _watch(url: str, started: threading.Event, unblock: threading.Event) -> None:
    """In a thread: tick as another worker would until more than two worker timeouts have passed, then unblock."""

    async def tick() -> None:
        from holdfast.wiring import create_store

        store = create_store(url)
        await store.open()
        try:
            end = time.monotonic() + 2.5 * WORKER_TIMEOUT_SECONDS
            while time.monotonic() < end:
                await store.tick(Tick(worker_timeout_seconds=WORKER_TIMEOUT_SECONDS))
                await asyncio.sleep(0.05)
        finally:
            await store.close()

    started.wait()
    try:
        asyncio.run(tick())
    finally:
        unblock.set()


@on("sqlite", "postgres")
async def test_a_coroutine_that_blocks_past_its_timeout_is_settled_without_the_loop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.pulse.BLOCKED_SECONDS", 0.1)
    unblock = threading.Event()
    seen: list[State] = []

    async def block() -> None:
        unblock.wait()

    job_id = await world.submit(world.handle(block), timeouts=Timeouts(execution=0.1), retry=Retry(max_attempts=1))
    watcher = threading.Thread(target=_wait_for_end, args=(world.url, job_id, seen, unblock))
    watcher.start()
    async with world.worker():
        job = await world.until(job_id)
    watcher.join()
    assert seen == [State.DEAD_LETTER]
    assert job.failure is not None
    assert job.failure.category is Category.TIMEOUT


def _wait_for_end(url: str, job_id: UUID, seen: list[State], unblock: threading.Event) -> None:
    async def wait() -> None:
        from holdfast.wiring import create_store

        store = create_store(url)
        await store.open()
        try:
            while True:
                (job,) = await store.read([job_id])
                if job is not None and job.state is State.DEAD_LETTER:
                    seen.append(job.state)
                    return
                await asyncio.sleep(0.02)
        finally:
            await store.close()

    try:
        asyncio.run(asyncio.wait_for(wait(), 30))
    finally:
        unblock.set()


async def test_heartbeats_never_hand_back_what_was_just_claimed(world: World) -> None:
    """Heartbeats and claims as fast as they go: every job runs exactly once."""
    runs: list[UUID] = []

    async def note(ctx: Context) -> None:
        runs.append(ctx.job_id)

    world.handle(note)
    jobs = [NewJob(id=uuid4(), type="note", retry=SOON) for _ in range(1000)]
    await world.submit_all(jobs)
    async with world.worker(heartbeat_seconds=0.001, concurrency=3):
        counts = await world.until_all_ended()
    assert counts == {State.COMPLETED: 1000}
    assert len(runs) == 1000


@on("sqlite")
@pytest.mark.parametrize("_round", range(3))
async def test_a_heartbeat_that_was_given_up_does_not_hand_back_what_was_claimed_since(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, _round: int
) -> None:
    """Another process holds the file for so long that a heartbeat is given up. The claim after it, and what is left of
    the heartbeat, then wait for the file together, and either may get it first."""
    monkeypatch.setattr(SQLiteStore, "standstill", None)  # with that, it would not be given up
    runs: list[UUID] = []
    go_on = asyncio.Event()

    async def work(ctx: Context) -> None:
        runs.append(ctx.attempt_id)
        await go_on.wait()

    world.handle(work)
    listening, claiming = Gate(), asyncio.Event()

    async def note_claim() -> None:
        claiming.set()

    store = Awkward(world.store, claim=note_claim)
    async with world.worker(
        store=store,
        delivery=GatedDelivery(store, listening),
        tick=Tick(worker_timeout_seconds=8.0),
        poll_seconds=0.05,
        grace_seconds=0.0,
    ) as worker:
        await eventually(claiming.is_set)
        await two_heartbeats(world, worker.id)
        listening.shut()
        await listening.met.wait()
        job_id = await world.submit("work")
        with closing(sqlite3.connect(world.url.removeprefix("sqlite:///"), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            caplog.clear()
            await eventually(lambda: "heartbeat: trying again: no answer" in caplog.messages)
            claiming.clear()
            listening.open()
            await claiming.wait()
            await eventually(store_of(world)._require_open().writer._serving.locked)  # it waits for the file
            other.execute("COMMIT")
        await eventually(lambda: bool(runs))
        await two_heartbeats(world, worker.id)
        job = await world.job(job_id)
        assert (job.lease and job.lease.token, len(runs)) == (runs[0], 1)
        go_on.set()


class GatedDelivery(PollDelivery):
    def __init__(self, store: Store, gate: Gate) -> None:
        super().__init__(store)
        self._gate = gate

    async def receive(self, *room: Any, **options: Any) -> Sequence[Hint]:
        await self._gate()
        return await super().receive(*room, **options)


def store_of(world: World) -> SQLiteStore:
    assert isinstance(world.store, SQLiteStore)
    return world.store


async def two_heartbeats(world: World, worker_id: UUID) -> None:
    seen: set[object] = set()
    async with asyncio.timeout(60):
        while len(seen) < 3:
            seen.update(one.seen_at for one in await world.store.read_workers() if one.id == worker_id)
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_running_job_is_cancelled(world: World, is_async: bool) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def work(ctx: Context) -> None:
        started.set()
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.set()

    def thread_work(ctx: Context) -> None:
        loop.call_soon_threadsafe(started.set)
        while not ctx.cancelled:
            pass
        loop.call_soon_threadsafe(stopped.set)

    job_id = await world.submit(world.handle(work if is_async else thread_work))
    async with world.worker():
        await started.wait()
        await world.store.cancel([job_id])
        job = await world.until(job_id)
        await stopped.wait()
    assert job.state is State.CANCELLED


async def test_an_ack_that_comes_before_the_cancel_is_seen_wins(world: World) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        started.set()
        await go_on.wait()
        return "done"

    job_id = await world.submit(world.handle(work))
    async with world.worker(heartbeat_seconds=3600.0):
        await started.wait()
        await world.store.cancel([job_id])
        go_on.set()
        job = await world.until(job_id)
    assert (job.state, job.result) == (State.COMPLETED, b'"done"')


async def test_a_lifetime_that_ends_while_running_tells_the_handler(world: World) -> None:
    began, told = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.sleep(3600)
        finally:
            told.set()

    work_type = world.handle(work)
    lifetime = 0.3
    async with world.worker():
        job = await world.until(await world.submit(work_type, timeouts=Timeouts(lifetime=lifetime)))
        while not began.is_set():
            # On a busy machine a short life may be over before it has begun.
            lifetime *= 3
            job = await world.until(await world.submit(work_type, timeouts=Timeouts(lifetime=lifetime)))
        await told.wait()
    assert job.state is State.DEAD_LETTER
    assert job.failure is not None
    assert job.failure.category is Category.TIMEOUT


async def test_a_dead_workers_job_is_run_by_another(world: World) -> None:
    async def work(ctx: Context) -> int:
        return ctx.attempt

    job_id = await world.submit(world.handle(work))
    dead = uuid4()
    await world.store.register(dead, name="dead")
    (claimed,) = await world.store.claim(Claim(owner=dead, queues=("default",), limit=1, nonce=uuid4()))
    async with world.worker(tick=Tick(worker_timeout_seconds=0.5)):
        job = await world.until(job_id)
    assert (job.state, job.result) == (State.COMPLETED, b"2")
    (attempt,) = await world.store.read_attempts(job_id)
    assert (attempt.id, attempt.failure.category) == (claimed.lease.token, Category.SYSTEM)


async def test_a_worker_that_was_given_up_for_lost_registers_again_and_goes_on(world: World) -> None:
    runs: list[int] = []
    first_started, first_told = asyncio.Event(), asyncio.Event()

    async def work(ctx: Context) -> None:
        runs.append(ctx.attempt)
        if ctx.attempt == 1:
            first_started.set()
            try:
                await asyncio.sleep(3600)
            finally:
                first_told.set()

    job_id = await world.submit(world.handle(work))
    async with world.worker(tick=None, heartbeat_seconds=0.3):
        await first_started.wait()
        await eventually_lost(world)
        await first_told.wait()
        job = await world.until(job_id)
    assert (job.state, runs) == (State.COMPLETED, [1, 2])


async def eventually_lost(world: World) -> None:
    """Somebody else ticks with so short a timeout that the worker must be given up between two heartbeats."""
    async with asyncio.timeout(60):
        while not (await world.store.tick(Tick(worker_timeout_seconds=0.05))).reclaimed:
            await asyncio.sleep(0.01)


async def test_a_coroutine_that_ignores_its_cancellation_is_settled_without_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.executor.STUBBORN_SECONDS", 0.05)
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    job_id = await world.submit(world.handle(stubborn), timeouts=Timeouts(execution=0.05), retry=Retry(max_attempts=1))
    async with world.worker():
        job = await world.until(job_id)
        release.set()
    assert job.failure is not None
    assert job.failure.category is Category.TIMEOUT


async def test_a_thread_that_timed_out_holds_its_slot_until_it_returns(world: World) -> None:
    release = threading.Event()

    def deaf() -> None:
        release.wait()

    async def next_one() -> None: ...

    first = await world.submit(world.handle(deaf), timeouts=Timeouts(execution=0.05), retry=Retry(max_attempts=1))
    async with world.worker(concurrency=3) as worker:
        assert (await world.until(first)).state is State.DEAD_LETTER
        await eventually(lambda: len(slots_of(worker).executor.stuck()) == 1)
        second = await world.submit(world.handle(next_one))
        await world.until(second)
        assert len(slots_of(worker).executor.running) == 1
        release.set()
        await eventually(lambda: not slots_of(worker).executor.running)


async def test_a_worker_whose_slots_are_stuck_stops_and_names_the_handlers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.worker.LOOK_SECONDS", 0.02)
    release = threading.Event()

    def deaf() -> None:
        release.wait()

    job_id = await world.submit(world.handle(deaf), timeouts=Timeouts(execution=0.05), retry=Retry(max_attempts=1))
    worker = world.new_worker(concurrency=2, grace_seconds=0.2)
    try:
        with pytest.raises(WorkerStuck, match="deaf"):
            await worker.run()
    finally:
        release.set()
    assert (await world.job(job_id)).state is State.DEAD_LETTER


async def test_a_lease_is_extended_as_long_as_its_handler_runs(world: World) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        started.set()
        await go_on.wait()

    job_id = await world.submit(world.handle(work), timeouts=Timeouts(visibility=0.6))
    async with world.worker(heartbeat_seconds=0.05):
        await started.wait()
        first = await world.job(job_id)
        assert first.lease is not None
        async with asyncio.timeout(60):
            while True:
                job = await world.job(job_id)
                assert job.lease is not None
                assert job.lease.token == first.lease.token
                if job.lease.expires_at > first.lease.expires_at + timedelta(seconds=1.2):
                    break
                await asyncio.sleep(0.02)
        go_on.set()
        assert (await world.until(job_id)).attempt == 1


async def test_threads_that_were_ended_have_the_grace_time_to_return(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All slots are held by them for a while; they return, and the worker goes on."""
    monkeypatch.setattr("holdfast.worker.worker.LOOK_SECONDS", 0.02)
    release = threading.Event()

    def slow() -> None:
        release.wait()

    async def quick() -> None:
        return None

    world.handle(slow), world.handle(quick)
    jobs = [
        await world.submit("slow", timeouts=Timeouts(execution=0.05), retry=Retry(max_attempts=1)) for _ in range(2)
    ]
    async with world.worker(concurrency=2, grace_seconds=30.0) as worker:
        try:
            for job_id in jobs:
                await world.until(job_id)
            assert len(slots_of(worker).executor.stuck()) == 2
            await asyncio.sleep(0.2)  # ten looks
        finally:
            release.set()
        assert (await world.until(await world.submit("quick"))).state is State.COMPLETED


async def test_a_worker_that_stood_still_gives_ended_threads_their_chance_to_return(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after SIGSTOP and SIGCONT: the grace time is over, and nobody could use it."""
    monkeypatch.setattr("holdfast.worker.worker.LOOK_SECONDS", 0.5)
    release = threading.Event()

    def slow() -> None:
        release.wait()

    async def quick() -> None:
        return None

    world.handle(slow), world.handle(quick)
    for _ in range(2):
        await world.submit("slow", timeouts=Timeouts(execution=0.05), retry=Retry(max_attempts=1))
    async with world.worker(concurrency=2, grace_seconds=0.3) as worker:
        await eventually(lambda: len(slots_of(worker).executor.stuck()) == 2)
        time.sleep(1.0)  # noqa: ASYNC251 - the whole process stands still, and longer than until the next look
        release.set()
        assert (await world.until(await world.submit("quick"))).state is State.COMPLETED
