"""The port's verbs over a World, synchronous: each reads the clock once and asks its module."""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

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
    Page,
    Place,
    QueueStats,
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
from holdfast.core.job import Attempt, ClaimedJob, Job, Lease, Upstream
from holdfast.core.ports import Clock
from holdfast.testing.model import crons, following, holding, manage, reads, ticks
from holdfast.testing.model import leases as leasing
from holdfast.testing.model import submits as submitting
from holdfast.testing.model.world import Hold, ModelJob, World


class Model:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.world = World(now=clock.now())

    def _now(self) -> World:
        self.world.now = self._clock.now()
        return self.world

    def submit(self, submits: Sequence[Submit]) -> list[SubmitAnswer]:
        return submitting.submit(self._now(), submits)

    def claim(self, claim: Claim, *, unseen: Collection[UUID] = ()) -> list[ClaimedJob]:
        return [reads.claimed(job) for job in leasing.claim(self._now(), claim, unseen=unseen)]

    def claim_ids(self, claim: ClaimIds) -> list[ClaimIdAnswer]:
        answers = leasing.claim_ids(self._now(), claim)
        return [reads.claimed(answer) if isinstance(answer, ModelJob) else answer for answer in answers]

    def settle(self, settlements: Sequence[Settlement]) -> list[SettleAnswer]:
        return leasing.settle(self._now(), settlements)

    def extend(self, leases: Sequence[Lease]) -> list[ExtendAnswer]:
        return leasing.extend(self._now(), leases)

    def report(self, reports: Sequence[Report]) -> list[ReportAnswer]:
        return leasing.report(self._now(), reports)

    def cancel(self, ids: Sequence[UUID]) -> list[CancelAnswer]:
        return manage.cancel(self._now(), ids)

    def replay(self, ids: Sequence[UUID]) -> list[ReplayAnswer]:
        return manage.replay(self._now(), ids)

    def replay_where(self, where: Filter, *, limit: int, cursor: int | None = None) -> ReplayPage:
        found, next_cursor = self._search(where, limit, cursor, is_replay=True)
        return ReplayPage(tuple(self.replay([job.id for job in found])), next_cursor)

    def fire(self, fires: Sequence[Fire]) -> list[FireAnswer]:
        return crons.fire(self._now(), fires)

    def tick(self, tick: Tick) -> TickReport:
        return ticks.tick(self._now(), tick)

    def follow_tick(self, tick: Tick, seen: Mapping[UUID, Job], *, lost: Collection[UUID]) -> None:
        following.follow_tick(self._now(), tick, seen, lost=lost)

    def begin(self) -> Hold:
        """A caller's transaction, open until ``commit`` or ``roll_back``."""
        return holding.begin(self._now())

    def submit_within(self, hold: Hold, submits: Sequence[Submit]) -> list[SubmitAnswer]:
        return holding.submit(self._now(), hold, submits)

    def commit(self, hold: Hold) -> None:
        holding.commit(self._now(), hold)

    def roll_back(self, hold: Hold) -> None:
        holding.roll_back(self._now(), hold)

    def read(self, ids: Sequence[UUID]) -> list[Job | None]:
        found = [self.world.jobs.get(job_id) for job_id in ids]
        return [reads.view(self.world, job) if job else None for job in found]

    def read_page(self, where: Filter, *, limit: int, cursor: int | None = None) -> Page:
        found, next_cursor = self._search(where, limit, cursor)
        return Page(tuple(reads.view(self.world, job) for job in found), next_cursor)

    def _search(
        self, where: Filter, limit: int, cursor: int | None, *, is_replay: bool = False
    ) -> tuple[list[ModelJob], int | None]:
        """Newest first. The cursor is the last seq handed out, and there is one only if more would come."""
        found = [
            job
            for job in reversed(self.world.jobs.values())
            if (cursor is None or job.seq < cursor)
            and reads.matches(job, where)
            and (job.state.is_replayable or not is_replay)
        ]
        return found[:limit], found[limit - 1].seq if len(found) > limit else None

    def read_attempts(self, job_id: UUID) -> list[Attempt]:
        job = self.world.jobs.get(job_id)
        return list(job.attempts) if job else []

    def read_upstream(self, job_id: UUID) -> list[Upstream]:
        job = self.world.jobs.get(job_id)
        return reads.upstream(self.world, job) if job else []

    def read_queues(self) -> list[QueueStats]:
        return [reads.queue(self.world, name) for name in sorted(self.world.queues | self.world.paused.keys())]

    def read_workers(self) -> list[WorkerInfo]:
        return reads.workers(self.world)

    def read_place(self, job_id: UUID) -> Place | None:
        job = self.world.jobs.get(job_id)
        return reads.place(self._now(), job) if job else None

    def read_cron(self) -> CronState:
        return crons.state(self._now())

    def pause(self, queue: str) -> None:
        self.world.paused.setdefault(queue, self._clock.now())

    def resume(self, queue: str) -> None:
        self.world.paused.pop(queue, None)

    def register(self, worker_id: UUID, *, name: str, queues: Sequence[str] = (), types: Sequence[str] = ()) -> None:
        leasing.register(self._now(), worker_id, name, serves=(tuple(queues), tuple(types)))

    def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        return leasing.heartbeat(self._now(), heartbeat)

    def leave(self, worker_id: UUID) -> None:
        leasing.leave(self._now(), worker_id)
