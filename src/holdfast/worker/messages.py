"""What a worker and its child processes say to each other.

Each message is one msgpack array behind its length in four bytes. User data travels as the bytes it is stored in, or
as JSON; nothing is ever pickled, so that a child can at the worst answer nonsense, and never make the worker run code.

``number`` counts the runs of one child: words of a run that is over (from a thread that it left behind) are dropped.
"""

import json
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from holdfast.core.commands import NewJob
from holdfast.core.dependencies import Dependency, DependencyKind
from holdfast.core.errors import Fault, HoldfastError, InvalidInput, StaleLease, Unavailable
from holdfast.core.failures import Category, Failure
from holdfast.core.job import DEFAULT_TIMEOUTS, LABELS, ClaimedJob, Timeouts
from holdfast.core.payload import Payload
from holdfast.core.priority import Priority
from holdfast.core.retry import Retry
from holdfast.core.states import State
from holdfast.worker.context import UpstreamResult

LENGTH_BYTES: Final = 4
MAX_MESSAGE_BYTES: Final = 1024**3
"""A thousand children of a megabyte each; what is more than that is refused."""


class MessageTooLarge(Exception):
    def __init__(self, size_bytes: int) -> None:
        super().__init__(
            f"{size_bytes} bytes between a worker and its child process; the limit is {MAX_MESSAGE_BYTES}: "
            "store large data elsewhere and pass its address"
        )


class Message(msgspec.Struct, array_like=True, tag=True, gc=False):
    """Shared by all; the tag is the class's name."""


# what both sides say of a handler and a job


class Target(msgspec.Struct, array_like=True, frozen=True):
    """Where a handler is found: its module and name there, and the job type it must be."""

    job_type: str
    module: str
    qualified_name: str
    file: str | None
    """The module's; for one that cannot be imported by its name."""


class MainModule(msgspec.Struct, array_like=True, frozen=True):
    """The worker's ``__main__``: a module (``python -m``), a script, or nothing that can be found again."""

    name: str | None = None
    path: str | None = None


class JobData(msgspec.Struct, array_like=True):
    id: UUID
    type: str
    queue: str
    attempt: int
    max_attempts: int
    attempt_id: UUID
    previous_attempt_id: UUID | None
    correlation_id: str | None
    tags: dict[str, str]
    payload: bytes
    is_json: bool
    checkpoint: bytes | None

    @classmethod
    def of(cls, job: ClaimedJob) -> "JobData":
        options = job.options
        return cls(
            id=job.id,
            type=job.type,
            queue=job.queue,
            attempt=job.attempt,
            max_attempts=job.max_attempts,
            attempt_id=job.lease.token,
            previous_attempt_id=job.previous_attempt_id,
            correlation_id=options.correlation_id,
            tags=dict(options.tags),
            payload=job.payload.data,
            is_json=job.payload.is_json,
            checkpoint=job.checkpoint,
        )


class UpstreamData(msgspec.Struct, array_like=True):
    job_id: UUID
    state: State
    result: bytes
    """JSON: it knows whole numbers of any size, which msgpack does not."""

    @classmethod
    def of(cls, one: UpstreamResult) -> "UpstreamData":
        return cls(job_id=one.job_id, state=one.state, result=json.dumps(one.result).encode("ascii"))

    def upstream_result(self) -> UpstreamResult:
        return UpstreamResult(job_id=self.job_id, state=self.state, result=json.loads(self.result))


class RetryData(msgspec.Struct, array_like=True):
    """Without ``custom``: a function of the program, which knows it by the job's type."""

    max_attempts: int
    policy: dict[str, Any]


class NewJobData(msgspec.Struct, array_like=True):
    id: UUID
    type: str
    queue: str
    payload: bytes
    is_json: bool
    priority: Priority
    delay_seconds: float
    run_at: datetime | None
    timeouts: tuple[float, float, float]
    retry: RetryData
    labels: dict[str, str | None]
    """By the field's name."""
    key_window_seconds: float
    dependencies: list[tuple[UUID, DependencyKind]]
    tags: dict[str, str]

    @classmethod
    def of(cls, job: NewJob) -> "NewJobData":
        return cls(
            id=job.id,
            type=job.type,
            queue=job.queue,
            payload=job.payload.data,
            is_json=job.payload.is_json,
            priority=job.priority,
            delay_seconds=job.delay_seconds,
            run_at=job.run_at,
            timeouts=(job.timeouts.execution, job.timeouts.visibility, job.timeouts.lifetime),
            retry=RetryData(job.retry.max_attempts, job.retry.to_data()),
            labels={name: getattr(job, name) for name in LABELS},
            key_window_seconds=job.key_window_seconds,
            dependencies=[(one.job_id, one.kind) for one in job.dependencies],
            tags=dict(job.tags),
        )

    def new_job(self) -> NewJob:
        execution, visibility, lifetime = self.timeouts
        timeouts = Timeouts(execution=execution, visibility=visibility, lifetime=lifetime)
        return NewJob(
            id=self.id,
            type=self.type,
            queue=self.queue,
            payload=Payload(self.payload, is_json=self.is_json),
            priority=self.priority,
            delay_seconds=self.delay_seconds,
            run_at=self.run_at,
            # Stores know the defaults by identity.
            timeouts=DEFAULT_TIMEOUTS if timeouts == DEFAULT_TIMEOUTS else timeouts,
            retry=Retry.from_data(self.retry.policy, max_attempts=self.retry.max_attempts),
            key_window_seconds=self.key_window_seconds,
            dependencies=tuple(Dependency(job_id, kind) for job_id, kind in self.dependencies),
            tags=self.tags,
            **self.labels,
        )


class FailureData(msgspec.Struct, array_like=True):
    category: Category
    message: str
    error_type: str
    code: str
    trace: str

    @classmethod
    def of(cls, failure: Failure) -> "FailureData":
        return cls(failure.category, failure.message, failure.error_type, failure.code, failure.trace)

    def failure(self) -> Failure:
        return Failure(
            category=self.category,
            message=self.message,
            error_type=self.error_type,
            code=self.code,
            trace=self.trace,
        )


class ErrorData(msgspec.Struct, array_like=True):
    """Why a checkpoint was not written."""

    code: str
    message: str
    job_id: UUID | None = None
    held_version: int = 0
    current_version: int | None = None

    @classmethod
    def of(cls, error: Exception) -> "ErrorData":
        if isinstance(error, StaleLease):
            return cls(error.code, str(error), error.job_id, error.held_version, error.current_version)
        code = error.code if isinstance(error, HoldfastError) else ""
        return cls(code, plain_text(str(error) or type(error).__name__))

    def error(self) -> HoldfastError:
        if self.code == StaleLease.code and self.job_id is not None:
            return StaleLease(job_id=self.job_id, held_version=self.held_version, current_version=self.current_version)
        return Unavailable(self.message) if self.code == Unavailable.code else HoldfastError(self.message)


# worker → child


class Begin(Message):
    """The first one: what the worker was started as."""

    argv: list[str]
    main: MainModule


class Load(Message):
    """Import what this handler needs before the first job does."""

    target: Target


class Run(Message):
    number: int
    target: Target
    job: JobData
    upstream: list[UpstreamData]
    is_captured: bool
    is_echoed: bool


class CancelRequested(Message):
    number: int


class CheckpointAnswer(Message):
    number: int
    checkpoint: int
    error: ErrorData | None


ToChild = Begin | Load | Run | CancelRequested | CheckpointAnswer

# child → worker


class Ready(Message):
    """Started, and waiting for a run."""


class ProgressMade(Message):
    number: int
    percent: float
    message: str


class CheckpointMade(Message):
    number: int
    checkpoint: int
    data: bytes


class Logged(Message):
    """The whole log of the attempt so far, as JSON Lines."""

    number: int
    data: bytes


class Succeeded(Message):
    number: int
    result: bytes | None
    spawned: list[NewJobData]
    is_reusable: bool


class FailedSo(Message):
    number: int
    failure: FailureData
    retry_after: float | None
    is_reusable: bool
    """False: the handler changed what the next one counts on, and this child should be replaced."""


OfRun = ProgressMade | CheckpointMade | Logged | Succeeded | FailedSo
ToWorker = Ready | OfRun

_ENCODER: Final = msgspec.msgpack.Encoder()
TO_CHILD: Final = msgspec.msgpack.Decoder(ToChild)
TO_WORKER: Final = msgspec.msgpack.Decoder(ToWorker)
_NEW_JOB: Final = msgspec.msgpack.Decoder(NewJobData)
_NOT_CARRIED: Final = (TypeError, ValueError, AttributeError, RecursionError)
"""What a job with a field of a wrong type makes an encoder or a decoder raise."""


def frame(message: Message) -> bytes:
    body = _ENCODER.encode(message)
    if len(body) > MAX_MESSAGE_BYTES:
        raise MessageTooLarge(len(body))
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def new_job_data(job: NewJob) -> NewJobData:
    """Checked as the worker will read it: a wrong field is an error of the handler that spawned it."""
    try:
        return _NEW_JOB.decode(_ENCODER.encode(NewJobData.of(job)))
    except _NOT_CARRIED as error:
        raise InvalidInput([Fault(field="spawn", problem=f"cannot be written: {error}")]) from error


def plain_text(text: str) -> str:
    """Text that UTF-8 can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")


class Frames:
    """Puts a stream of bytes together into messages again."""

    __slots__ = ("_received",)

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies that are complete now. MessageTooLarge where a length can only be nonsense."""
        received = self._received
        received += data
        bodies: list[bytes] = []
        start = 0
        while len(received) - start >= LENGTH_BYTES:
            length = int.from_bytes(received[start : start + LENGTH_BYTES], "big")
            if length > MAX_MESSAGE_BYTES:
                raise MessageTooLarge(length)
            end = start + LENGTH_BYTES + length
            if len(received) < end:
                break
            bodies.append(bytes(received[start + LENGTH_BYTES : end]))
            start = end
        del received[:start]
        return bodies
