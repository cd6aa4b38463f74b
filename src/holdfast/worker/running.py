"""One attempt in this worker's hands, from claim to settlement. It is also the channel its handler speaks through."""

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TYPE_CHECKING

from holdfast.core import limits
from holdfast.core.job import ClaimedJob, LogKey, Progress
from holdfast.worker.capture import Capture
from holdfast.worker.handler import Handler

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
    __slots__ = (
        "_reporter",
        "capture",
        "deadline",
        "ending",
        "handler",
        "has_outcome",
        "is_settled",
        "is_stuck",
        "job",
        "logged_version",
        "started",
        "stop",
        "task",
        "unreported",
    )

    def __init__(self, job: ClaimedJob, handler: Handler, *, reporter: "Reporter", now: float) -> None:
        self.job = job
        self.handler = handler
        self.capture = Capture()
        self.started = now
        self.deadline = now + self.execution_seconds
        """When it has run for too long, by the loop's clock."""
        self.ending: Ending | None = None
        self.task: asyncio.Task[None] | None = None
        self.stop: Callable[[], object] | None = None
        """Ends the handler, as far as that can be done from outside."""
        self.has_outcome = False
        """Its handler is done, or was given up: nothing is left to be ended."""
        self.is_settled = False
        self.is_stuck = False
        """Settled, but its handler has not returned."""
        self.unreported: Progress | None = None
        self.logged_version = 0
        self._reporter = reporter

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
        if self.stop is not None:
            self.stop()

    def cancel(self) -> None:
        """Stop the coroutine, or whoever waits for the thread or process."""
        assert self.task is not None
        self.task.cancel()

    # the channel

    def progress(self, progress: Progress) -> None:
        self.unreported = progress
        self._reporter.note(self)

    def checkpoint(self, data: bytes) -> Awaitable[None]:
        return self._reporter.checkpoint(self, data)

    def checkpoint_sync(self, data: bytes) -> None:
        asyncio.run_coroutine_threadsafe(self._reporter.checkpoint(self, data), self._reporter.loop).result()

    def is_cancelled(self) -> bool:
        return self.ending is not None
