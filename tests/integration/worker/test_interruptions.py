"""What comes at an awkward moment: before the first step, after the last, while starting, while stopping."""

import asyncio
import contextvars
from datetime import date
from typing import Any
from uuid import UUID, uuid4

import pytest

from holdfast.core.commands import Claim, NewJob, Outcome, Tick
from holdfast.core.errors import Unavailable, UsageError
from holdfast.core.failures import Category
from holdfast.core.job import AttemptLog, LogKey, Timeouts
from holdfast.core.ports import Store
from holdfast.core.retry import Retry, Strategy
from holdfast.core.states import State
from holdfast.worker.context import Context
from holdfast.worker.middleware import Execute, Execution, Middleware
from holdfast.worker.running import Ending
from tests.integration.worker.awkward import Awkward, raising
from tests.integration.worker.conftest import on
from tests.integration.worker.world import SOON, World, eventually, slots_of

TENANT: contextvars.ContextVar[str | None] = contextvars.ContextVar("tenant", default=None)


class SlowLogs:
    """Takes its time with each log."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def write(self, entry: LogKey, data: bytes) -> None:
        self.asked.set()
        if self.error is not None:
            raise self.error
        await self.go_on.wait()

    async def read(self, job_id: UUID, *, created_at: Any) -> list[AttemptLog]:
        return []

    async def remove_before(self, day: date) -> int:
        return 0


# an attempt


async def test_context_variables_do_not_leak_from_job_to_job(world: World) -> None:
    seen: list[str | None] = []

    async def work(tenant: str) -> None:
        seen.append(TENANT.get())
        TENANT.set(tenant)

    world.handle(work)
    for number in range(5):
        await world.submit("work", {"tenant": f"tenant-{number}"})
    async with world.worker(concurrency=1):
        await world.until_all_ended()
    assert seen == [None] * 5


async def test_an_attempt_that_is_ended_before_its_first_step_is_settled(world: World) -> None:
    async def work() -> None:
        raise AssertionError("must not run")

    world.handle(work)
    async with world.worker(concurrency=1) as worker:
        executor = slots_of(worker).executor
        start = executor.start

        def start_and_end(job: Any, handler: Any) -> None:
            start(job, handler)
            executor.end(executor.running[job.lease.token], Ending.TIMEOUT)

        executor.start = start_and_end  # type: ignore[method-assign]
        job = await world.until(await world.submit("work", retry=Retry(max_attempts=1)))
        assert job.failure is not None
        assert job.failure.category is Category.TIMEOUT
        assert not executor.running


async def test_a_job_that_is_done_is_not_ended_while_its_log_is_written(world: World) -> None:
    logs = world.logs = SlowLogs()

    async def speak() -> str:
        print("words")  # noqa: T201
        return "done"

    job_id = await world.submit(world.handle(speak))
    async with world.worker():
        await logs.asked.wait()
        await world.store.cancel([job_id])
        await asyncio.sleep(0.3)  # several heartbeats
        logs.go_on.set()
        job = await world.until(job_id)
    assert (job.state, job.result) == (State.COMPLETED, b'"done"')


async def test_a_log_store_that_fails_in_any_way_fails_no_job(world: World) -> None:
    world.logs = SlowLogs(error=RuntimeError("a bug in the log store"))

    async def speak() -> None:
        print("words")  # noqa: T201

    job_id = await world.submit(world.handle(speak))
    async with world.worker(concurrency=1):
        assert (await world.until(job_id)).state is State.COMPLETED
        assert (await world.until(await world.submit("speak"))).state is State.COMPLETED


async def test_middleware_that_answers_nothing_fails_its_own_job_only(world: World) -> None:
    class Forgetful(Middleware):
        async def execute(self, execution: Execution, proceed: Execute) -> Outcome:
            outcome = await proceed()
            return None if execution.context.type == "bad" else outcome  # type: ignore[return-value]

    world.middleware = [Forgetful()]

    async def bad() -> None: ...

    async def good() -> None: ...

    world.handle(bad), world.handle(good)
    jobs = [NewJob(id=uuid4(), type=name, retry=SOON) for name in ("good", "bad", "good")]
    await world.submit_all(jobs)
    async with world.worker():
        states = [(await world.until(job.id)).state for job in jobs]
        failed = await world.job(jobs[1].id)
    assert states == [State.COMPLETED, State.FAILED, State.COMPLETED]
    assert failed.failure is not None
    assert "return await proceed()" in failed.failure.message


async def test_words_that_no_database_takes_do_not_fail_a_job(world: World) -> None:
    async def work(ctx: Context) -> None:
        ctx.progress(50, "file \udcff\0name")

    job_id = await world.submit(world.handle(work))
    async with world.worker():
        job = await world.until(job_id)
    assert job.state is State.COMPLETED
    assert job.progress is not None
    assert job.progress.message.startswith("file ")


async def test_a_coroutine_that_swallows_the_shutdown_is_not_done(world: World) -> None:
    started = asyncio.Event()

    async def half() -> str:
        started.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "half"
        return "whole"

    job_id = await world.submit(world.handle(half))
    async with world.worker(grace_seconds=0.0):
        await started.wait()
    job = await world.job(job_id)
    assert (job.state, job.attempt) == (State.SCHEDULED, 0)


async def test_a_short_timeout_is_kept_beside_a_long_one(world: World) -> None:
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.sleep(3600)

    world.handle(work)
    await world.submit("work", timeouts=Timeouts(execution=3600))
    async with world.worker(grace_seconds=0.0):
        await started.wait()
        short = await world.submit("work", timeouts=Timeouts(execution=0.05), retry=Retry(max_attempts=1))
        assert (await world.until(short)).state is State.DEAD_LETTER


async def test_a_delay_of_the_users_own_is_asked_for(world: World) -> None:
    async def fail() -> None:
        raise ConnectionError

    world.handle(fail, custom_delay=lambda attempt, initial, longest: 1234.0)
    job_id = await world.submit("fail", retry=Retry(strategy=Strategy.CUSTOM, jitter="none"))
    async with world.worker():
        job = await world.until(job_id, State.RETRYING)
    assert job.due_at is not None
    assert (job.due_at - job.updated_at).total_seconds() == pytest.approx(1234.0, abs=0.01)


# what waits for a slot


async def test_a_job_cancelled_while_it_waits_for_a_slot_is_not_started(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.slots.HOARD_SECONDS", 3600.0)
    started, go_on = asyncio.Event(), asyncio.Event()
    ran: list[UUID] = []

    async def short(ctx: Context) -> None:
        ran.append(ctx.job_id)

    async def long() -> None:
        started.set()
        await go_on.wait()

    world.handle(short), world.handle(long)
    shorts = [NewJob(id=uuid4(), type="short", retry=SOON) for _ in range(300)]
    behind = [NewJob(id=uuid4(), type="short", retry=SOON) for _ in range(300)]
    await world.submit_all([*shorts, NewJob(id=uuid4(), type="long", retry=SOON), *behind])
    async with world.worker(concurrency=1) as worker:
        await started.wait()
        await eventually(lambda: bool(slots_of(worker).fetcher.ready))
        waiting = [job.id for job in slots_of(worker).fetcher.ready]
        await world.store.cancel(waiting)
        for job_id in waiting:
            assert (await world.until(job_id)).state is State.CANCELLED
        go_on.set()
        await world.until_all_ended()
    assert not set(ran) & set(waiting)


async def test_jobs_that_were_reclaimed_do_not_wait_for_the_poll(world: World) -> None:
    """Each of them comes alone: a short answer is not the end of the queue."""

    async def work() -> None: ...

    world.handle(work)
    await world.submit_all([NewJob(id=uuid4(), type="work", retry=SOON) for _ in range(10)])
    dead = uuid4()
    await world.store.register(dead, name="dead")
    assert len(await world.store.claim(Claim(owner=dead, queues=("default",), limit=10, nonce=uuid4()))) == 10
    async with world.worker(tick=Tick(worker_timeout_seconds=0.3), poll_seconds=3600.0):
        assert await world.until_all_ended() == {State.COMPLETED: 10}


async def test_a_stranger_leaves_its_place_in_a_limited_queue(world: World) -> None:
    async def known() -> None: ...

    world.handle(known)
    await world.submit("stranger")
    async with world.worker(limits={"default": 1}, poll_seconds=3600.0):
        assert (await world.until(await world.submit("known"))).state is State.COMPLETED


# the worker


async def test_no_lease_is_held_when_all_is_settled(world: World) -> None:
    async def work() -> None: ...

    world.handle(work)
    async with world.worker() as worker:
        await world.until(await world.submit("work"))
        await eventually(lambda: not len(worker._leases))


async def test_a_worker_stopped_while_it_starts_stops(world: World) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        asked.set()
        await go_on.wait()

    worker = world.new_worker(store=Awkward(world.store, register=wait))
    running = asyncio.create_task(worker.run())
    await asked.wait()
    worker.stop()
    go_on.set()
    await asyncio.wait_for(running, 30)


async def test_a_worker_stopped_before_it_starts_never_does(world: World) -> None:
    worker = world.new_worker()
    worker.stop()
    await asyncio.wait_for(worker.wait_stopped(), 30)
    with pytest.raises(UsageError, match="make a new one"):
        await worker.start()


async def test_cancelling_run_stops_the_worker(world: World) -> None:
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.sleep(3600)

    job_id = await world.submit(world.handle(work))
    worker = world.new_worker(grace_seconds=0.0)
    running = asyncio.create_task(worker.run())
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    job = await world.job(job_id)
    assert (job.state, job.attempt) == (State.SCHEDULED, 0)
    assert [one for one in await world.store.read_workers() if not one.is_lost] == []


async def test_a_step_of_the_end_that_fails_does_not_keep_it(world: World) -> None:
    worker = world.new_worker(store=Awkward(world.store, leave=raising(RuntimeError("a bug"))))
    await worker.start()
    worker.stop()
    await asyncio.wait_for(worker.wait_stopped(), 30)


async def test_a_worker_that_cannot_register_says_so_and_leaves_nothing(world: World) -> None:
    worker = world.new_worker(store=Awkward(world.store, register=raising(Unavailable("away"))))
    with pytest.raises(Unavailable, match="away"):
        await worker.run()
    await asyncio.wait_for(worker.wait_stopped(), 30)


async def test_claims_that_cannot_go_on_end_the_worker_with_the_reason(world: World) -> None:
    worker = world.new_worker(store=Awkward(world.store, claim=raising(TypeError("a bug"))))
    with pytest.raises(Unavailable, match="a bug"):
        async with worker:
            await asyncio.wait_for(worker.wait_stopped(), 30)


@on("sqlite", "postgres")
async def test_a_worker_without_a_heartbeat_holds_its_leases_for_lost(world: World) -> None:
    """PULSE-2, and the heartbeat's store cannot even be opened."""
    told = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            told.set()

    from holdfast.wiring import create_store

    def without_answer() -> Store:
        return Awkward(create_store(world.url), open=raising(OSError("no address")))

    await world.submit(world.handle(work))
    tick = Tick(worker_timeout_seconds=0.3)
    async with world.worker(create_pulse_store=without_answer, tick=tick, grace_seconds=0.0):
        await asyncio.wait_for(told.wait(), 60)
