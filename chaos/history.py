"""What is left of a run, as plain facts: what the submitter was told, what handlers did, what the store knows.

The store's side is read from its tables and from the witness (``sql/audit_*.sql``), not through the store's own code.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from uuid import UUID

from chaos.ledger import Entry


class Answer(StrEnum):
    ACKNOWLEDGED = "acknowledged"
    UNKNOWN = "unknown"
    """The answer was lost: accepted or not, both are right, but half is not."""
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs that were submitted together."""

    job_ids: tuple[UUID, ...]
    answer: Answer
    answered_at: float = 0.0
    """By the monotonic clock."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """A submit with a key."""

    key: str
    tried: tuple[UUID, ...]
    """The jobs that it would have made."""
    answer: Answer
    answered: tuple[UUID, ...] = ()
    """The jobs that the key stands for, as it was told."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Of a job that had not ended, in a transaction."""

    job_id: UUID
    answer: Answer
    """Acknowledged by the commit, rejected by a rollback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What all who submitted and cancelled were told."""

    groups: Sequence[Group] = ()
    keyed: Sequence[Keyed] = ()
    cancels: Sequence[Cancel] = ()


class LeaseEvent(StrEnum):
    BORN = "born"
    EXTENDED = "extended"
    DIED = "died"
    NOTED = "noted"
    """A checkpoint was stored; ``token`` is the lease that was valid then, ``said`` the one that the handler named."""


@dataclass(frozen=True, slots=True)
class Audit:
    number: int
    event: LeaseEvent
    job_id: UUID
    token: UUID | None
    version: int | None = None
    said: str | None = None
    at: float = field(default=0.0, compare=False)
    """By the monotonic clock that all processes of the machine share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    id: UUID
    max_attempts: int
    places: tuple[str, ...]
    """The tables it stands in: one, or something is very wrong."""
    state: str | None = None
    """Of one that has ended."""
    attempt: int = 0
    token: UUID | None = None
    """The lease that ended it; None where none did."""
    result: str | None = None
    started_at: float | None = None
    ended_at: float | None = None

    @property
    def is_terminal(self) -> bool:
        return self.places == ("ended",)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentAttempt:
    job_id: UUID
    number: int
    token: UUID
    started_at: float
    ended_at: float
    code: str
    message: str
    is_ended_by_holder: bool


@dataclass(frozen=True, slots=True)
class Edge:
    child: UUID
    parent: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Everything the store knows at the end."""

    jobs: Mapping[UUID, StoredJob]
    attempts: Sequence[SpentAttempt] = ()
    audit: Sequence[Audit] = ()
    edges: Sequence[Edge] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A fault while it lasted, by the monotonic clock."""

    fault: str
    began_at: float
    ended_at: float
    frozen: int | None = None
    """The worker's process that was stopped, and could tell nobody anything."""
    is_upset: bool = False
    """The store itself forgot claims that it had answered, or ended leases early, when it began."""
    locked: tuple[UUID, ...] = ()
    """The jobs whose rows a caller's transaction held: their leases could not be extended."""
    cut_off: tuple[UUID, ...] = ()
    """The jobs whose holder died, or could not be reached, when it began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """A job that stood past its bound: see ``overdue``."""

    job_id: UUID
    seconds: float
    """For how long."""
    at_seconds: float
    """How long after the first look that was."""
    why: str

    def __str__(self) -> str:
        return f"{self.job_id} stood {self.seconds:.1f} s past its bound at {self.at_seconds:.0f} s: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """A primary was killed, and its standby promoted; times by the monotonic clock."""

    held_at: float
    """From then on nothing reached the standby; at a synchronous one, when the primary was killed."""
    promoted_at: float
    is_synchronous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    groups: Sequence[Group]
    ledger: Sequence[Entry]
    stored: Stored
    troubles: Sequence[Trouble] = ()
    failovers: Sequence[Failover] = ()
    keyed: Sequence[Keyed] = ()
    cancels: Sequence[Cancel] = ()
    overdue: Sequence[Overdue] = ()
    """What the watch has seen stand past its bound."""
    examination: Sequence[str] = ()
    """What ``holdfast doctor`` found in the database at the end."""


@dataclass(slots=True)
class _Open:
    word: str
    job_ids: tuple[UUID, ...]
    key: str | None = None
    answer: Answer = field(default=Answer.UNKNOWN)
    answered_at: float = 0.0
    answered: tuple[UUID, ...] = ()


def read_answers(logs: Iterable[Path]) -> Answers:
    """From the lines that the submitter and callers with transactions of their own have written."""
    said = [one for log in logs for one in _read(log)]
    submits = [one for one in said if one.word == "try"]
    return Answers(
        groups=[Group(one.job_ids, one.answer, one.answered_at) for one in submits if one.key is None],
        keyed=[Keyed(one.key, one.job_ids, one.answer, one.answered) for one in submits if one.key is not None],
        cancels=[Cancel(one.job_ids[0], one.answer) for one in said if one.word == "cancel"],
    )


def _read(log: Path) -> Iterable[_Open]:
    tried: dict[str, _Open] = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        word, number, *rest = line.split(" ")
        if word in ("try", "cancel"):
            tried[number] = _Open(word, _ids(rest[0]), rest[1] if len(rest) > 1 else None)
        else:
            answered_at, *ids = rest
            tried[number].answer = Answer.ACKNOWLEDGED if word == "yes" else Answer.REJECTED
            tried[number].answered_at = float(answered_at)
            tried[number].answered = _ids(*ids)
    return tried.values()


def _ids(text: str = "") -> tuple[UUID, ...]:
    return tuple(UUID(job_id) for job_id in text.split(",")) if text else ()
