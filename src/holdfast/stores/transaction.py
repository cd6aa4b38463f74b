"""What a store offers to the verbs: a transaction over Records.

The verbs (``stores/verbs``) are written once: lock, decide in ``core``, write. A store implements these primitives, and
beside them its own statements for the few verbs that must be fast for whole batches. Methods are coroutines because
PostgreSQL's must be; SQLite's and memory's never suspend, and are driven by ``run_now``.

TRANSACTION-1. A Record returned by a lock stays true until the transaction ends.
TRANSACTION-2. ``write`` counts every change of state in the tally, and nothing else does for the verbs.
"""

from collections.abc import Collection, Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar
from uuid import UUID

from holdfast.core.commands import CronSlot, NewJob, Tick
from holdfast.core.dependencies import Edge
from holdfast.core.idempotency import KeyClaim, KeyHolder
from holdfast.core.job import Attempt, Progress, Record

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Change:
    before: Record
    after: Record


class Transaction(Protocol):
    now: datetime
    marked: set[int]
    """Of the marks that this transaction left: those whose dependents it has not told."""

    # jobs
    async def lock(self, seqs: Collection[int]) -> dict[int, Record]:
        """The records that exist, locked, wherever they stand."""
        ...

    async def lock_free(self, seqs: Collection[int]) -> tuple[dict[int, Record], set[int]]:
        """Without waiting for anybody: the records that could be locked, and the jobs that somebody else holds."""
        ...

    async def lock_ids(self, ids: Collection[UUID]) -> dict[UUID, Record]: ...

    async def existing_ids(self, ids: Collection[UUID]) -> set[UUID]: ...

    async def reserve_seqs(self, count: int) -> list[int]:
        """Ascending; never used before or after."""
        ...

    async def insert(self, jobs: Sequence[tuple[Record, NewJob]]) -> None:
        """New jobs in the order of their places, each in the state of its Record."""
        ...

    async def write(self, changes: Sequence[Change]) -> None:
        """Move jobs from where they stood to where they stand now; also changes within a state."""
        ...

    async def place_again(self, records: Sequence[Record]) -> None:
        """SCHEDULED ones: as if they became claimable now, each takes a new place, behind all others."""
        ...

    async def keep_attempts(self, attempts: Sequence[tuple[int, Attempt]]) -> None: ...

    async def ended_by_holder(self, leases: Collection[tuple[int, UUID]]) -> set[tuple[int, UUID]]:
        """Of these (seq, token) those whose attempt was ended by its holder."""
        ...

    async def save_notes(self, notes: Sequence[tuple[int, Progress | None, bytes | None]]) -> None:
        """Progress and checkpoint of a job (seq); None leaves what is there."""
        ...

    # keys
    async def lock_keys(self, claims: Sequence[KeyClaim]) -> list[KeyHolder | None]:
        """Who has each key, if anybody; no one else can take or change it until this transaction ends."""
        ...

    async def put_keys(self, claims: Sequence[KeyClaim]) -> None: ...

    async def drop_keys(self, claims: Sequence[KeyClaim]) -> None:
        """Give back keys that lock_keys found free and that were not put."""
        ...

    # edges
    async def add_edges(self, edges: Sequence[Edge]) -> None: ...

    async def edges_to(self, children: Collection[int]) -> list[Edge]: ...

    async def edges_from(self, parents: Collection[int]) -> list[Edge]: ...

    async def open_edges_from(self, parents: Collection[int], *, limit: int) -> list[Edge]: ...

    async def set_edges(self, edges: Sequence[Edge]) -> None:
        """Write is_open."""
        ...

    async def close_alternatives(self, children: Collection[int]) -> None:
        """Close all AFTER_ANY edges of these children."""
        ...

    async def with_open_edges(self, children: Collection[int]) -> set[int]: ...

    async def spawned(self, parents: Collection[int]) -> list[Record]:
        """The children these jobs spawned, locked."""
        ...

    # marks: ended jobs whose dependents have not been told
    async def mark(self, seqs: Collection[int]) -> None:
        """Only under the lock of the job, as is unmark."""
        ...

    async def unmark(self, seqs: Collection[int]) -> None: ...

    async def find_marks(self, *, limit: int) -> list[int]:
        """What others have left behind. Not locked."""
        ...

    # the slots of periodic jobs
    async def lock_slots(self) -> None:
        """Nobody else fires until this transaction ends."""
        ...

    async def find_slots(self, wanted: Sequence[tuple[str, datetime]]) -> list[CronSlot]:
        """Of each name asked for: that very slot, and the newest that has come. One that is both may come twice."""
        ...

    async def add_slots(self, slots: Sequence[CronSlot]) -> None: ...

    # time; each returns locked Records, and skips what another process is at work on
    async def find_due(self, *, limit: int) -> list[Record]: ...

    async def find_expired(self, *, limit: int) -> list[Record]: ...

    async def find_overaged(self, *, limit: int) -> list[Record]:
        """Not terminal, not RUNNING, and over their lifetime."""
        ...

    async def find_unknown_leases(
        self, owner: UUID, *, known: Collection[tuple[int, UUID]], claiming: Collection[UUID]
    ) -> list[Record]: ...

    async def find_leases_of_lost_workers(self, *, limit: int) -> list[Record]: ...

    async def mark_lost_workers(self, *, timeout_seconds: float) -> None: ...

    async def mark_gone_workers(self, workers: Collection[UUID]) -> None:
        """Their processes have died, unless they prove the opposite in this moment."""
        ...

    async def beat(self, *, timeout_seconds: float) -> datetime:
        """Note that a tick ran; the time from which on silence counts against workers again."""
        ...

    async def remove_ended(self, tick: Tick) -> int:
        """Remove at most a batch of jobs past their retention; and keys, workers and slots past theirs."""
        ...


def run_now(verb: Coroutine[Any, Any, Answer]) -> Answer:
    """Drive a verb whose transaction never suspends."""
    try:
        verb.send(None)
    except StopIteration as done:
        answer: Answer = done.value
        return answer
    verb.close()
    raise RuntimeError("a transaction that must not suspend did")
