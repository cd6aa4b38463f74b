"""What a job is: the facts given at submit, and where it stands now.

``NewJob`` is a job as it is given, and the one list of its fields. ``Job`` is the whole of it, for people and programs
that ask. ``ClaimedJob`` is the part a worker needs, kept small because one is made for every job that runs. ``Record``
is the part a decision needs (``decisions`` maps one Record to the next); stores load and write it, nobody else sees it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeVar
from uuid import UUID

from holdfast.core import limits
from holdfast.core.dependencies import Dependency
from holdfast.core.failures import Failure
from holdfast.core.fields import Kept, elsewhere, in_column, in_options, kept
from holdfast.core.payload import EMPTY, Payload
from holdfast.core.priority import Priority
from holdfast.core.retry import DEFAULT_RETRY, Retry
from holdfast.core.states import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds. The fourth timeout, submission, is the client's and never reaches a store."""

    execution: float = limits.DEFAULT_EXECUTION_SECONDS
    visibility: float = limits.DEFAULT_VISIBILITY_SECONDS
    lifetime: float = limits.DEFAULT_LIFETIME_SECONDS


DEFAULT_TIMEOUTS: Final = Timeouts()
NO_TAGS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Given at submit, seldom read: kept together, and not at all where everything is at its default."""

    execution_seconds: float = limits.DEFAULT_EXECUTION_SECONDS
    retry: Retry = field(default=DEFAULT_RETRY, metadata={"encode": Retry.to_data})
    tags: Mapping[str, str] = field(default_factory=dict, metadata={"encode": dict})
    correlation_id: str | None = None
    callback_url: str | None = None
    key: str | None = None

    def encode(self) -> str | None:
        data: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if value != getattr(DEFAULT_OPTIONS, one.name) and (written := one.metadata.get("encode", _same)(value)):
                data[one.name] = written
        return json.dumps(data, ensure_ascii=False, separators=(",", ":")) if data else None

    @classmethod
    def decode(cls, text: str | None, *, max_attempts: int, may_be_newer: bool) -> "Options":
        """``may_be_newer``: to be read by people, where what a newer program wrote beside is left out, not refused."""
        if text is None:
            if max_attempts == limits.DEFAULT_MAX_ATTEMPTS:
                return DEFAULT_OPTIONS
            return cls(retry=Retry(max_attempts=max_attempts))
        data = json.loads(text)
        data["retry"] = Retry.from_data(data.get("retry", {}), max_attempts=max_attempts)
        if may_be_newer:
            data = {name: data[name] for name in _OPTION_NAMES if name in data}
        return cls(**data)


def _same(value: Any) -> Any:
    return value


_OPTION_NAMES: Final = tuple(one.name for one in fields(Options))
DEFAULT_OPTIONS: Final = Options()


@dataclass(slots=True, kw_only=True)
class NewJob:
    """A job as it is given. Its ID is made by the caller's side before the first try, so a repeat cannot double it.

    This is the one list of a job's fields; ``fields`` says what their descriptions mean. A new one is also added to
    Job, where it is read, and to Options, if it is kept there.
    """

    id: UUID = field(metadata=Kept(columns={"id": "id"}).metadata())
    type: str = field(metadata=in_column("type"))
    queue: str = field(default=limits.DEFAULT_QUEUE, metadata=in_column("queue"))
    payload: Payload = field(
        default=EMPTY,
        metadata=Kept(
            columns={"payload": "payload.data", "is_json": "payload.is_json"},
            read=lambda row, _: Payload(row["payload"], bool(row["is_json"])),
        ).metadata(),
    )
    # A dependent has at least the priority of what it waits for.
    priority: Priority = field(
        default=Priority.NORMAL, metadata=Kept(columns={"priority": "priority.value"}).metadata()
    )
    delay_seconds: float = field(default=0.0, metadata=elsewhere())
    run_at: datetime | None = field(default=None, metadata=elsewhere(is_plain=False))
    timeouts: Timeouts = field(
        default=DEFAULT_TIMEOUTS,
        metadata=Kept(
            columns={"visibility_seconds": "timeouts.visibility", "lifetime_seconds": "timeouts.lifetime"},
            options={"execution_seconds": "timeouts.execution"},
            read=lambda row, options: Timeouts(
                execution=options.execution_seconds,
                visibility=row["visibility_seconds"],
                lifetime=row["lifetime_seconds"],
            ),
        ).metadata(),
    )
    retry: Retry = field(
        default=DEFAULT_RETRY,
        metadata=Kept(
            columns={"max_attempts": "retry.max_attempts"},
            options={"retry": "retry"},
            read=lambda _, options: options.retry,
        ).metadata(),
    )
    key: str | None = field(
        default=None, metadata=in_options("key", is_plain=False, max_characters=limits.MAX_KEY_CHARACTERS)
    )
    key_window_seconds: float = field(default=limits.DEFAULT_KEY_WINDOW_SECONDS, metadata=elsewhere())
    dependencies: tuple[Dependency, ...] = field(default=(), metadata=elsewhere(is_plain=False))
    tags: Mapping[str, str] = field(default_factory=dict, metadata=in_options("tags", is_plain=False))
    correlation_id: str | None = field(
        default=None,
        metadata=in_options("correlation_id", max_characters=limits.MAX_CORRELATION_ID_CHARACTERS),
    )
    callback_url: str | None = field(
        default=None, metadata=in_options("callback_url", max_characters=limits.MAX_CALLBACK_URL_CHARACTERS)
    )
    group: str | None = field(default=None, metadata=in_column("group", max_characters=limits.MAX_GROUP_CHARACTERS))

    @property
    def options(self) -> Options:
        return Options(**dict(zip(_OPTIONS, _in_options(self), strict=True)))

    @property
    def is_plain(self) -> bool:
        """What a store may write for whole batches at once: it waits for nothing but a delay, and has no label."""
        return bool(_not_plain(self) == _PLAIN)

    @property
    def encoded_options(self) -> str | None:
        # Most jobs leave everything at its default: seen here without building anything.
        return None if _in_options(self) == _DEFAULT_OPTIONS else self.options.encode()


FIELDS: Final[Mapping[str, Kept]] = {one.name: kept(one) for one in fields(NewJob)}
"""The description of each."""
LABELS: Final = tuple(name for name, one in FIELDS.items() if one.max_characters is not None)
"""Optional texts, which are stored and shown."""
AS_GIVEN: Final = tuple(name for name, one in FIELDS.items() if one.read is not None)
"""What a job that is read has as it was given."""
COLUMNS: Final[Mapping[str, str]] = {
    "options": "encoded_options",
    **{column: path for one in FIELDS.values() for column, path in one.columns.items()},
}
"""The columns of a job's record that are known when it is given; what is in each, as a path from the NewJob."""

_OPTIONS: Final[Mapping[str, str]] = {name: path for one in FIELDS.values() for name, path in one.options.items()}
_in_options: Final = attrgetter(*_OPTIONS.values())
_DEFAULT_OPTIONS: Final = tuple(getattr(DEFAULT_OPTIONS, name) for name in _OPTIONS)


_NOT_PLAIN: Final = [one for one in fields(NewJob) if not kept(one).is_plain]
_not_plain: Final = attrgetter(*(one.name for one in _NOT_PLAIN))
_PLAIN: Final = tuple(one.default if one.default_factory is MISSING else one.default_factory() for one in _NOT_PLAIN)


def as_given(job: NewJob) -> dict[str, Any]:
    """The fields that a Job has from the NewJob itself; their own, where they can be changed."""
    return {name: dict(value) if isinstance(value := getattr(job, name), dict) else value for name in AS_GIVEN}


def given_from(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same fields from a record's columns, as a store has them."""
    options = Options.decode(row["options"], max_attempts=row["max_attempts"], may_be_newer=True)
    return {name: one.read(row, options) for name, one in FIELDS.items() if one.read is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    percent: float
    message: str = ""


# Lease, ClaimedJob, NewJob and Payload are not frozen: one of each is made for every job, and freezing costs as much
# again as making it. Nothing assigns to their fields.


@dataclass(slots=True, unsafe_hash=True)
class Lease:
    """One worker's right to one job. The token is the fence and the attempt's ID; ``seq`` saves the store a lookup."""

    job_id: UUID
    seq: int
    token: UUID
    version: int
    owner: UUID
    expires_at: datetime


@dataclass(slots=True, unsafe_hash=True)
class ClaimedJob:
    """A job in the hands of the worker that holds ``lease``."""

    lease: Lease
    type: str
    queue: str
    priority: Priority
    payload: Payload
    attempt: int
    max_attempts: int
    created_at: datetime
    started_at: datetime
    has_dependencies: bool
    previous_attempt_id: UUID | None
    checkpoint: bytes | None
    encoded_options: str | None
    was_reclaimed: bool = False
    """Ever: a worker was lost with it, or let its lease run out."""

    @property
    def id(self) -> UUID:
        return self.lease.job_id

    @property
    def is_last_chance(self) -> bool:
        """Another lost worker would make it a dead letter."""
        return self.was_reclaimed and self.attempt >= self.max_attempts

    @property
    def options(self) -> Options:
        # Decoded on demand: most jobs run at the defaults, which are stored as nothing.
        # Whoever runs a job must know all that was asked for; a worker that does not hands it back.
        return Options.decode(self.encoded_options, max_attempts=self.max_attempts, may_be_newer=False)


Made = TypeVar("Made", Lease, ClaimedJob)


def from_columns(kind: type[Made], columns: Mapping[str, Iterable[Any]]) -> Iterator[Made]:
    """Many at once, from a column for each field: a name is looked up once for all of them, not once for each."""
    return map(kind, *itemgetter(*kind.__match_args__)(columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt that was spent without success. Linked to the one before it by ``previous_id``."""

    id: UUID
    job_id: UUID
    number: int
    version: int
    owner: UUID
    started_at: datetime
    ended_at: datetime
    failure: Failure
    previous_id: UUID | None
    is_ended_by_holder: bool
    """False where the lease was taken away: reclaim, or the end of the job's lifetime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything there is to know of a job."""

    id: UUID
    seq: int
    type: str
    queue: str
    payload: Payload
    priority: Priority
    state: State
    attempt: int
    replays: int
    depth: int
    created_at: datetime
    updated_at: datetime
    run_at: datetime | None
    due_at: datetime | None
    scheduled_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    lifetime_ends_at: datetime | None
    """None once the job has ended."""
    timeouts: Timeouts
    retry: Retry
    key: str | None
    tags: Mapping[str, str]
    correlation_id: str | None
    callback_url: str | None
    group: str | None = None
    dependencies: tuple[Dependency, ...]
    lease: Lease | None
    lease_version: int
    cancel_requested: bool
    progress: Progress | None
    checkpoint: bytes | None
    result: bytes | None
    failure: Failure | None
    ended_by: UUID | None
    """The dependency whose end ended this job."""
    last_attempt_id: UUID | None
    spawned_by: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """What a job waited for, as its handler may read it."""

    job_id: UUID
    state: State
    result: bytes | None
    dependency: Dependency


@dataclass(frozen=True, slots=True, kw_only=True)
class LogKey:
    """Which attempt's log."""

    job_id: UUID
    created_at: datetime
    """Of the job."""
    attempt: int
    attempt_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLog:
    """JSON Lines, as the attempt wrote them."""

    attempt: int
    attempt_id: UUID
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Where a job stands, with what the next decision about it may need."""

    seq: int
    id: UUID
    type: str
    queue: str
    priority: Priority
    depth: int
    max_attempts: int
    visibility_seconds: float
    lifetime_seconds: float
    lifetime_ends_at: datetime
    created_at: datetime
    run_at: datetime | None

    state: State
    attempt: int = 0
    version: int = 0
    replays: int = 0
    is_fragile: bool = False
    """Was reclaimed once: claimed alone from then on."""
    has_dependents: bool = False
    due_at: datetime | None = None
    updated_at: datetime
    scheduled_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None

    token: UUID | None = None
    owner: UUID | None = None
    expires_at: datetime | None = None
    cancel_requested: bool = False
    last_token: UUID | None = None
    """The newest attempt that was spent; while RUNNING, the one before the present."""

    result: bytes | None = None
    failure: Failure | None = None
    ended_by: int | None = None
    """The seq of the dependency whose end ended this job."""
    spawned_by: int | None = None


def lease_of(record: Record) -> Lease:
    """The lease of a RUNNING job."""
    assert record.token is not None
    assert record.owner is not None
    assert record.expires_at is not None
    return Lease(
        job_id=record.id,
        seq=record.seq,
        token=record.token,
        version=record.version,
        owner=record.owner,
        expires_at=record.expires_at,
    )
