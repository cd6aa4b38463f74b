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


@dataclass(slots=True)
class _Open:
    job_ids: tuple[UUID, ...]
    answer: Answer = field(default=Answer.UNKNOWN)
    answered_at: float = 0.0


def read_groups(logs: Iterable[Path]) -> list[Group]:
    """What all runs of the submitter were told."""
    groups: list[Group] = []
    for log in logs:
        tried: dict[str, _Open] = {}
        for line in log.read_text(encoding="utf-8").splitlines():
            word, number, *rest = line.split(" ")
            if word == "try":
                tried[number] = _Open(tuple(UUID(job_id) for job_id in rest[0].split(",")))
            else:
                tried[number].answer = Answer.ACKNOWLEDGED if word == "yes" else Answer.REJECTED
                tried[number].answered_at = float(rest[0])
        groups += [Group(one.job_ids, one.answer, one.answered_at) for one in tried.values()]
    return groups
