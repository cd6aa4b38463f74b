"""One attempt in this worker's hands, from claim to settlement. It is also the channel its handler speaks through."""

import asyncio
from collections.abc import Awaitable, Callable, Set
from concurrent.futures import CancelledError
from enum import StrEnum
from typing import TYPE_CHECKING

from holdfast.core import limits
from holdfast.core.errors import StaleLease
from holdfast.core.job import ClaimedJob, LogKey, Progress
from holdfast.worker.capture import Capture
from holdfast.worker.handler import Handler
from holdfast.worker.tasks import OwnTask

if TYPE_CHECKING:
    from holdfast.worker.reporter import Reporter


class Ending(StrEnum):
    """Why an attempt is ended from outside, before its handler is done."""

    TIMEOUT = "its execution timeout"
    CANCELLED = "a cancel request"
    STALE = "the loss of its lease"
    UNCONFIRMED = "too long a silence of the database"
    SHUTDOWN = "the worker's shutdown"


class Running:
    # On the class stands what most attempts never change: one of these is made for every job.
    ending: Ending | None = None
    task: OwnTask[None] | None = None
    is_begun = False
    """Its task has made the first step. One that is cancelled before would never make it, and never end the attempt."""
    kill: Callable[[], object] | None = None
    """Ends its child process."""
    has_outcome = False
    """Its handler is done, or was given up: nothing is left to be ended."""
    is_finished = False
    """Its task has come to its end."""
    is_in_thread = False
    """Its handler runs in a thread, which nobody can end: the slot is free when that has returned and the task, too."""
    is_settled = False
    stuck_since: float | None = None
    """Since when it is settled, by the loop's clock, although its handler has not returned."""
    checkpoints: Set[asyncio.Task[None]] = frozenset()
    """What threads wait for."""
    unreported: Progress | None = None
    logged_version = 0

    def __init__(self, job: ClaimedJob, handler: Handler, *, reporter: "Reporter", now: float) -> None:
        self.job = job
        self.handler = handler
        self.capture = Capture()
        self.started = now
        self.deadline = now + self.execution_seconds
        """When it has run for too long, by the loop's clock."""
        self._reporter = reporter

    @property
    def is_stuck(self) -> bool:
        return self.stuck_since is not None

    @property
    def execution_seconds(self) -> float:
        """The job's limit or the handler's, whichever is shorter."""
        if self.job.encoded_options is None:
            return min(limits.DEFAULT_EXECUTION_SECONDS, self.handler.execution_seconds)
        return min(self.job.options.execution_seconds, self.handler.execution_seconds)

    @property
    def log_key(self) -> LogKey:
        job = self.job
        return LogKey(job_id=job.id, created_at=job.created_at, attempt=job.attempt, attempt_id=job.lease.token)

    def end(self, ending: Ending) -> None:
        """Ask the handler to stop; the first reason counts, and only while there is something to stop."""
        if self.ending is not None or self.has_outcome:
            return
        self.ending = ending
        self.capture.note(f"ended by {ending}", level="WARNING")
        if self.kill is not None:
            self.kill()
        elif self.is_begun:
            # The coroutine, or whoever waits for the thread.
            assert self.task is not None
            self.task.end()

    # the channel

    def progress(self, progress: Progress) -> None:
        self.unreported = progress
        self._reporter.note(self)

    def checkpoint(self, data: bytes) -> Awaitable[None]:
        return self._reporter.checkpoint(self, data)

    def checkpoint_sync(self, data: bytes) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self._checkpoint(data), self._reporter.loop).result()
        except CancelledError:
            lease = self.job.lease
            raise StaleLease(job_id=lease.job_id, held_version=lease.version, current_version=None) from None

    async def _checkpoint(self, data: bytes) -> None:
        writing = asyncio.current_task()
        assert writing is not None
        self.checkpoints = {*self.checkpoints, writing}
        try:
            await self._reporter.checkpoint(self, data)
        finally:
            self.checkpoints = self.checkpoints - {writing}

    def is_cancelled(self) -> bool:
        return self.ending is not None
