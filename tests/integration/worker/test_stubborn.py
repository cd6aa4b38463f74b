"""Handlers that go on although their attempt has ended: what they say then changes nothing.

EXECUTOR-2, EXECUTOR-3, REPORTER-4.
"""

import asyncio
import threading
import time
from typing import Self
from uuid import uuid4

import pytest

from holdfast.core.commands import Claim, Outcome, Report
from holdfast.core.errors import StaleLease
from holdfast.core.failures import Category
from holdfast.core.job import ClaimedJob, Progress, Timeouts
from holdfast.core.retry import Retry
from holdfast.core.states import State
from holdfast.worker.context import Context
from holdfast.worker.middleware import Execute, Execution, Middleware
from holdfast.worker.running import Ending, Running
from holdfast.worker.worker import Worker
from tests.integration.worker.awkward import Awkward, Gate
from tests.integration.worker.test_leases import eventually_lost
from tests.integration.worker.world import PATIENCE_SECONDS, World, eventually, slots_of


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.worker.executor.STUBBORN_SECONDS", 0.05)
    monkeypatch.setattr("holdfast.worker.reporter.PROGRESS_SECONDS", 0.01)
    # One stuck handler of one slot would stop the worker; here it only keeps it from claiming the job again.
    monkeypatch.setattr("holdfast.worker.worker.LOOK_SECONDS", 3600.0)


class Deaf:
    """A handler that hears no cancellation. It speaks when told to, and a last time when it is released."""

    def __init__(self, world: World) -> None:
        self.started, self.done = asyncio.Event(), asyncio.Event()
        self.refusal: StaleLease | None = None
        self._told, self._is_released = asyncio.Event(), False

        async def deaf(ctx: Context) -> None:
            self.started.set()
            while not self._is_released:
                await self._deafly()
                ctx.progress(99, "too late")
            try:
                await ctx.checkpoint("too late")
            except StaleLease as error:
                self.refusal = error
            self.done.set()

        world.handle(deaf)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        # Also after a test that failed: nothing else ends it.
        self._is_released = True
        self._told.set()

    def speak(self) -> None:
        self._told.set()

    async def release(self) -> None:
        self._is_released = True
        self._told.set()
        await asyncio.wait_for(self.done.wait(), PATIENCE_SECONDS)

    async def _deafly(self) -> None:
        while not self._told.is_set():
            try:
                await self._told.wait()
            except asyncio.CancelledError:
                continue
        self._told.clear()


async def take_over(world: World) -> ClaimedJob:
    """Another worker claims the job, and says how far it is."""
    other = uuid4()
    await world.store.register(other, name="other")
    claim = Claim(owner=other, queues=("default",), limit=1, nonce=uuid4())
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (claimed := await world.store.claim(claim)):
            await asyncio.sleep(0.01)
    (job,) = claimed
    progress = Progress(percent=10, message="anew")
    assert await world.store.report([Report(lease=job.lease, progress=progress, checkpoint=b'"anew"')]) == [None]
    return job


async def require_untouched(world: World, taken: ClaimedJob) -> None:
    job = await world.job(taken.id)
    assert (job.state, job.lease and job.lease.token) == (State.RUNNING, taken.lease.token)
    assert (job.progress and job.progress.message, job.checkpoint) == ("anew", b'"anew"')


def only_one(worker: Worker) -> Running:
    (running,) = slots_of(worker).executor.running.values()
    return running


async def until_nothing_is_unsaid(worker: Worker) -> None:
    reporter = slots_of(worker).reporter
    await eventually(lambda: not reporter._is_awake and not reporter._tasks)


async def test_what_a_coroutine_says_after_its_timeout_changes_nothing(world: World) -> None:
    deaf = Deaf(world)
    job_id = await world.submit("deaf", timeouts=Timeouts(execution=0.05))
    async with world.worker(concurrency=1) as worker, deaf:
        taken = await take_over_when_settled(world, worker)
        assert (taken.id, taken.attempt) == (job_id, 2)
        await deaf.release()
        await until_nothing_is_unsaid(worker)
        await require_untouched(world, taken)
    assert deaf.refusal is not None


async def take_over_when_settled(world: World, worker: Worker) -> ClaimedJob:
    await eventually(lambda: len(slots_of(worker).executor.stuck()) == 1)
    return await take_over(world)


async def test_what_a_coroutine_says_after_its_lease_was_lost_changes_nothing(world: World) -> None:
    """Its progress is the first to hear of the loss; deaf as it is, its slot then counts as stuck."""
    deaf = Deaf(world)
    await world.submit("deaf")
    async with world.worker(concurrency=1, heartbeat_seconds=3600.0, tick=None, grace_seconds=0.0) as worker, deaf:
        await deaf.started.wait()
        await eventually_lost(world)
        taken = await take_over(world)
        running = only_one(worker)
        deaf.speak()
        await eventually(lambda: running.is_stuck)
        assert running.ending is Ending.STALE
        await deaf.release()
        await until_nothing_is_unsaid(worker)
        await require_untouched(world, taken)
    assert deaf.refusal is not None
    await require_untouched(world, taken)


async def test_an_attempt_that_has_ended_says_nothing_more_although_its_end_is_not_yet_written(world: World) -> None:
    """The store has not answered the settlement: for the store, the lease is as good as ever."""
    deaf = Deaf(world)
    gate = Gate(is_open=False)
    job_id = await world.submit("deaf", timeouts=Timeouts(execution=0.05), retry=Retry(max_attempts=1))
    async with world.worker(store=Awkward(world.store, settle=gate), concurrency=1) as worker, deaf:
        await gate.met.wait()
        await deaf.release()
        await until_nothing_is_unsaid(worker)
        job = await world.job(job_id)
        assert (job.state, job.checkpoint, job.progress) == (State.RUNNING, None, None)
        gate.open()
        job = await world.until(job_id)
    assert deaf.refusal is not None
    assert (job.state, job.checkpoint, job.progress) == (State.DEAD_LETTER, None, None)


async def test_what_a_thread_says_after_its_timeout_changes_nothing(world: World) -> None:
    release = threading.Event()
    refused: list[StaleLease] = []

    def deaf(ctx: Context) -> None:
        release.wait()
        ctx.progress(99, "too late")
        try:
            ctx.checkpoint_sync("too late")
        except StaleLease as error:
            refused.append(error)

    gate = Gate(is_open=False)
    world.handle(deaf)
    job_id = await world.submit("deaf", timeouts=Timeouts(execution=0.05), retry=Retry(max_attempts=1))
    async with world.worker(store=Awkward(world.store, settle=gate), concurrency=1) as worker:
        try:
            await gate.met.wait()
        finally:
            release.set()
        await eventually(lambda: not slots_of(worker).executor.running)
        await until_nothing_is_unsaid(worker)
        gate.open()
        job = await world.until(job_id)
    assert len(refused) == 1
    assert (job.state, job.checkpoint, job.progress) == (State.DEAD_LETTER, None, None)


async def test_a_thread_that_returns_just_when_it_is_ended_frees_its_slot(world: World) -> None:
    begun, release, returned = threading.Event(), threading.Event(), threading.Event()

    def handler() -> None:
        begun.set()
        release.wait()
        returned.set()

    world.handle(handler)
    job_id = await world.submit("handler", retry=Retry(max_attempts=1))
    async with world.worker(concurrency=1) as worker:
        await asyncio.to_thread(begun.wait)
        executor = slots_of(worker).executor
        (running,) = executor.running.values()
        release.set()
        # The loop has not been told yet that the thread is done.
        returned.wait()
        time.sleep(0.05)  # noqa: ASYNC251 - it must not be
        executor.end(running, Ending.TIMEOUT)
        await world.until(job_id)
        await eventually(lambda: not executor.running)


async def test_a_thread_that_waits_for_a_checkpoint_is_let_go_when_its_attempt_is_over(world: World) -> None:
    refused: list[StaleLease] = []

    def waits(ctx: Context) -> None:
        try:
            ctx.checkpoint_sync("nobody answers")
        except StaleLease as error:
            refused.append(error)

    silence = Gate(is_open=False)
    world.handle(waits)
    job_id = await world.submit("waits", timeouts=Timeouts(execution=0.05), retry=Retry(max_attempts=1))
    async with world.worker(store=Awkward(world.store, report=silence), concurrency=1) as worker:
        await silence.met.wait()
        await eventually(lambda: not slots_of(worker).executor.running)
        silence.open()
        job = await world.until(job_id)
    assert len(refused) == 1
    assert (job.state, job.checkpoint) == (State.DEAD_LETTER, None)


# middleware around a thread


class Limit(Middleware):
    """A time limit of the user's own."""

    async def execute(self, execution: Execution, proceed: Execute) -> Outcome:
        async with asyncio.timeout(0.05):
            return await proceed()


async def test_a_thread_that_middleware_gave_up_holds_its_slot_until_it_returns(world: World) -> None:
    world.middleware = [Limit()]
    release = threading.Event()
    at_once: list[int] = []
    threads: set[int] = set()

    def deaf() -> None:
        threads.add(threading.get_ident())
        at_once.append(len(threads))
        release.wait()
        threads.discard(threading.get_ident())

    world.handle(deaf)
    first = await world.submit("deaf", retry=Retry(max_attempts=1))
    second = await world.submit("deaf", retry=Retry(max_attempts=1))
    async with world.worker(concurrency=1) as worker:
        try:
            assert (await world.until(first)).state is State.DEAD_LETTER
            assert (only_one(worker).job.id, only_one(worker).is_stuck) == (first, True)
            assert (await world.job(second)).state is State.SCHEDULED
        finally:
            release.set()
        await world.until(second)
        await eventually(lambda: not slots_of(worker).executor.running)
    assert at_once == [1, 1]


@pytest.mark.parametrize("is_before", [True, False])
async def test_the_time_of_middleware_counts_into_the_timeout_of_a_thread(world: World, is_before: bool) -> None:
    told = asyncio.Event()
    ran: list[str] = []

    class Slow(Middleware):
        async def execute(self, execution: Execution, proceed: Execute) -> Outcome:
            try:
                outcome = None if is_before else await proceed()
                await asyncio.sleep(3600)
            finally:
                told.set()
            return outcome or await proceed()

    world.middleware = [Slow()]

    def work() -> None:
        ran.append("work")

    world.handle(work)
    job_id = await world.submit(
        "work", timeouts=Timeouts(execution=0.2 if is_before else 1.0), retry=Retry(max_attempts=1)
    )
    async with world.worker(concurrency=1) as worker:
        job = await world.until(job_id)
        await told.wait()
        await eventually(lambda: not slots_of(worker).executor.running)
        assert not slots_of(worker).executor.stuck()
    assert job.failure is not None
    assert (job.state, job.failure.category) == (State.DEAD_LETTER, Category.TIMEOUT)
    assert ran == ([] if is_before else ["work"])
