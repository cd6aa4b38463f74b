"""Tests of programs that submit jobs: the app's own jobs, in memory, by a clock that the test moves.

::

    async with testing.run(app) as jobs:
        await signup("ann@example.org")
        jobs.assert_submitted_once(send_mail, to="ann@example.org")
        await jobs.drain()

The app's functions, options, middleware and periodic jobs are the real ones, and so are submit, claim, retries,
dependencies and settlement. Put aside are the app's database and its execution logs: nothing is written to them.

TESTAPP-1. Whatever happens in the test, the app is afterwards as it was: closed, and back on its own database.
TESTAPP-2. Two tests never see each other's jobs; one inside another is refused.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, TypeVar

from holdfast.app import Holdfast, JobHandle, WorkflowHandle
from holdfast.app.portal import require_no_loop, run_here
from holdfast.core import limits
from holdfast.core.errors import UsageError
from holdfast.core.job import Job
from holdfast.core.states import State
from holdfast.core.times import Seconds, seconds_of
from holdfast.testing.asserts import Submissions
from holdfast.testing.clock import ManualClock
from holdfast.testing.failed_jobs import require_none
from holdfast.testing.inline import LentThread, run_in_thread, without_processes
from holdfast.testing.stage import Drained, Stage, StageOptions
from holdfast.testing.words import call_text
from holdfast.worker.handler import Registry

R = TypeVar("R")
T = TypeVar("T")

DEFAULT_TIMEOUT_SECONDS: Final = 60.0
DEFAULT_MAX_JOBS: Final = 10_000


def run(
    app: Holdfast,
    *,
    start: datetime | None = None,
    inline: bool = False,
    cron: bool = True,
    concurrency: int = limits.DEFAULT_CONCURRENCY,
    timeout: Seconds | None = DEFAULT_TIMEOUT_SECONDS,
    max_jobs: int = DEFAULT_MAX_JOBS,
) -> "Run":
    """Put the app's database aside, for one test: ``async with testing.run(app) as jobs`` or, without a loop, ``with``.

    ``start`` is where the clock stands, the real time by default. ``inline=True`` runs no handler in a child process,
    and in a test without an event loop all plain functions in the test's own thread. ``cron=False`` leaves periodic
    jobs out. ``concurrency`` is how many jobs run side by side; 1 runs them strictly one after the other. A drain that
    takes longer than ``timeout``, in real time, or makes more than ``max_jobs`` attempts, is ended with an error.
    """
    if not isinstance(app, Holdfast):
        raise UsageError(f"testing.run() takes the app, a Holdfast, and not {app!r}")
    if start is not None and start.tzinfo is None:
        raise UsageError(f"start={start!r} has no time zone; write datetime(…, tzinfo=UTC)")
    if concurrency < 1 or max_jobs < 1:
        raise UsageError("concurrency and max_jobs are whole numbers from 1 up")
    options = StageOptions(
        start=start,
        concurrency=concurrency,
        max_jobs=max_jobs,
        timeout_seconds=None if timeout is None else seconds_of(timeout),
        has_cron=cron,
    )
    return Run(app, options, inline=inline)


class Run:
    """What ``testing.run`` gives: enter it with ``async with``, or with ``with`` in a test without an event loop."""

    def __init__(self, app: Holdfast, options: StageOptions, *, inline: bool) -> None:
        self._app = app
        self._options = options
        self._inline = inline
        self._sync_stack = ExitStack()
        self._async_stack = AsyncExitStack()

    async def __aenter__(self) -> "Jobs":
        async with AsyncExitStack() as stack:
            stage = self._enter(stack)
            await stack.enter_async_context(self._app)
            await stage.begin()
            self._async_stack = stack.pop_all()
        return Jobs(stage, inline=self._inline)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._async_stack.__aexit__(kind, error, trace)

    def __enter__(self) -> "SyncJobs":
        require_no_loop("with testing.run(app)", "async with testing.run(app) as jobs: …")
        with ExitStack() as stack:
            stage = self._enter(stack)
            run_here(stage.begin())
            self._sync_stack = stack.pop_all()
        return SyncJobs(stage, inline=self._inline)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sync_stack.__exit__(kind, error, trace)

    def _enter(self, stack: ExitStack | AsyncExitStack) -> Stage:
        stage = Stage(self._app, self._options)
        stack.enter_context(self._app.on_store(stage.store, logs=stage.logs))
        return stage


class _UnderTest(Submissions):
    """What tests with and without an event loop have in common."""

    def __init__(self, stage: Stage, *, inline: bool) -> None:
        super().__init__(stage.app, stage.store.accepted)
        self._stage = stage
        self._inline = inline

    @property
    def now(self) -> datetime:
        """By the clock of the test."""
        return self._stage.clock.now()

    @property
    def clock(self) -> ManualClock:
        """``clock.advance(seconds)`` moves time while no worker is there: nothing happens until the next drain."""
        return self._stage.clock

    async def _drain(self, registry: Registry, *, wait: bool, raise_failures: bool) -> Drained:
        return _checked(await self._stage.drain(registry, wait=wait), raise_failures)

    async def _advance(self, registry: Registry, seconds: float, *, raise_failures: bool) -> Drained:
        return _checked(await self._stage.advance(registry, seconds), raise_failures)

    async def _result(self, registry: Registry, handle: JobHandle[R] | WorkflowHandle[R]) -> R:
        await self._drain(registry, wait=False, raise_failures=True)
        handles = handle.handles if isinstance(handle, WorkflowHandle) else (handle,)
        for one in handles:
            _require_ended(await one.job(), self.now)
        return await handle.result()


class Jobs(_UnderTest):
    """The jobs of an app under test, in a test with an event loop."""

    async def drain(self, *, wait: bool = False, raise_failures: bool = True) -> Drained:
        """Run everything that can run now, and what comes of it, until nothing is left.

        What is not due stays where it is; with ``wait=True`` the clock moves on to each delayed job and each retry,
        until none waits. HandlerFailed, from what the handler raised, where a job is left behind dead or waiting for
        another attempt.
        """
        return await self._drain(self._registry, wait=wait, raise_failures=raise_failures)

    async def advance(
        self,
        time: Seconds | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        raise_failures: bool = True,
    ) -> Drained:
        """Let time pass with a worker at work: every job, retry, periodic job and lifetime has its turn on the way."""
        length = _length(time, days=days, hours=hours, minutes=minutes, seconds=seconds)
        return await self._advance(self._registry, length, raise_failures=raise_failures)

    async def result(self, handle: JobHandle[R] | WorkflowHandle[R]) -> R:
        """Drain, and give what the function returned; AssertionError, and no waiting, where the job has not ended."""
        return await self._result(self._registry, handle)

    @property
    def _registry(self) -> Registry:
        registry = self._stage.app.registry
        return without_processes(registry) if self._inline else registry


class SyncJobs(_UnderTest):
    """The jobs of an app under test, in a test without an event loop."""

    def drain(self, *, wait: bool = False, raise_failures: bool = True) -> Drained:
        """Run everything that can run now, and what comes of it, until nothing is left.

        What is not due stays where it is; with ``wait=True`` the clock moves on to each delayed job and each retry,
        until none waits. HandlerFailed, from what the handler raised, where a job is left behind dead or waiting for
        another attempt.
        """
        return self._call(lambda registry: self._drain(registry, wait=wait, raise_failures=raise_failures))

    def advance(
        self,
        time: Seconds | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        raise_failures: bool = True,
    ) -> Drained:
        """Let time pass with a worker at work: every job, retry, periodic job and lifetime has its turn on the way."""
        length = _length(time, days=days, hours=hours, minutes=minutes, seconds=seconds)
        return self._call(lambda registry: self._advance(registry, length, raise_failures=raise_failures))

    def result(self, handle: JobHandle[R] | WorkflowHandle[R]) -> R:
        """Drain, and give what the function returned; AssertionError, and no waiting, where the job has not ended."""
        return self._call(lambda registry: self._result(registry, handle))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run async code under test, with the app open."""
        return self._call(lambda _: coroutine)

    def _call(self, work: Callable[[Registry], Coroutine[Any, Any, T]]) -> T:
        """On the loop that the app is open on, a web framework's test client's for instance; else on a new one."""
        require_no_loop("what `with testing.run(app)` gives", "async with testing.run(app) as jobs: …")
        app = self._stage.app
        lent = LentThread() if self._inline else None
        registry = app.registry if lent is None else lent.registry(app.registry)

        async def opened() -> T:
            async with app:
                return await work(registry)

        loop = app.open_loop
        if loop is not None and loop.is_running():
            future = asyncio.run_coroutine_threadsafe(opened(), loop)
            return future.result() if lent is None else lent.wait(future)
        return run_here(opened()) if lent is None else lent.wait(run_in_thread(opened))


def _checked(drained: Drained, raise_failures: bool) -> Drained:
    if raise_failures:
        require_none(drained.failed)
    return drained


def _length(time: Seconds | None, *, days: float, hours: float, minutes: float, seconds: float) -> float:
    parts = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds()
    length = parts + (0.0 if time is None else seconds_of(time))
    if length <= 0:
        raise UsageError("time only goes on; write: jobs.advance(hours=1)")
    return length


def _require_ended(job: Job, now: datetime) -> None:
    if job.state.is_terminal:
        return
    match job.state:
        case State.DELAYED | State.RETRYING if job.due_at is not None:
            seconds = (job.due_at - now).total_seconds()
            why = f"it is due in {seconds:g} s; write: jobs.advance(seconds={seconds:g}), or jobs.drain(wait=True)"
        case State.PENDING:
            why = "it waits for other jobs, which have not ended"
        case _:
            why = "its queue is paused, or the app has no function for it"
    raise AssertionError(
        f"{call_text(job.type, job.payload)} has not ended and has no result: it is {job.state}: {why}"
    )
