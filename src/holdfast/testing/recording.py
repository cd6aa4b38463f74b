"""The store of an app under test: the one in memory, which keeps what was submitted and tells what comes next.

Two things differ from a store that people work with, so that a test says the same every time it runs: backoff has no
jitter, and a submit in the caller's own transaction is accepted at once, because there is no transaction to take part
in.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from holdfast.core.commands import (
    CancelAnswer,
    Completed,
    Fire,
    FireAnswer,
    Fired,
    NewJob,
    ReplayAnswer,
    SettleAnswer,
    Settled,
    Settlement,
    Submit,
    SubmitAnswer,
    Tick,
    TickReport,
)
from holdfast.core.job import AttemptLog, Job, LogKey
from holdfast.core.ports import Clock
from holdfast.core.retry import Jitter
from holdfast.core.states import State
from holdfast.stores.memory import MemoryStore

WAITING_FOR_TIME: Final = frozenset({State.DELAYED, State.RETRYING})
FAILING: Final = frozenset({State.RETRYING, State.FAILED, State.DEAD_LETTER})
"""A job in one of these has an attempt, or an end, that somebody should know of."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A job as it was when it was accepted, and the connection it was submitted with."""

    job: Job
    connection: Any = None


class RecordingStore(MemoryStore):
    """``on_news`` is called when there may be something new to do: jobs to claim, or a cancel to heed."""

    def __init__(self, *, clock: Clock) -> None:
        super().__init__(clock=clock)
        self.accepted: list[Accepted] = []
        self.on_news: Callable[[], None] = lambda: None
        self._recorded: set[UUID] = set()

    # verbs that bring jobs

    async def submit(self, submits: Sequence[Submit], *, connection: Any = None) -> list[SubmitAnswer]:
        exact = [replace(one, jobs=tuple(_without_jitter(job) for job in one.jobs)) for one in submits]
        answers = await super().submit(exact)
        self._record((job for one in exact for job in one.jobs), connection=connection)
        return answers

    async def fire(self, fires: Sequence[Fire]) -> list[FireAnswer]:
        exact = [replace(one, job=one.job and _without_jitter(one.job)) for one in fires]
        answers = await super().fire(exact)
        self._record(
            one.job for one, answer in zip(exact, answers, strict=True) if one.job and isinstance(answer, Fired)
        )
        return answers

    async def settle(self, settlements: Sequence[Settlement]) -> list[SettleAnswer]:
        exact = [_with_exact_children(one) for one in settlements]
        answers = await super().settle(exact)
        for one, answer in zip(exact, answers, strict=True):
            if isinstance(one.outcome, Completed) and isinstance(answer, Settled):
                self._record(one.outcome.spawn)
        self.on_news()
        return answers

    def _record(self, jobs: Iterable[NewJob], *, connection: Any = None) -> None:
        """Those that are there now: neither refused ones nor duplicates are."""
        for job in jobs:
            seq = self._tables.seqs.get(job.id)
            if seq is not None and job.id not in self._recorded:
                self._recorded.add(job.id)
                self.accepted.append(Accepted(self._job(seq), connection))
        self.on_news()

    # verbs that may make others claimable

    async def cancel(self, ids: Sequence[UUID]) -> list[CancelAnswer]:
        answers = await super().cancel(ids)
        self.on_news()
        return answers

    async def replay(self, ids: Sequence[UUID]) -> list[ReplayAnswer]:
        answers = await super().replay(ids)
        self.on_news()
        return answers

    async def tick(self, tick: Tick) -> TickReport:
        report = await super().tick(tick)
        self.on_news()
        return report

    async def resume(self, queue: str) -> None:
        await super().resume(queue)
        self.on_news()

    # what comes next

    def next_due_at(self) -> datetime | None:
        """When the next job comes that waits for its time."""
        due = (record.due_at for record in self._tables.records.values() if record.state in WAITING_FOR_TIME)
        return min((at for at in due if at is not None), default=None)

    def next_lifetime_end(self) -> datetime | None:
        records = self._tables.records.values()
        return min((record.lifetime_ends_at for record in records if not record.state.is_terminal), default=None)

    def has_ends_to_tell(self) -> bool:
        """A long cascade of dependents goes on in tick."""
        return bool(self._tables.marks)

    def failing(self) -> list[Job]:
        return [self._job(seq) for seq, record in self._tables.records.items() if record.state in FAILING]

    def waiting(self) -> list[Job]:
        """What has not ended, what is due soonest first."""
        jobs = [self._job(seq) for seq, record in self._tables.records.items() if not record.state.is_terminal]
        return sorted(jobs, key=lambda job: (job.due_at is None, job.due_at or job.created_at, job.seq))

    def queue_names(self) -> tuple[str, ...]:
        """Of all jobs that can be claimed, in an order that does not change from run to run."""
        return tuple(sorted({self._tables.records[seq].queue for seq in self._tables.places}))


class RecordingLogs:
    """Execution logs in a dictionary."""

    def __init__(self) -> None:
        self._logs: dict[UUID, dict[UUID, AttemptLog]] = {}

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def write(self, entry: LogKey, data: bytes) -> None:
        log = AttemptLog(attempt=entry.attempt, attempt_id=entry.attempt_id, data=data)
        self._logs.setdefault(entry.job_id, {})[entry.attempt_id] = log

    async def read(self, job_id: UUID, *, created_at: datetime) -> list[AttemptLog]:  # noqa: ARG002 - the port's
        return list(self._logs.get(job_id, {}).values())

    async def remove_before(self, day: date) -> int:  # noqa: ARG002 - the port's
        """They go with the test."""
        return 0


def _without_jitter(job: NewJob) -> NewJob:
    # What is no Retry at all is refused by name, later.
    if getattr(job.retry, "jitter", Jitter.NONE) is Jitter.NONE:
        return job
    return replace(job, retry=replace(job.retry, jitter=Jitter.NONE))


def _with_exact_children(settlement: Settlement) -> Settlement:
    outcome = settlement.outcome
    if not isinstance(outcome, Completed) or not outcome.spawn:
        return settlement
    return replace(settlement, outcome=replace(outcome, spawn=tuple(_without_jitter(job) for job in outcome.spawn)))
