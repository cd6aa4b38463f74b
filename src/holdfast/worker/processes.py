"""Runs handlers in child processes: a few that stay, one job at a time each, replaced when they die or are killed.

The worker's side, on its loop; the other side is ``child``, and ``messages`` is what they say. The numbered invariants
are in this folder's README.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from holdfast.core.commands import NewJob
from holdfast.core.errors import UsageError
from holdfast.core.failures import Failure, PermanentError
from holdfast.core.job import ClaimedJob, Progress
from holdfast.worker import tasks
from holdfast.worker.capture import Capture
from holdfast.worker.children import ChildProcess
from holdfast.worker.context import Channel, UpstreamResult
from holdfast.worker.guard import Guard
from holdfast.worker.handler import Handler
from holdfast.worker.messages import (
    CancelRequested,
    CheckpointAnswer,
    CheckpointMade,
    ErrorData,
    FailedSo,
    JobData,
    Load,
    Logged,
    Message,
    MessageTooLarge,
    OfRun,
    ProgressMade,
    Run,
    Succeeded,
    UpstreamData,
    frame,
)
from holdfast.worker.targets import require_importable, require_not_importing, target_of

__all__ = ["Died", "ProcessCall", "ProcessPool", "Raised", "Returned", "require_importable"]

FIRST_RESTART_SECONDS: Final = 0.1
LONGEST_RESTART_SECONDS: Final = 10.0
"""How long the next start waits after one that failed: doubled each time, up to this."""
LIVENESS_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Returned:
    result: bytes | None
    spawned: tuple[NewJob, ...] = ()


@dataclass(frozen=True, slots=True)
class Raised:
    failure: Failure
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Died:
    """The child ended before the handler did; how, in words."""

    message: str


ProcessOutcome = Returned | Raised | Died


class ProcessCall:
    """One handler's run in a child process, or on its way there."""

    def __init__(self, number: int, run: bytes, channel: Channel, capture: Capture | None) -> None:
        self.number = number
        self._run = run
        self._child: ChildProcess | None = None
        self._is_cancel_requested = False
        self._channel = channel
        self._capture = capture
        self._outcome: asyncio.Future[ProcessOutcome] = asyncio.get_running_loop().create_future()
        self._tasks: set[tasks.OwnTask[None]] = set()

    @property
    def is_over(self) -> bool:
        return self._outcome.done()

    async def outcome(self) -> ProcessOutcome:
        """How it ended; raises nothing. Where whoever waits is cancelled, the child is killed."""
        try:
            return await asyncio.shield(self._outcome)
        except asyncio.CancelledError:
            self.kill()
            raise

    def kill(self) -> None:
        """End the child and everything that the handler started in it; the outcome is Died. Repeats are harmless."""
        if self.is_over:
            return
        if self._child is None:
            self.lose("ended by the worker before it began")
        else:
            self._child.kill()

    def request_cancel(self) -> None:
        """Tell the handler, which may look at ``ctx.cancelled``."""
        self._is_cancel_requested = True
        self._send(CancelRequested(self.number))

    # told by the child's keeper

    def begin(self, child: ChildProcess) -> None:
        self._child = child
        child.send(self._run)
        self._run = b""
        if self._is_cancel_requested:
            self._send(CancelRequested(self.number))

    def take(self, message: OfRun) -> None:
        """What the child says of this run."""
        match message:
            case ProgressMade():
                self._channel.progress(Progress(percent=message.percent, message=message.message))
            case Logged():
                if self._capture is not None:
                    self._capture.adopt(message.data)
            case CheckpointMade():
                task = tasks.start(self._checkpoint(message))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case Succeeded():
                self._end(Returned(message.result, tuple(one.new_job() for one in message.spawned)))
            case FailedSo():
                self._end(Raised(message.failure.failure(), message.retry_after))

    def lose(self, message: str) -> None:
        self._end(Died(f"the child process ended: {message}"))

    async def _checkpoint(self, message: CheckpointMade) -> None:
        error = None
        try:
            await self._channel.checkpoint(message.data)
        except Exception as problem:
            error = ErrorData.of(problem)
        self._send(CheckpointAnswer(self.number, message.checkpoint, error))

    def _send(self, message: Message) -> None:
        if self._child is not None and not self.is_over:
            self._child.send(frame(message))

    def _end(self, outcome: ProcessOutcome) -> None:
        if self.is_over:
            return
        for task in self._tasks:
            task.end()
        self._outcome.set_result(outcome)


class ProcessPool:
    """At most ``size`` children, started as they are needed. All methods are called on one loop's thread."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._numbers = itertools.count(1)
        self._children: set[ChildProcess] = set()
        self._idle: list[ChildProcess] = []
        self._starting: set[ChildProcess] = set()
        self._waiting: deque[ProcessCall] = deque()
        self._loads: tuple[bytes, ...] = ()
        self._guard: Guard | None = None
        self._restart_seconds = 0.0
        self._restart: asyncio.TimerHandle | None = None
        self._liveness: asyncio.TimerHandle | None = None
        self._is_closed = False

    def start(
        self,
        handler: Handler,
        job: ClaimedJob,
        upstream: tuple[UpstreamResult, ...],
        channel: Channel,
        capture: Capture | None,
    ) -> ProcessCall:
        """Begin as soon as a child is free. PermanentError where the job is too large to be handed over."""
        require_not_importing()
        if self._is_closed:
            raise UsageError("this pool of child processes is closed")
        number = next(self._numbers)
        run = Run(
            number=number,
            target=target_of(handler),
            job=JobData.of(job),
            upstream=[UpstreamData.of(one) for one in upstream],
            is_captured=capture is not None,
            is_echoed=capture is None or capture.echo,
        )
        try:
            call = ProcessCall(number, frame(run), channel, capture)
        except MessageTooLarge as error:
            raise PermanentError(str(error), code="message_too_large") from error
        self._waiting.append(call)
        self._dispatch()
        return call

    def warm_up(self, handlers: Iterable[Handler] = (), *, count: int | None = None) -> None:
        """Start children before the first job needs them, all unless ``count`` is given; let them import these."""
        require_not_importing()
        self._loads = tuple(frame(Load(target)) for target in {target_of(handler) for handler in handlers})
        for _ in range(min(count or self._size, self._size) - len(self._children)):
            self._start_child()

    async def close(self) -> None:
        """End the children; calls that still run are killed."""
        self._is_closed = True
        for timer in (self._restart, self._liveness):
            if timer is not None:
                timer.cancel()
        while self._waiting:
            self._waiting.popleft().kill()
        children = list(self._children)
        for child in children:
            child.dismiss()
        await asyncio.gather(*(child.wait_ended() for child in children))
        if self._guard is not None:
            self._guard.close()

    # which child runs what

    def _dispatch(self) -> None:
        while self._waiting and self._idle:
            call = self._waiting.popleft()
            if not call.is_over:
                self._idle.pop().run(call)
        if self._restart is not None or self._is_closed:
            return
        wanted = sum(not call.is_over for call in self._waiting) - len(self._starting)
        for _ in range(min(wanted, self._size - len(self._children))):
            self._start_child()

    def _start_child(self) -> None:
        if self._guard is None:
            self._guard = Guard()
        child = ChildProcess(self, self._guard)
        self._children.add(child)
        self._starting.add(child)
        child.start()
        if self._liveness is None:
            self._liveness = asyncio.get_running_loop().call_later(LIVENESS_SECONDS, self._look_after)

    def _look_after(self) -> None:
        """The end of a child is known by the end of its wire, unless something it started holds that open."""
        for child in list(self._children):
            child.check()
        self._liveness = None
        if self._children and not self._is_closed:
            self._liveness = asyncio.get_running_loop().call_later(LIVENESS_SECONDS, self._look_after)

    # what children tell

    def on_ready(self, child: ChildProcess) -> None:
        self._starting.discard(child)
        self._restart_seconds = 0.0
        for load in self._loads:
            child.send(load)
        self.on_idle(child)

    def on_idle(self, child: ChildProcess) -> None:
        self._idle.append(child)
        self._dispatch()

    def on_leaving(self, child: ChildProcess) -> None:
        if child in self._idle:
            self._idle.remove(child)

    def on_gone(self, child: ChildProcess, message: str) -> None:
        self._children.discard(child)
        if child in self._starting:
            self._starting.discard(child)
            self._on_failed_start(message)
        elif child.has_run and not self._is_closed:
            # At once, and not when the next job comes: a start takes its time. Whatever ended this one was a job.
            self._start_child()
        self._dispatch()

    def _on_failed_start(self, message: str) -> None:
        """One call is told, the others wait: a machine without memory is not helped by trying at once."""
        if self._is_closed:
            return
        while self._waiting:
            call = self._waiting.popleft()
            if not call.is_over:
                call.lose(f"it could not be started: {message}")
                break
        self._restart_seconds = min(max(2 * self._restart_seconds, FIRST_RESTART_SECONDS), LONGEST_RESTART_SECONDS)
        if self._restart is None:
            self._restart = asyncio.get_running_loop().call_later(self._restart_seconds, self._after_restart_delay)

    def _after_restart_delay(self) -> None:
        self._restart = None
        self._dispatch()
