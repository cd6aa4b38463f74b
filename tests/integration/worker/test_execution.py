"""What a handler does, and what becomes of its job."""

import asyncio
import gc
import sqlite3
import sys
from contextlib import closing
from typing import Any

import pytest

from holdfast.core.commands import HandedBack, Outcome
from holdfast.core.dependencies import Dependency, DependencyKind
from holdfast.core.failures import Category, PermanentError, TemporaryError
from holdfast.core.job import Timeouts
from holdfast.core.retry import Jitter, Retry, Strategy
from holdfast.core.states import State
from holdfast.worker.context import Context
from holdfast.worker.middleware import Execute, Execution, Middleware
from holdfast.worker.running import Running
from tests.integration.worker.conftest import on
from tests.integration.worker.world import PATIENCE_SECONDS, SOON, World


async def test_a_result_is_kept(world: World) -> None:
    async def double(number: int) -> dict[str, int]:
        return {"twice": 2 * number}

    world.handle(double)
    job_id = await world.submit("double", {"number": 21})
    async with world.worker():
        job = await world.until(job_id)
    assert (job.state, job.result, job.attempt) == (State.COMPLETED, b'{"twice":42}', 1)


async def test_a_plain_function_runs_in_a_thread(world: World) -> None:
    import threading

    def where() -> str:
        return threading.current_thread().name

    world.handle(where)
    job_id = await world.submit("where")
    async with world.worker():
        job = await world.until(job_id)
    assert job.result is not None
    assert b"holdfast-handler" in job.result


async def test_an_attempt_that_has_ended_is_forgotten_without_the_cycle_collector(world: World) -> None:
    async def on_loop() -> None:
        await asyncio.sleep(0)

    def in_thread() -> None:
        pass

    names = [world.handle(on_loop), world.handle(in_thread)]
    gc.collect()
    gc.disable()
    try:
        async with world.worker():
            for job_id in [await world.submit(name) for name in names * 10]:
                await world.until(job_id)
        assert [one for one in gc.get_objects() if type(one) is Running] == []
    finally:
        gc.enable()


async def test_an_unknown_error_is_retried_until_the_attempts_are_spent(world: World) -> None:
    async def fail() -> None:
        raise KeyError("missing")

    world.handle(fail)
    job_id = await world.submit("fail")
    async with world.worker():
        job = await world.until(job_id)
    assert (job.state, job.attempt) == (State.DEAD_LETTER, 3)
    assert job.failure is not None
    assert (job.failure.category, job.failure.error_type) == (Category.TEMPORARY, "KeyError")
    assert "raise KeyError" in job.failure.trace
    attempts = await world.store.read_attempts(job_id)
    assert [one.number for one in attempts] == [1, 2, 3]
    assert [one.previous_id for one in attempts] == [None, attempts[0].id, attempts[1].id]


async def test_a_job_succeeds_on_a_later_attempt(world: World) -> None:
    seen: list[tuple[int, Any]] = []

    async def second_time(ctx: Context) -> str:
        seen.append((ctx.attempt, ctx.previous_attempt_id))
        if ctx.attempt == 1:
            raise ConnectionError("not yet")
        return "done"

    world.handle(second_time)
    job_id = await world.submit("second_time")
    async with world.worker():
        job = await world.until(job_id)
    assert (job.state, job.attempt) == (State.COMPLETED, 2)
    (first,) = await world.store.read_attempts(job_id)
    assert seen == [(1, None), (2, first.id)]


async def test_a_permanent_error_is_not_retried(world: World) -> None:
    async def refuse() -> None:
        raise PermanentError("no such account", code="no_account")

    world.handle(refuse)
    job_id = await world.submit("refuse")
    async with world.worker():
        job = await world.until(job_id)
    assert (job.state, job.attempt) == (State.FAILED, 1)
    assert job.failure is not None
    assert (job.failure.message, job.failure.code) == ("no such account", "no_account")


async def test_what_a_handler_names_as_permanent_is_not_retried(world: World) -> None:
    async def refuse() -> None:
        raise ValueError("never good")

    world.handle(refuse, permanent=(ValueError,))
    job_id = await world.submit("refuse")
    async with world.worker():
        job = await world.until(job_id)
    assert (job.state, job.attempt) == (State.FAILED, 1)


async def test_retry_after_overrides_the_backoff(world: World) -> None:
    async def later() -> None:
        raise TemporaryError("busy", retry_after=3600)

    world.handle(later)
    job_id = await world.submit("later", retry=Retry(initial_delay=0.0))
    async with world.worker():
        job = await world.until(job_id, State.RETRYING)
    assert job.due_at is not None
    assert 3590 < (job.due_at - job.updated_at).total_seconds() <= 3600


async def test_a_custom_delay_that_fails_falls_back(world: World) -> None:
    def broken(attempt: int, initial: float, longest: float) -> float:
        raise RuntimeError("no delay today")

    async def fail() -> None:
        raise ConnectionError

    world.handle(fail, custom_delay=broken)
    retry = Retry(strategy=Strategy.CUSTOM, initial_delay=0.0, jitter=Jitter.NONE)
    job_id = await world.submit("fail", retry=retry)
    async with world.worker():
        assert (await world.until(job_id)).state is State.DEAD_LETTER


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_handler_that_outlives_its_timeout_fails_as_timeout(world: World, is_async: bool) -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def slow(ctx: Context) -> None:
        await asyncio.sleep(3600)

    def slow_thread(ctx: Context) -> None:
        while not ctx.cancelled:
            pass
        loop.call_soon_threadsafe(told.set)

    name = world.handle(slow if is_async else slow_thread)
    job_id = await world.submit(name, timeouts=Timeouts(execution=0.05), retry=Retry(max_attempts=1))
    async with world.worker():
        job = await world.until(job_id)
        if not is_async:
            await told.wait()
    assert job.state is State.DEAD_LETTER
    assert job.failure is not None
    assert job.failure.category is Category.TIMEOUT
    assert "0.05 s" in job.failure.message


async def test_the_handlers_own_limit_is_the_shorter_one(world: World) -> None:
    async def slow() -> None:
        await asyncio.sleep(3600)

    world.handle(slow, execution_seconds=0.05)
    job_id = await world.submit("slow", retry=Retry(max_attempts=1))
    async with world.worker():
        job = await world.until(job_id)
    assert job.failure is not None
    assert job.failure.category is Category.TIMEOUT


async def test_a_payload_that_does_not_fit_names_the_field_and_is_permanent(world: World) -> None:
    async def double(number: int) -> int:
        raise AssertionError("must not run")

    world.handle(double)
    job_id = await world.submit("double", {"number": "many"})
    async with world.worker():
        job = await world.until(job_id)
    assert (job.state, job.attempt) == (State.FAILED, 1)
    assert job.failure is not None
    assert "number" in job.failure.message
    assert job.failure.code == "payload_mismatch"


async def test_a_result_that_json_cannot_carry_is_permanent(world: World) -> None:
    async def odd() -> Any:
        return object()

    world.handle(odd)
    job_id = await world.submit("odd")
    async with world.worker():
        job = await world.until(job_id)
    assert job.state is State.FAILED
    assert job.failure is not None
    assert job.failure.code == "result_not_json"


async def test_a_result_too_large_is_permanent_and_names_the_limit(world: World) -> None:
    async def large() -> str:
        return "x" * 1000

    world.handle(large, result_limit_bytes=100)
    job_id = await world.submit("large")
    async with world.worker():
        job = await world.until(job_id)
    assert job.state is State.FAILED
    assert job.failure is not None
    assert (job.failure.code, "100" in job.failure.message) == ("result_too_large", True)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    def __reduce__(self) -> Any:
        raise TypeError("not to be pickled")


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), Unspeakable(), StopIteration(), GeneratorExit()],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_a_handler_raises_fails_only_its_job(world: World, error: BaseException, is_async: bool) -> None:
    async def bad() -> None:
        raise error

    def bad_thread() -> None:
        raise error

    async def good() -> str:
        return "fine"

    bad_id = await world.submit(world.handle(bad if is_async else bad_thread))
    good_id = await world.submit(world.handle(good))
    async with world.worker():
        job = await world.until(bad_id)
        assert (await world.until(good_id)).state is State.COMPLETED
    assert job.state is State.DEAD_LETTER
    assert job.failure is not None
    assert type(error).__name__ in job.failure.error_type or "StopIteration" in job.failure.message


async def test_a_handler_may_close_its_standard_streams(world: World) -> None:
    def close() -> None:
        sys.stdout.close()
        sys.stderr.close()

    async def speak() -> None:
        print("still here")  # noqa: T201

    first = await world.submit(world.handle(close))
    async with world.worker():
        await world.until(first)
        second = await world.submit(world.handle(speak))
        assert (await world.until(second)).state is State.COMPLETED


async def test_progress_is_part_of_the_job_while_it_runs_and_after(world: World) -> None:
    go_on = asyncio.Event()

    async def half(ctx: Context) -> None:
        ctx.progress(50, "half way")
        await go_on.wait()
        ctx.progress(100, "all")

    job_id = await world.submit(world.handle(half))
    async with world.worker():
        while (await world.job(job_id)).progress is None:
            await asyncio.sleep(0.01)
        job = await world.job(job_id)
        assert job.progress is not None
        assert (job.state, job.progress.percent, job.progress.message) == (State.RUNNING, 50, "half way")
        go_on.set()
        job = await world.until(job_id)
    assert job.progress is not None
    assert (job.progress.percent, job.progress.message) == (100, "all")


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_checkpoint_is_given_back_to_the_next_attempt(world: World, is_async: bool) -> None:
    seen: list[Any] = []

    async def on_loop(ctx: Context) -> None:
        seen.append(ctx.last_checkpoint)
        if ctx.attempt == 1:
            await ctx.checkpoint({"row": 7})
            raise ConnectionError

    def in_thread(ctx: Context) -> None:
        seen.append(ctx.last_checkpoint)
        if ctx.attempt == 1:
            ctx.checkpoint_sync({"row": 7})
            raise ConnectionError

    job_id = await world.submit(world.handle(on_loop if is_async else in_thread))
    async with world.worker():
        assert (await world.until(job_id)).state is State.COMPLETED
    assert seen == [None, {"row": 7}]


async def test_a_dependent_reads_what_it_waited_for(world: World) -> None:
    async def number() -> int:
        return 20

    async def add(ctx: Context) -> int:
        return int(sum(ctx.results)) + 2

    first = await world.submit(world.handle(number))
    second = await world.submit(world.handle(add), dependencies=(Dependency(job_id=first, kind=DependencyKind.CHAIN),))
    async with world.worker():
        assert (await world.until(second)).result == b"22"


async def test_children_are_spawned_with_their_parents_success_only(world: World) -> None:
    async def child() -> None: ...

    async def parent(ctx: Context, fails: bool) -> None:
        ctx.spawn(_Call(child_job()))
        if fails and ctx.attempt == 1:
            raise ConnectionError

    def child_job() -> Any:
        from uuid import uuid4

        from holdfast.core.commands import NewJob

        return NewJob(id=uuid4(), type="child", retry=SOON)

    world.handle(child)
    await world.submit(world.handle(parent), {"fails": True})
    async with world.worker():
        counts = await world.until_all_ended()
    assert counts == {State.COMPLETED: 2}


class _Call:
    def __init__(self, job: Any) -> None:
        self._job = job

    def new_job(self) -> Any:
        return self._job


async def test_children_that_the_store_refuses_fail_their_parent_with_the_reason(world: World) -> None:
    async def parent(ctx: Context) -> None:
        from uuid import uuid4

        from holdfast.core.commands import NewJob

        ctx.spawn(_Call(NewJob(id=uuid4(), type="child", delay_seconds=-1)))

    job_id = await world.submit(world.handle(parent))
    async with world.worker():
        job = await world.until(job_id)
    assert job.state is State.FAILED
    assert job.failure is not None
    assert "delay" in job.failure.message


async def test_a_type_nobody_knows_waits_and_spends_no_attempt(world: World) -> None:
    async def known() -> None: ...

    unknown = await world.submit("nobody")
    world.handle(known)
    async with world.worker():
        await world.until(await world.submit("known"))
        job = await world.job(unknown)
    assert (job.state, job.attempt) == (State.SCHEDULED, 0), "it is not even claimed"


@on("sqlite")
async def test_a_job_that_cannot_be_started_goes_back_and_holds_up_nobody(world: World) -> None:
    async def known() -> None: ...

    newer = await world.submit(world.handle(known), timeouts=Timeouts(execution=7.0))
    with closing(sqlite3.connect(world.url.removeprefix("sqlite:///"), isolation_level=None)) as file:
        file.execute("UPDATE holdfast_job SET options = json_set(options, '$.new', 1) WHERE id = ?", [newer.bytes])
        async with world.worker(concurrency=1):
            after = await world.submit("known")
            assert (await world.until(after)).state is State.COMPLETED
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not (found := file.execute("SELECT attempt, version FROM holdfast_waiting").fetchall()):
                    await asyncio.sleep(0.01)
        assert found == [(0, 1)]
        assert (await world.store.read([newer]))[0] is not None
        assert file.execute("SELECT count(*) FROM holdfast_running").fetchone() == (0,)


class Recorder(Middleware):
    def __init__(self, name: str, said: list[str]) -> None:
        self.name = name
        self.said = said

    async def execute(self, execution: Execution, proceed: Execute) -> Outcome:
        self.said.append(f"{self.name} before {execution.context.type}")
        outcome = await proceed()
        self.said.append(f"{self.name} after {type(outcome).__name__} {execution.error!r}")
        return outcome


@pytest.mark.parametrize("is_async", [True, False])
async def test_middleware_goes_around_every_attempt_in_order(world: World, is_async: bool) -> None:
    said: list[str] = []
    world.middleware = [Recorder("outer", said), Recorder("inner", said)]

    async def bad() -> None:
        raise ConnectionError("gone")

    def bad_thread() -> None:
        raise ConnectionError("gone")

    name = world.handle(bad if is_async else bad_thread)
    job_id = await world.submit(name, retry=Retry(max_attempts=1))
    async with world.worker():
        await world.until(job_id)
    error = "ConnectionError('gone')"
    assert said == [
        f"outer before {name}",
        f"inner before {name}",
        f"inner after Failed {error}",
        f"outer after Failed {error}",
    ]


async def test_middleware_that_fails_fails_the_attempt(world: World) -> None:
    class Broken(Middleware):
        async def execute(self, execution: Execution, proceed: Execute) -> Outcome:
            raise RuntimeError("middleware is broken")

    world.middleware = [Broken()]

    async def fine() -> None: ...

    job_id = await world.submit(world.handle(fine), retry=Retry(max_attempts=1))
    async with world.worker():
        job = await world.until(job_id)
    assert job.failure is not None
    assert job.failure.message == "middleware is broken"


async def test_middleware_may_hand_a_job_back(world: World) -> None:
    seen: list[int] = []

    class NotNow(Middleware):
        async def execute(self, execution: Execution, proceed: Execute) -> Outcome:
            seen.append(execution.context.attempt)
            return HandedBack(0.0) if len(seen) < 3 else await proceed()

    world.middleware = [NotNow()]

    async def fine() -> None: ...

    job_id = await world.submit(world.handle(fine))
    async with world.worker():
        job = await world.until(job_id)
    assert (job.state, job.attempt, seen) == (State.COMPLETED, 1, [1, 1, 1])
