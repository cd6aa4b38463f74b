"""Runs attempts: decodes the payload, calls the handler where it belongs, and turns what happens into an outcome.

EXECUTOR-1. Every attempt that is started ends in exactly one settlement, whatever its handler does: returns what cannot
    be written, raises, exits, never returns. One that was ended from outside never counts as a success.
EXECUTOR-2. An attempt that outlives its execution timeout is ended: a coroutine is cancelled, a child process killed, a
    thread told. A thread cannot be killed: its job is settled, its slot stays taken until it returns.
EXECUTOR-3. A coroutine that ignores its cancellation for ``STUBBORN_SECONDS`` is treated like such a thread.
EXECUTOR-4. A copy of this process that a handler forked never settles anything.
"""

import asyncio
import contextlib
import contextvars
import os
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec

from holdfast.core.commands import Completed, Failed, HandedBack, NewJob, Outcome, Settlement, Stopped
from holdfast.core.errors import Unavailable
from holdfast.core.failures import Category, Failure, PermanentError
from holdfast.core.job import ClaimedJob, Upstream
from holdfast.core.ports import Store
from holdfast.worker.context import Context, UpstreamResult
from holdfast.worker.handler import Handler, Isolation, Registry
from holdfast.worker.middleware import Execution, Middleware, around_execute
from holdfast.worker.outcomes import failed, failed_with, require_storable, timed_out
from holdfast.worker.patience import Patience
from holdfast.worker.reporter import Reporter
from holdfast.worker.running import Ending, Running
from holdfast.worker.tasks import OwnTask
from holdfast.worker.threads import ThreadPool

if TYPE_CHECKING:
    from holdfast.worker.processes import ProcessPool

STUBBORN_SECONDS: Final = 5.0
MEMORY: Final = 0.1
"""How much the newest attempt counts in the mean duration."""
EXIT_FORKED: Final = 70
NOTHING: Final = Completed(None)
"""What most handlers return."""


_forks = 0
"""How many forks lie between the program's start and this process: asking the system for every attempt takes longer."""


def _note_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_note_fork)


class Executor:
    """``on_free`` is called when a slot has become free, ``on_settlement`` takes the outcomes."""

    def __init__(
        self,
        store: Store,
        *,
        registry: Registry,
        reporter: Reporter,
        middleware: Sequence[Middleware],
        concurrency: int,
        on_settlement: Callable[[Settlement], None],
        on_free: Callable[[Running], None],
    ) -> None:
        self._store = store
        self._registry = registry
        self._reporter = reporter
        self._middleware = tuple(middleware)
        self._concurrency = concurrency
        self._on_settlement = on_settlement
        self._on_free = on_free
        self._loop = reporter.loop
        self._threads = ThreadPool(concurrency)
        self._processes: ProcessPool | None = None
        self._calls: dict[Isolation, Callable[[Running, Execution], Awaitable[Outcome]]] = {
            Isolation.LOOP: self._on_loop,
            Isolation.THREAD: self._in_thread,
            Isolation.PROCESS: self._in_process,
        }
        # An attempt begins in the worker's context, not in that of the attempt whose end made room for it.
        self._context = contextvars.copy_context()
        self._forks = _forks
        self._timer: asyncio.TimerHandle | None = None
        self._watched = inf
        """When the timer goes off."""
        self.running: dict[UUID, Running] = {}
        self.last_start = self._loop.time()
        self.mean_seconds: float | None = None
        """How long an attempt takes, the newest counting most."""

    def warm_up(self) -> None:
        """Start what takes long to start."""
        handlers = [handler for handler in self._registry.values() if handler.isolation is Isolation.PROCESS]
        if handlers:
            from holdfast.worker.processes import ProcessPool  # most workers have no such handler

            self._processes = ProcessPool(size=self._concurrency)
            self._processes.warm_up(handlers, count=1)

    def start(self, job: ClaimedJob, handler: Handler) -> None:
        self.last_start = now = self._loop.time()
        running = Running(job, handler, reporter=self._reporter, now=now)
        self.running[job.lease.token] = running
        if running.deadline < self._watched:
            self._watch(running.deadline)
        running.task = OwnTask(
            self._run(running), loop=self._loop, context=self._context.copy(), attempt=running.capture
        )

    def stuck(self, grace_seconds: float = 0.0) -> list[Running]:
        """Settled at least so long ago, but their handlers have not returned."""
        latest = self._loop.time() - grace_seconds
        return [one for one in self.running.values() if one.stuck_since is not None and one.stuck_since <= latest]

    def end_all(self, ending: Ending) -> None:
        for one in list(self.running.values()):
            self.end(one, ending)

    def end(self, running: Running, ending: Ending) -> None:
        if running.ending is None and not running.has_outcome:
            running.end(ending)
            self._loop.call_later(STUBBORN_SECONDS, self._give_up, running)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._processes is not None:
            await self._processes.close()
        self._threads.close()

    # deadlines: one timer for all, at the earliest

    def _watch(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._end_late_ones)
        self._watched = when

    def _end_late_ones(self) -> None:
        now = self._loop.time()
        self._timer = None
        self._watched = inf
        soonest = None
        for one in list(self.running.values()):
            if one.ending is not None or one.has_outcome:
                continue
            if one.deadline <= now:
                self.end(one, Ending.TIMEOUT)
            elif soonest is None or one.deadline < soonest:
                soonest = one.deadline
        if soonest is not None:
            self._watch(soonest)

    # one attempt

    async def _run(self, running: Running) -> None:
        """The task of one attempt."""
        try:
            running.capture.activate()  # for this task, which ends with the attempt
            running.is_begun = True
            if running.ending is not None:
                outcome = _ended(running)
            elif (
                running.handler.isolation is Isolation.LOOP
                and not self._middleware
                and not running.job.has_dependencies
            ):
                outcome = await self._on_loop(running, None)
            else:
                outcome = await self._prepared(running)
            if _forks != self._forks:
                os._exit(EXIT_FORKED)
            running.has_outcome = True
            if not running.capture.is_empty:
                await self._write_log(running)
        except BaseException as error:
            # The net under EXECUTOR-1: whatever went wrong around the handler, the attempt has an end.
            running.has_outcome = True
            outcome = self._unsuccessful(running, error, None)
        self._finish(running, outcome)

    async def _write_log(self, running: Running) -> None:
        # What asked the handler to stop may still be on its way; it must not cost the outcome.
        with contextlib.suppress(asyncio.CancelledError):
            await self._reporter.write_log(running)

    def _finish(self, running: Running, outcome: Outcome) -> None:
        running.is_finished = True
        if not running.is_in_thread:
            self._free(running)
        elif not running.is_stuck:
            running.stuck_since = self._loop.time()
        self._settle(running, outcome)

    async def _on_loop(self, running: Running, execution: Execution | None) -> Outcome:
        handler, job = running.handler, running.job
        signature = handler.signature
        try:
            arguments = signature.decode(job.payload)
            if execution is None and not signature.wants_context:
                value = await handler.function(**arguments)
                spawned: tuple[NewJob, ...] = ()
            else:
                context = execution.context if execution is not None else _context(running, ())
                value = await (
                    handler.function(context, **arguments) if signature.wants_context else handler.function(**arguments)
                )
                spawned = context.spawned
            if running.ending is not None:
                # It caught its cancellation and returned: with what it had done by then, or all of it, nobody knows.
                return _ended(running)
            if value is None and not spawned:
                return NOTHING
            result = signature.encode_result(value)
            require_storable(result, handler.result_limit_bytes)
            return Completed(result, spawned)
        except BaseException as error:
            return self._unsuccessful(running, error, execution)

    def _unsuccessful(self, running: Running, error: BaseException, execution: Execution | None) -> Outcome:
        if running.ending is not None:
            return _ended(running)
        if execution is not None:
            execution.error = error
        return failed_with(running.handler, running.job, error)

    async def _prepared(self, running: Running) -> Outcome:
        """The long way: what the job waited for is read, and middleware goes around it."""
        try:
            upstream = await self._upstream(running) if running.job.has_dependencies else ()
            execution = Execution(context=_context(running, upstream))
            call = self._calls[running.handler.isolation]
            if not self._middleware:
                return await call(running, execution)
            outcome = await around_execute(self._middleware, execution, lambda: call(running, execution))
            return self._require_answer(outcome)
        except BaseException as error:
            return self._unsuccessful(running, error, None)

    def _require_answer(self, outcome: Any) -> Outcome:
        if isinstance(outcome, Completed | Failed | HandedBack | Stopped):
            return outcome
        names = ", ".join(type(one).__name__ for one in self._middleware)
        raise PermanentError(
            f"middleware ({names}) answered {outcome!r} in place of an outcome: write return await proceed()",
            code="no_outcome",
        )

    async def _upstream(self, running: Running) -> tuple[UpstreamResult, ...]:
        patience = Patience("upstream results", self._reporter.outage)
        while True:
            try:
                upstream = await self._store.read_upstream(running.job.id)
            except Unavailable as error:
                await patience.wait(error)
            else:
                patience.done()
                return tuple(_upstream_result(one) for one in upstream)

    async def _in_thread(self, running: Running, execution: Execution) -> Outcome:
        handler, context = running.handler, execution.context
        future: asyncio.Future[tuple[Any, BaseException | None]] = self._loop.create_future()

        def call() -> bytes | None:
            arguments = handler.signature.decode(running.job.payload)
            if handler.signature.wants_context:
                value = handler.function(context, **arguments)
            else:
                value = handler.function(**arguments)
            result = handler.signature.encode_result(value)
            require_storable(result, handler.result_limit_bytes)
            return result

        def done(result: Any, error: BaseException | None) -> None:
            running.is_in_thread = False
            if running.is_finished:
                self._free(running)
            if not future.done():
                # Not as the future's exception: some of what a handler can raise would do more than fail.
                future.set_result((result, error))

        try:
            self._threads.submit(call, done)
            running.is_in_thread = True
            result, error = await future
        except BaseException as interruption:
            return self._unsuccessful(running, interruption, execution)
        if error is not None:
            return self._unsuccessful(running, error, execution)
        return Completed(result, context.spawned)

    async def _in_process(self, running: Running, execution: Execution) -> Outcome:
        from holdfast.worker.processes import ProcessPool, Raised, Returned

        if self._processes is None:
            # The registry had no such handler at the start, and has been added to since.
            self._processes = ProcessPool(size=self._concurrency)
        call = self._processes.start(
            running.handler, running.job, execution.context.upstream, channel=running, capture=running.capture
        )
        running.kill = call.kill
        if running.ending is not None:
            call.kill()
        try:
            answer = await call.outcome()
        finally:
            running.kill = None
        if running.ending is not None:
            return _ended(running)
        if isinstance(answer, Returned):
            return Completed(answer.result, answer.spawned)
        if isinstance(answer, Raised):
            return failed(running.handler, running.job, answer.failure, retry_after=answer.retry_after)
        failure = Failure(category=Category.SYSTEM, message=answer.message, code="child_died")
        return failed(running.handler, running.job, failure.bounded())

    # the end

    def _give_up(self, running: Running) -> None:
        """EXECUTOR-3: it was told to stop long ago."""
        if not running.has_outcome and not running.is_settled:
            if running.task is not None and not running.task.done():
                running.stuck_since = self._loop.time()
            self._settle(running, _ended(running))
            if not running.is_stuck:
                self._free(running)

    def _settle(self, running: Running, outcome: Outcome) -> None:
        if not running.is_settled:
            running.is_settled = True
            # During an outage a thread would wait on, for an answer that is of no use to it any more.
            for checkpoint in running.checkpoints:
                checkpoint.cancel()
            self._on_settlement(Settlement(lease=running.job.lease, outcome=outcome, progress=running.unreported))

    def _free(self, running: Running) -> None:
        if self.running.pop(running.job.lease.token, None) is None:
            return
        took = self._loop.time() - running.started
        mean = self.mean_seconds
        self.mean_seconds = took if mean is None else mean + MEMORY * (took - mean)
        self._on_free(running)


def _ended(running: Running) -> Outcome:
    """How an attempt ends that was ended from outside."""
    match running.ending:
        case Ending.TIMEOUT:
            return timed_out(running.handler, running.job, running.execution_seconds)
        case Ending.CANCELLED:
            return Stopped()
        case Ending.STALE | Ending.UNCONFIRMED | Ending.SHUTDOWN | None:
            return HandedBack()


def _context(running: Running, upstream: tuple[UpstreamResult, ...]) -> Context:
    job = running.job
    options = job.options if job.encoded_options is not None else None
    return Context(
        channel=running,
        job_id=job.id,
        type=job.type,
        queue=job.queue,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        attempt_id=job.lease.token,
        previous_attempt_id=job.previous_attempt_id,
        correlation_id=options.correlation_id if options is not None else None,
        tags=options.tags if options is not None else None,
        checkpoint=job.checkpoint,
        upstream=upstream,
    )


def _upstream_result(one: Upstream) -> UpstreamResult:
    result = None if one.result is None else msgspec.json.decode(one.result)
    return UpstreamResult(job_id=one.job_id, state=one.state, result=result)
