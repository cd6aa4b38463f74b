"""What there is: jobs, keys, workers, paused queues, and the time."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from holdfast.core.commands import CronSlot, NewJob
from holdfast.core.dependencies import DependencyKind
from holdfast.core.failures import Failure
from holdfast.core.job import Attempt, Progress
from holdfast.core.priority import Priority
from holdfast.core.states import State


@dataclass(slots=True)
class Wait:
    """One thing a job waits for, open until it has happened."""

    kind: DependencyKind
    is_open: bool


@dataclass(slots=True, kw_only=True)
class ModelJob:
    given: NewJob
    seq: int
    priority: Priority
    depth: int
    created_at: datetime
    updated_at: datetime
    run_at: datetime | None
    lifetime_ends_at: datetime
    waits: dict[UUID, Wait]
    spawned_by: UUID | None = None

    state: State = State.PENDING
    place: int = 0
    attempt: int = 0
    version: int = 0
    replays: int = 0
    is_fragile: bool = False
    due_at: datetime | None = None
    scheduled_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None

    token: UUID | None = None
    owner: UUID | None = None
    expires_at: datetime | None = None
    cancel_requested: bool = False

    last_token: UUID | None = None
    attempts: list[Attempt] = field(default_factory=list)
    progress: Progress | None = None
    checkpoint: bytes | None = None
    result: bytes | None = None
    failure: Failure | None = None
    ended_by: UUID | None = None

    @property
    def id(self) -> UUID:
        return self.given.id


@dataclass(slots=True)
class ModelKey:
    job_id: UUID
    digest: bytes
    expires_at: datetime


@dataclass(slots=True, kw_only=True)
class ModelWorker:
    id: UUID
    name: str
    registered_at: datetime
    seen_at: datetime
    queues: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    is_lost: bool = False


@dataclass(slots=True, eq=False)
class Hold:
    """A caller's transaction that is still open: what it has made, and what nobody else can have meanwhile."""

    jobs: dict[UUID, ModelJob] = field(default_factory=dict)
    keys: dict[tuple[str, str], ModelKey] = field(default_factory=dict)
    locked_jobs: set[UUID] = field(default_factory=set)
    locked_keys: set[tuple[str, str]] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class World:
    now: datetime
    jobs: dict[UUID, ModelJob] = field(default_factory=dict)
    """In the order of acceptance, which is the order of ``seq``."""
    keys: dict[tuple[str, str], ModelKey] = field(default_factory=dict)
    workers: dict[UUID, ModelWorker] = field(default_factory=dict)
    paused: dict[str, datetime] = field(default_factory=dict)
    queues: set[str] = field(default_factory=set)
    """Every queue that ever had a job."""
    slots: list[CronSlot] = field(default_factory=list)
    """Of periodic jobs, as they were fired: of each name the newest last."""
    untold: list[ModelJob] = field(default_factory=list)
    """Ended in this step; their dependents do not know yet."""
    owed: list[tuple[ModelJob, ModelJob]] = field(default_factory=list)
    """Ended, with a dependent that could not be told because somebody held one of them: tick tells it."""
    holds: list[Hold] = field(default_factory=list)
    last_seq: int = 0
    last_place: int = 0
    last_tick_at: datetime | None = None
    silence_counts_from: datetime | None = None

    def leases_of(self, worker: UUID) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.state is State.RUNNING and job.owner == worker]

    def is_held(self, job: ModelJob) -> bool:
        return any(job.id in hold.locked_jobs for hold in self.holds)
