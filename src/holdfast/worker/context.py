"""What a handler is given to speak with its job: the same object on the loop, in a thread and in a child process.

What a handler says goes through a ``Channel``, so that only the channel knows where the handler runs.
"""

import logging
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from uuid import UUID

import msgspec

from holdfast.core import limits
from holdfast.core.commands import NewJob
from holdfast.core.errors import Fault, InvalidInput
from holdfast.core.failures import storable
from holdfast.core.job import Progress
from holdfast.core.states import State

LOG: Final = logging.getLogger("holdfast.job")


class Spawnable(Protocol):
    """What can become a job: ``resize.call("a.png")``."""

    def new_job(self) -> NewJob: ...


class Channel(Protocol):
    """Where a running handler's words go. ``progress`` and ``is_cancelled`` may be called from any thread."""

    def progress(self, progress: Progress) -> None: ...

    def checkpoint(self, data: bytes) -> Awaitable[None]:
        """On the loop; done after the commit. StaleLease where the job is no longer ours."""
        ...

    def checkpoint_sync(self, data: bytes) -> None:
        """The same for plain functions: blocks until the commit."""
        ...

    def is_cancelled(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamResult:
    """What the job waited for, and what that gave."""

    job_id: UUID
    state: State
    result: Any


class Context:
    """Given to a handler whose first parameter is annotated with it."""

    __slots__ = (
        "_channel",
        "_checkpoint",
        "_spawned",
        "attempt",
        "attempt_id",
        "correlation_id",
        "job_id",
        "max_attempts",
        "previous_attempt_id",
        "queue",
        "tags",
        "type",
        "upstream",
    )

    def __init__(
        self,
        *,
        channel: Channel,
        job_id: UUID,
        type: str,  # noqa: A002 - the job's field
        queue: str,
        attempt: int,
        max_attempts: int,
        attempt_id: UUID,
        previous_attempt_id: UUID | None,
        correlation_id: str | None = None,
        tags: Mapping[str, str] | None = None,
        checkpoint: bytes | None = None,
        upstream: tuple[UpstreamResult, ...] = (),
    ) -> None:
        self._channel = channel
        self._checkpoint = checkpoint
        self._spawned: list[NewJob] = []
        self.job_id = job_id
        self.type = type
        self.queue = queue
        self.attempt = attempt
        """From 1; the first attempt counts."""
        self.max_attempts = max_attempts
        self.attempt_id = attempt_id
        self.previous_attempt_id = previous_attempt_id
        self.correlation_id = correlation_id
        self.tags: Mapping[str, str] = {} if tags is None else tags
        self.upstream = upstream
        """What this job waited for, in the order in which those jobs were submitted."""

    @property
    def log(self) -> logging.Logger:
        """What is logged here, or anywhere while the handler runs, is kept with the attempt."""
        return LOG

    @property
    def cancelled(self) -> bool:
        """Somebody asked to stop: a cancel, the execution timeout, or a lease that was lost. For plain functions."""
        return self._channel.is_cancelled()

    @property
    def results(self) -> list[Any]:
        """The results of what this job waited for, in the order in which those jobs were submitted."""
        return [one.result for one in self.upstream]

    def progress(self, percent: float, message: str = "") -> None:
        """Say how far the job is. Returns at once; the newest value is stored within a second."""
        value: Any = percent
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
            raise InvalidInput([Fault(field="progress.percent", problem=f"is {percent!r}", limit="0 … 100")])
        text = storable(str(message))
        self._channel.progress(Progress(percent=float(percent), message=text[: limits.MAX_PROGRESS_MESSAGE_CHARACTERS]))

    async def checkpoint(self, value: Any) -> None:
        """Store what the next attempt goes on from; returns after the commit."""
        data = _encoded(value)
        await self._channel.checkpoint(data)
        self._checkpoint = data

    def checkpoint_sync(self, value: Any) -> None:
        """``checkpoint`` for plain functions."""
        data = _encoded(value)
        self._channel.checkpoint_sync(data)
        self._checkpoint = data

    @property
    def last_checkpoint(self) -> Any:
        """The newest checkpoint of this or an earlier attempt; None where there is none."""
        return None if self._checkpoint is None else msgspec.json.decode(self._checkpoint)

    def spawn(self, call: Spawnable) -> UUID:
        """Add a child job. It is written together with this job's success, so a failed attempt spawns nothing."""
        if len(self._spawned) >= limits.MAX_SPAWNED:
            raise InvalidInput([Fault(field="spawn", problem="too many children", limit=str(limits.MAX_SPAWNED))])
        job = call.new_job()
        self._spawned.append(job)
        return job.id

    @property
    def spawned(self) -> tuple[NewJob, ...]:
        return tuple(self._spawned)


def _encoded(value: Any) -> bytes:
    try:
        data = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput([Fault(field="checkpoint", problem=f"cannot be written as JSON: {error}")]) from error
    if len(data) > limits.MAX_CHECKPOINT_BYTES:
        raise InvalidInput(
            [
                Fault(
                    field="checkpoint",
                    problem=f"has {len(data)} bytes",
                    limit=f"{limits.MAX_CHECKPOINT_BYTES} bytes",
                )
            ]
        )
    return data
