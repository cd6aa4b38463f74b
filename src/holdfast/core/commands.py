"""One input class for each verb, and the answers. What a port's methods take and give.

Answers come one per item, in the order asked: a per-item error is an instance in the list, never an exception that
would fail its neighbours.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final
from uuid import UUID

from holdfast.core import limits
from holdfast.core.errors import Conflict, HoldfastError, NotFound, Unavailable
from holdfast.core.failures import Failure
from holdfast.core.ids import uuid_of
from holdfast.core.job import FIELDS, ClaimedJob, Job, Lease, Progress
from holdfast.core.job import NewJob as NewJob
from holdfast.core.states import State

# submit


# Not frozen: one is made for every submit, and freezing takes longer than making it.
@dataclass(slots=True, kw_only=True)
class Submit:
    """Jobs that are accepted together or not at all. Submits that share a call are independent of each other.

    ``is_keyed_as_one`` says that the items' keys were made from one key of the whole: a repeat finds all, or none.
    """

    jobs: Sequence[NewJob]
    is_keyed_as_one: bool = False


@dataclass(slots=True, unsafe_hash=True)
class Submitted:
    job_id: UUID
    is_duplicate: bool = False
    """The key already stood for ``job_id``; nothing was created."""


SubmitAnswer = tuple[Submitted, ...] | HoldfastError

# claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Take up to ``limit`` jobs, queue by queue in the order given, each by priority and then by place.

    ``nonce`` names the claim, and tokens are made from it (see ``lease_tokens``). A claim whose answer was lost is
    repeated with ``is_repeat``: it returns the leases it already has, if the first one got any.
    ``types`` limits the claim to job types this worker knows.
    """

    owner: UUID
    queues: tuple[str, ...]
    limit: int
    nonce: UUID
    is_repeat: bool = False
    types: tuple[str, ...] | None = None


def lease_tokens(nonce: UUID, limit: int) -> list[UUID]:
    """The tokens that a claim may give out, to its jobs in the order of their ``seq``: known before it is asked.

    So a lost answer can be asked for again, and a heartbeat can name the leases of a claim still in flight.
    """
    base = nonce.int & ~0xFFFF
    return [uuid_of(base | n) for n in range(limit)]


# claim by ID


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimIds:
    """Take these jobs, and by the rules of every claim: for a worker that was told of them.

    DELAYED and RETRYING jobs whose time has come are taken, too: whoever told of them may be ahead of tick. The order
    of ``ids`` counts where a job must be taken alone. ``nonce``, ``is_repeat`` and ``types`` are those of ``Claim``.
    """

    owner: UUID
    ids: tuple[UUID, ...]
    queues: tuple[str, ...]
    nonce: UUID
    is_repeat: bool = False
    types: tuple[str, ...] | None = None


class WhyNot(StrEnum):
    GONE = "GONE"
    """Unknown, ended, over its lifetime or waiting for other jobs. If it ever becomes claimable, that is news."""
    FOREIGN = "FOREIGN"
    """Of another queue or type than those claimed."""
    PAUSED = "PAUSED"
    """Its queue is. Once it is resumed, that is news."""
    EARLY = "EARLY"
    """Its time comes in ``in_seconds``."""
    BUSY = "BUSY"
    """It runs, or somebody holds it at the moment, or it or another one asked for must be taken alone."""


@dataclass(frozen=True, slots=True)
class NotClaimed:
    why: WhyNot
    in_seconds: float = 0.0


BUSY: Final = NotClaimed(WhyNot.BUSY)

ClaimIdAnswer = ClaimedJob | NotClaimed

# deliveries


@dataclass(frozen=True, slots=True)
class Hint:
    """There may be work: the jobs ``ids``, which are said to lie in ``queue``; or, where none is named, any.

    ``receipt`` is the delivery's own: by it, it knows the hint again.
    """

    queue: str | None = None
    ids: tuple[UUID, ...] = ()
    receipt: object = None

    @property
    def names_jobs(self) -> bool:
        return self.queue is not None and bool(self.ids)


@dataclass(frozen=True, slots=True)
class Release:
    """A hint that is to be given out again, to whomever, after a while."""

    hint: Hint
    delay_seconds: float = 0.0


# settle


@dataclass(frozen=True, slots=True)
class Completed:
    result: bytes | None = None
    spawn: tuple[NewJob, ...] = ()
    """Children, inserted in the transaction that completes their parent."""


@dataclass(frozen=True, slots=True)
class Failed:
    """``retry_in_seconds`` is the backoff, computed by the holder; None where this category is not retried."""

    failure: Failure
    retry_in_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class HandedBack:
    """Not run, or not to its end, through no fault of the job's: the attempt is not spent."""

    due_in_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """The holder saw the cancel request and stopped."""


Outcome = Completed | Failed | HandedBack | Stopped


@dataclass(slots=True, kw_only=True)
class Settlement:
    lease: Lease
    outcome: Outcome
    progress: Progress | None = None

    @property
    def is_plain_success(self) -> bool:
        """What a store may write for whole batches at once; everything else takes the verbs' way."""
        outcome = self.outcome
        return (
            type(outcome) is Completed
            and self.progress is None
            and not outcome.spawn
            and (outcome.result is None or len(outcome.result) <= limits.MAX_RESULT_BYTES)
        )


@dataclass(frozen=True, slots=True)
class Settled:
    state: State
    is_repeat: bool = False
    """This very lease had settled the job before; the first answer was lost."""


SettleAnswer = Settled | Conflict | NotFound | HoldfastError

# extend, progress and checkpoint


@dataclass(frozen=True, slots=True)
class Extended:
    expires_at: datetime
    cancel_requested: bool


ExtendAnswer = Extended | Conflict | Unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Progress, a checkpoint, or both; None leaves what is stored as it is."""

    lease: Lease
    progress: Progress | None = None
    checkpoint: bytes | None = None


ReportAnswer = None | Conflict | Unavailable

# cancel, replay


class CancelOutcome(StrEnum):
    CANCELLED = "CANCELLED"
    REQUESTED = "REQUESTED"
    """It is running: its holder is told, and ends it."""
    ALREADY_ENDED = "ALREADY_ENDED"
    NOT_FOUND = "NOT_FOUND"


class ReplayOutcome(StrEnum):
    REPLAYED = "REPLAYED"
    UNCHANGED = "UNCHANGED"
    """Not FAILED or DEAD_LETTER, perhaps because it was replayed before."""
    ENDED_BY_DEPENDENCY = "ENDED_BY_DEPENDENCY"
    NOT_FOUND = "NOT_FOUND"


@dataclass(frozen=True, slots=True)
class CancelAnswer:
    outcome: CancelOutcome
    state: State | None = None


@dataclass(frozen=True, slots=True)
class ReplayAnswer:
    job_id: UUID
    outcome: ReplayOutcome
    state: State | None = None
    dependency_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class ReplayPage:
    answers: tuple[ReplayAnswer, ...]
    next_cursor: int | None


# tick


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    batch: int = limits.TICK_BATCH_JOBS
    worker_timeout_seconds: float = limits.WORKER_TIMEOUT_SECONDS
    completed_retention_seconds: float = limits.DEFAULT_COMPLETED_RETENTION_SECONDS
    dead_retention_seconds: float = limits.DEFAULT_DEAD_RETENTION_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class TickReport:
    due: int = 0
    """DELAYED and RETRYING jobs whose time came."""
    reclaimed: int = 0
    """Leases taken from their holders: expired, or held by a dead worker."""
    lifetimes_ended: int = 0
    propagated: int = 0
    """Ended jobs whose dependents were told."""
    removed: int = 0
    has_more: bool = False
    """A batch was full: tick again at once."""
    quiet_seconds: float = field(default=0.0, compare=False)
    """A hint: for so long no DELAYED or RETRYING job comes due, but for new ones; 0 where that is not known."""


# cron


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """A slot of a periodic job has come. Without a job it is only written down, so that nothing before it is missed."""

    name: str
    slot: datetime
    job: NewJob | None = None


@dataclass(frozen=True, slots=True)
class Fired:
    job_id: UUID | None
    is_duplicate: bool = False
    """The job's key already stood for ``job_id``; the slot is fired all the same."""
    is_repeat: bool = False
    """This very fire was done before; the first answer was lost."""


@dataclass(frozen=True, slots=True)
class AlreadyFired:
    """The newest slot of that name, which is this one or a newer one, and its job."""

    slot: datetime
    job_id: UUID | None


FireAnswer = Fired | AlreadyFired | HoldfastError


@dataclass(frozen=True, slots=True, kw_only=True)
class CronSlot:
    name: str
    slot: datetime
    job_id: UUID | None
    fired_at: datetime


@dataclass(frozen=True, slots=True)
class CronState:
    now: datetime
    """By the store's clock."""
    slots: tuple[CronSlot, ...]
    """Of each name the newest that has come, by name."""


# read


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a job stands with the claim, beside what ``read`` says of it."""

    now: datetime
    """By the store's clock."""
    paused_at: datetime | None
    """Since when its queue is paused."""
    ahead: int | None
    """Of a SCHEDULED job: how many stand before it in its queue, counted up to limits.MAX_PLACE_JOBS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """All that is given must hold. Times bound ``created_at``, from inclusive, until exclusive."""

    states: frozenset[State] | None = None
    queue: str | None = None
    type: str | None = None
    group: str | None = None
    tag: tuple[str, str] | None = None
    created_from: datetime | None = None
    created_until: datetime | None = None


EQUAL: Final = tuple(one.name for one in fields(Filter) if one.name in FIELDS)
"""What a filter asks of a job's own fields, which then must be the same."""


@dataclass(frozen=True, slots=True)
class Page:
    """Newest first. A page may be short, even empty, and still have a cursor: go on until there is none."""

    jobs: tuple[Job, ...]
    next_cursor: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    name: str
    is_paused: bool
    counts: Mapping[State, int]
    oldest_scheduled_at: datetime | None


# workers


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    id: UUID
    name: str
    registered_at: datetime
    seen_at: datetime
    is_lost: bool
    running: int
    queues: tuple[str, ...] = ()
    """Which it serves; none where it did not say, and may serve any."""
    types: tuple[str, ...] = ()
    """Which it has handlers for; none where it did not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """One a worker, however many jobs it holds.

    ``held`` names every lease it knows. ``claiming`` names the tokens of claims still in flight: a lease with such a
    token is not yet known, and not to be handed back either.
    """

    worker: UUID
    held: tuple[Lease, ...]
    claiming: frozenset[UUID] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    is_known: bool
    """False: this worker was given up for lost; register again."""
    lost: frozenset[UUID]
    """Tokens held that are no longer valid."""
    cancel_requested: frozenset[UUID]
    handed_back: int
    """Leases in this worker's name that it did not know of."""


if not TYPE_CHECKING:  # else every name would be one of this module's

    def __getattr__(name: str) -> type[WorkerInfo]:
        """What 0.1 called otherwise, for one release."""
        if name != "Worker":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warnings.warn("holdfast.core.commands.Worker is called WorkerInfo", DeprecationWarning, stacklevel=2)
        return WorkerInfo
