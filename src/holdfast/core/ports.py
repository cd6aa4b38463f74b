"""The ports: what the engine and workers ask of the outside, in whole domain operations and in batches.

A store is the truth. Its numbered promises, which the conformance suite in ``holdfast.testing`` cites:

PORT-1. Every verb is one atomic step (or, item by item, several independent ones) and durable when it returns.
PORT-2. Every write out of RUNNING, and extend and report, names the lease token it believes in; a stale one changes
    nothing.
PORT-3. Timestamps are the store's own clock, UTC, read once a transaction.
PORT-4. Every verb may be repeated after ``Unavailable``: it loses nothing and doubles nothing.
PORT-5. A store is told only what ``core/checks`` lets through: the engine checks what front doors say, and
    ``engine/work`` what workers say. What only the data can tell (an unknown dependency, a key with another payload)
    the store refuses before anything is written, in the same words as every other.
PORT-6. tick may run in any number of processes at once.
PORT-7. A job or key that somebody else's open transaction holds delays what needs it, and nothing else. A verb that
    answers item by item answers such an item with Unavailable and goes on with the others. cancel and replay deal with
    the others, then raise Unavailable, which names it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Protocol
from uuid import UUID

from holdfast.core.access import ApiKey, NewKey, StoredKey
from holdfast.core.commands import (
    CancelAnswer,
    Claim,
    ClaimIdAnswer,
    ClaimIds,
    CronState,
    ExtendAnswer,
    Filter,
    Fire,
    FireAnswer,
    Heartbeat,
    HeartbeatAnswer,
    Hint,
    Page,
    Place,
    QueueStats,
    Release,
    ReplayAnswer,
    ReplayPage,
    Report,
    ReportAnswer,
    SettleAnswer,
    Settlement,
    Submit,
    SubmitAnswer,
    Tick,
    TickReport,
    WorkerInfo,
)
from holdfast.core.examination import Code, Examination, Examined, Look
from holdfast.core.job import Attempt, AttemptLog, ClaimedJob, Job, Lease, LogKey, Upstream
from holdfast.core.liveness import DEFAULT_TIMING, Timing


class Clock(Protocol):
    """Given to a store only by tests: without one, a store reads its own clock (PORT-3)."""

    def now(self) -> datetime: ...


class ApiKeys(Protocol):
    """API keys, in the same database as the jobs (ACCESS-1 to ACCESS-4)."""

    async def add_key(self, new: NewKey) -> ApiKey:
        """Keep a key; who repeats it finds it as it is by now. KeyConflict where the ID belongs to another one."""
        ...

    async def revoke_key(self, key_id: UUID) -> ApiKey:
        """For good; the first time counts. Raises KeyNotFound."""
        ...

    async def find_key(self, key_id: UUID) -> StoredKey | None:
        """With the digest and the time: what ``require_access`` decides from."""
        ...

    async def read_keys(self) -> list[ApiKey]:
        """All there ever were, oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class Standstill:
    """Proof that nobody can write: not this process, and nobody else has since."""

    since: float
    """By the monotonic clock. Nothing was committed after it, so no lease was taken from anybody."""
    seen_at: float
    """When it was looked last. What this store has yet to write is written later than that."""
    reason: str


class News(Protocol):
    """What a store notices of its own data: commits of this process at once, those of others by its driver's means."""

    async def next(self, queues: Sequence[str]) -> None:
        """Sleep until jobs may have become claimable in one of the queues. It may come for nothing, and be missed."""
        ...


class Store(ApiKeys, Protocol):
    @property
    def standstill(self) -> Standstill | None:
        """Set while a write of this store's is kept waiting and it can prove that nobody else's succeeds.

        None where it has no such proof, so always where the database is reached through a network.
        """
        ...

    @property
    def absent_since(self) -> float | None:
        """Since when others may take this worker's process for dead, by the monotonic clock.

        Set while the proof that ``attend`` gave is lost, and could neither be given again nor taken back.
        """
        ...

    @property
    def news(self) -> News:
        """For whoever polls this store: the delivery ``poll``."""
        ...

    @property
    def may_hold_submits(self) -> bool:
        """Whether a submit with a key or dependencies may wait for somebody's transaction while others go on."""
        ...

    async def open(self) -> None:
        """Connect and check the schema: SchemaMissing or SchemaMismatch say what to run."""
        ...

    async def close(self) -> None: ...

    async def submit(self, submits: Sequence[Submit], *, connection: Any = None) -> list[SubmitAnswer]:
        """Accept each submit whole or not at all, independently of the others in the call.

        With ``connection``, inside the caller's own transaction: nothing is accepted before the caller commits.
        """
        ...

    async def claim(self, claim: Claim) -> list[ClaimedJob]:
        """Lease jobs to a registered worker, in the order they should start. Raises WorkerNotFound."""
        ...

    async def claim_ids(self, claim: ClaimIds) -> list[ClaimIdAnswer]:
        """Lease the jobs with these IDs that any claim could have had now. Raises WorkerNotFound."""
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> list[SettleAnswer]:
        """Say how attempts ended. A stale lease is answered with StaleLease and never fails its neighbours (PORT-7)."""
        ...

    async def extend(self, leases: Sequence[Lease]) -> list[ExtendAnswer]: ...

    async def report(self, reports: Sequence[Report]) -> list[ReportAnswer]:
        """Write progress and checkpoints."""
        ...

    async def cancel(self, ids: Sequence[UUID]) -> list[CancelAnswer]: ...

    async def replay(self, ids: Sequence[UUID]) -> list[ReplayAnswer]: ...

    async def replay_where(self, where: Filter, *, limit: int, cursor: int | None = None) -> ReplayPage:
        """Replay a page of the FAILED and DEAD_LETTER jobs that match; go on with the cursor."""
        ...

    async def fire(self, fires: Sequence[Fire]) -> list[FireAnswer]:
        """Accept the jobs of slots that have come, each slot once however many ask (CRON-1 to CRON-3).

        A refused job leaves its slot to be fired, and never fails its neighbours.
        """
        ...

    async def tick(self, tick: Tick) -> TickReport:
        """Move time on: what is due, expired, lost, over its lifetime, to be propagated, past its retention."""
        ...

    async def read(self, ids: Sequence[UUID]) -> list[Job | None]: ...

    async def read_page(self, where: Filter, *, limit: int, cursor: int | None = None) -> Page: ...

    async def read_attempts(self, job_id: UUID) -> list[Attempt]:
        """The spent attempts, oldest first."""
        ...

    async def read_upstream(self, job_id: UUID) -> list[Upstream]:
        """What the job waited for, with the results."""
        ...

    async def read_queues(self) -> list[QueueStats]:
        """Every queue that has, or had, jobs or is paused; exact, and cheap at any number of jobs."""
        ...

    async def read_workers(self) -> list[WorkerInfo]: ...

    async def read_place(self, job_id: UUID) -> Place | None:
        """Where a job stands with the claim; None where there is no such job."""
        ...

    async def read_cron(self) -> CronState:
        """The newest slot of every periodic job that was ever fired or anchored, and the time."""
        ...

    async def pause(self, queue: str) -> None: ...

    async def resume(self, queue: str) -> None: ...

    async def register(
        self, worker_id: UUID, *, name: str, queues: Sequence[str] = (), types: Sequence[str] = ()
    ) -> None:
        """A worker is there. What it serves is kept for people who ask; a claim says for itself what it wants."""
        ...

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer: ...

    async def attend(self, worker_id: UUID, *, worker_timeout_seconds: float, tick: Tick | None) -> None:
        """Prove, until cancelled, that a registered worker's process lives (PRESENCE-1, PRESENCE-2).

        With ``tick``, the leases of workers whose process has died are reclaimed meanwhile, in batches of that size.
        Where the store has no such proof it returns at once; then silence is the rule, for this worker and by it.
        """
        ...

    async def leave(self, worker_id: UUID) -> None:
        """The worker stops in good order; leases it still has are handed back."""
        ...

    async def examine(self, examination: Examination) -> Examined:
        """Which rules the data breaks, all of it seen at one moment (EXAMINE-1)."""
        ...

    async def find_overdue(self, timing: Timing = DEFAULT_TIMING) -> Look:
        """Jobs that nobody has moved by their time (``core/liveness``), the worst up to limits.MAX_OVERDUE_JOBS."""
        ...

    async def repair(self, code: Code, examination: Examination, *, seqs: Collection[int] = ()) -> None:
        """Put right what an examination finds under this code, as far as nobody holds it (EXAMINE-2).

        What time does is tick's; only OVERDUE_SCHEDULED takes ``seqs``: jobs that claims pass by get a new place.
        """
        ...


class Delivery(Protocol):
    """How a worker hears of work. It carries hints and decides nothing: the store says what may be claimed.

    DELIVERY-1. A hint is advice. One that is lost, late, early, given twice, meant for somebody else or made up costs
        time and nothing else. So a delivery may forget everything at any instant.
    DELIVERY-2. ``receive`` gives out jobs for at most ``limit`` slots, of each queue at most its room, and comes back
        within ``timeout_seconds``, with nothing if there is nothing. Cancelled, it has given out nothing.
    DELIVERY-3. A hint with a receipt is held for its worker until it is finished or released. If neither happens,
        because the delivery was closed or its process died, it is given out again.
    DELIVERY-4. A worker finishes a hint once the store has the outcome of every job that it claimed by it, or has said
        that there is nothing to claim. It releases a hint of which a job could not be claimed yet, or not here. Both
        may be repeated, and may come too late.
    DELIVERY-5. Where the delivery is away, its methods raise Unavailable, and may be called again.
    """

    @property
    def tells_all(self) -> bool:
        """Whether whatever becomes claimable is told of. Where it is not, workers also look for themselves."""
        ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def receive(self, room: Mapping[str, int], *, limit: int, timeout_seconds: float) -> Sequence[Hint]:
        """Wait for work in these queues, which are served in this order. ``room``: of each, how many jobs at most."""
        ...

    async def finish(self, hints: Sequence[Hint]) -> None: ...

    async def release(self, releases: Sequence[Release]) -> None: ...


class LogStore(Protocol):
    """Execution logs: what handlers said, an object an attempt, outside the database.

    LOGSTORE-1. A log is never the truth: its loss changes no job.
    LOGSTORE-2. Logs are found by the job's ID and the day it was created, so that retention can drop whole days.
    """

    async def open(self) -> None:
        """ConfigError where the place cannot be written, Unavailable where it cannot be reached."""
        ...

    async def close(self) -> None: ...

    async def write(self, entry: LogKey, data: bytes) -> None:
        """Put the whole log of an attempt, in place of what was there."""
        ...

    async def read(self, job_id: UUID, *, created_at: datetime) -> list[AttemptLog]:
        """Oldest attempt first."""
        ...

    async def remove_before(self, day: date) -> int:
        """Remove the logs of jobs created before that day; how many objects that were."""
        ...
