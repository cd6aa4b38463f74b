"""The port over dictionaries: the verbs as they are, and reads by walking everything."""

from collections.abc import Callable, Collection, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from holdfast.core import decisions, limits
from holdfast.core.access import ApiKey, NewKey, StoredKey
from holdfast.core.commands import (
    BUSY,
    EQUAL,
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
    lease_tokens,
)
from holdfast.core.dependencies import Dependency
from holdfast.core.errors import UsageError, WorkerNotFound
from holdfast.core.examination import Code, Examination, Examined, Look
from holdfast.core.job import Attempt, ClaimedJob, Job, Lease, Record, Upstream, as_given, lease_of
from holdfast.core.liveness import DEFAULT_TIMING, Timing
from holdfast.core.ports import Clock
from holdfast.core.states import REPLAYABLE, State
from holdfast.stores.memory import api_keys, doctor
from holdfast.stores.memory.transaction import MemoryTransaction, Note, Tables, WorkerRow
from holdfast.stores.transaction import Change, run_now
from holdfast.stores.verbs import tick as tick_verbs
from holdfast.stores.verbs.cancel import cancel
from holdfast.stores.verbs.change import propagate
from holdfast.stores.verbs.claim import claim_ids
from holdfast.stores.verbs.fire import fire
from holdfast.stores.verbs.lease import extend, hand_back_unknown, report
from holdfast.stores.verbs.replay import replay
from holdfast.stores.verbs.settle import settle
from holdfast.stores.verbs.submit import submit
from holdfast.stores.wakeup import Wakeups

Answer = TypeVar("Answer")


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class MemoryStore:
    may_hold_submits: Final = False
    standstill: Final = None
    absent_since: Final = None

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        scan_budget: int = limits.SCAN_BUDGET_JOBS,
    ) -> None:
        self._tables = Tables()
        self._clock = clock or SystemClock()
        self._scan_budget = scan_budget
        self.news = Wakeups()

    async def open(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to let go of."""

    def _run(self, verb: Callable[[MemoryTransaction], Coroutine[Any, Any, Answer]]) -> Answer:
        tx = MemoryTransaction(self._tables, self._clock.now())
        answer = run_now(verb(tx))
        if tx.marked:
            run_now(propagate(tx))
        self.news.wake(tx.awakened)
        return answer

    # the verbs

    async def submit(self, submits: Sequence[Submit], *, connection: Any = None) -> list[SubmitAnswer]:
        if connection is not None:
            raise UsageError("memory:// has no transactions of yours to take part in; leave out connection=")
        return self._run(lambda tx: submit(tx, submits))

    async def claim(self, claim: Claim) -> list[ClaimedJob]:
        return self._run(lambda tx: self._claim(tx, claim))

    async def _claim(self, tx: MemoryTransaction, claim: Claim) -> list[ClaimedJob]:
        self._require_worker(claim.owner)
        tokens = lease_tokens(claim.nonce, claim.limit)
        if claim.is_repeat and (given := self._given(tx, claim.owner, tokens)):
            return [self._claimed(record) for record in given]
        leased = []
        claimable = self._claimable(claim, tx.now)
        token_of = dict(zip(sorted(record.seq for record in claimable), tokens, strict=False))
        for record in claimable:
            token = token_of[record.seq]
            running = decisions.claim(record, owner=claim.owner, token=token, now=tx.now)
            await tx.write([Change(record, running)])
            leased.append(running)
        return [self._claimed(record) for record in leased]

    async def claim_ids(self, claim: ClaimIds) -> list[ClaimIdAnswer]:
        return self._run(lambda tx: self._claim_ids(tx, claim))

    async def _claim_ids(self, tx: MemoryTransaction, claim: ClaimIds) -> list[ClaimIdAnswer]:
        self._require_worker(claim.owner)
        tokens = lease_tokens(claim.nonce, len(claim.ids))
        if claim.is_repeat and (given := self._given(tx, claim.owner, tokens)):
            again = {record.id: self._claimed(record) for record in given}
            return [again.get(job_id, BUSY) for job_id in claim.ids]
        left = await claim_ids(tx, claim, paused=self._tables.paused)
        return [left.get(job_id) or self._claimed_by_id(job_id) for job_id in claim.ids]

    def _require_worker(self, worker_id: UUID) -> None:
        worker = self._tables.workers.get(worker_id)
        if worker is None or worker.is_lost:
            raise WorkerNotFound(worker_id)

    def _given(self, tx: MemoryTransaction, owner: UUID, tokens: Sequence[UUID]) -> list[Record]:
        by_token = {record.token: record for record in tx.leases_of(owner)}
        return [by_token[token] for token in tokens if token in by_token]

    def _claimable(self, claim: Claim, now: datetime) -> list[Record]:
        """In claim order, up to the first job that must be claimed alone."""
        queues = {queue: order for order, queue in enumerate(claim.queues) if queue not in self._tables.paused}
        places = self._tables.places
        found = [
            record
            for record in (self._tables.records[seq] for seq in places)
            if record.queue in queues
            and record.lifetime_ends_at > now
            and (claim.types is None or record.type in claim.types)
        ]
        found.sort(key=lambda record: (queues[record.queue], record.priority, places[record.seq]))
        alone = next((n for n, record in enumerate(found[: claim.limit]) if record.is_fragile), claim.limit)
        return found[: min(claim.limit, max(1, alone))]

    def _claimed_by_id(self, job_id: UUID) -> ClaimedJob:
        return self._claimed(self._tables.records[self._tables.seqs[job_id]])

    def _claimed(self, record: Record) -> ClaimedJob:
        job = self._tables.jobs[record.seq]
        note = self._tables.notes.get(record.seq)
        assert record.started_at is not None
        return ClaimedJob(
            lease=lease_of(record),
            type=record.type,
            queue=record.queue,
            priority=record.priority,
            payload=job.payload,
            attempt=record.attempt,
            max_attempts=record.max_attempts,
            created_at=record.created_at,
            started_at=record.started_at,
            has_dependencies=any(edge.child == record.seq for edge in self._tables.edges.values()),
            previous_attempt_id=record.last_token,
            checkpoint=note.checkpoint if note else None,
            encoded_options=job.encoded_options,
            was_reclaimed=record.is_fragile,
        )

    async def settle(self, settlements: Sequence[Settlement]) -> list[SettleAnswer]:
        return self._run(lambda tx: settle(tx, settlements))

    async def extend(self, leases: Sequence[Lease]) -> list[ExtendAnswer]:
        return self._run(lambda tx: extend(tx, leases))

    async def report(self, reports: Sequence[Report]) -> list[ReportAnswer]:
        return self._run(lambda tx: report(tx, reports))

    async def cancel(self, ids: Sequence[UUID]) -> list[CancelAnswer]:
        return self._run(lambda tx: cancel(tx, ids))

    async def replay(self, ids: Sequence[UUID]) -> list[ReplayAnswer]:
        return self._run(lambda tx: replay(tx, ids))

    async def replay_where(self, where: Filter, *, limit: int, cursor: int | None = None) -> ReplayPage:
        states = frozenset(REPLAYABLE) if where.states is None else where.states & set(REPLAYABLE)
        seqs, next_cursor = self._search(where, states, limit, cursor)
        ids = [self._tables.records[seq].id for seq in seqs]
        return ReplayPage(tuple(await self.replay(ids)), next_cursor)

    async def fire(self, fires: Sequence[Fire]) -> list[FireAnswer]:
        return self._run(lambda tx: fire(tx, fires))

    async def tick(self, tick: Tick) -> TickReport:
        reports = [self._run(lambda tx, part=part: part(tx, tick)) for part in tick_verbs.PARTS]  # type: ignore[misc]
        return tick_verbs.total(reports)

    # doctor

    async def examine(self, examination: Examination) -> Examined:  # noqa: ARG002 - there is nothing to spare
        return doctor.examine(self._tables, now=self._clock.now())

    async def find_overdue(self, timing: Timing = DEFAULT_TIMING) -> Look:
        return doctor.find_overdue(self._tables, now=self._clock.now(), timing=timing)

    async def repair(self, code: Code, examination: Examination, *, seqs: Collection[int] = ()) -> None:  # noqa: ARG002
        self._run(lambda tx: doctor.repair(tx, code, seqs))

    # reads

    async def read(self, ids: Sequence[UUID]) -> list[Job | None]:
        seqs = [self._tables.seqs.get(job_id) for job_id in ids]
        return [None if seq is None else self._job(seq) for seq in seqs]

    async def read_page(self, where: Filter, *, limit: int, cursor: int | None = None) -> Page:
        seqs, next_cursor = self._search(where, where.states, limit, cursor)
        return Page(tuple(self._job(seq) for seq in seqs), next_cursor)

    def _search(
        self, where: Filter, states: frozenset[State] | None, limit: int, cursor: int | None
    ) -> tuple[list[int], int | None]:
        found: list[int] = []
        candidates = [
            seq
            for seq, record in sorted(self._tables.records.items(), reverse=True)
            if (cursor is None or seq < cursor) and (states is None or record.state in states)
        ]
        last = None
        for looked_at, seq in enumerate(candidates, start=1):
            if self._matches(seq, where):
                found.append(seq)
            last = seq
            if len(found) == limit or looked_at == self._scan_budget:
                return found, last if looked_at < len(candidates) else None
        return found, None

    def _matches(self, seq: int, where: Filter) -> bool:
        record, job = self._tables.records[seq], self._tables.jobs[seq]
        return (
            all(getattr(where, name) in (None, getattr(job, name)) for name in EQUAL)
            and (where.tag is None or job.tags.get(where.tag[0]) == where.tag[1])
            and (where.created_from is None or record.created_at >= where.created_from)
            and (where.created_until is None or record.created_at < where.created_until)
        )

    def _job(self, seq: int) -> Job:
        tables = self._tables
        record, job, note = tables.records[seq], tables.jobs[seq], tables.notes.get(seq, Note())
        ender = tables.records.get(record.ended_by) if record.ended_by is not None else None
        spawner = tables.records.get(record.spawned_by) if record.spawned_by is not None else None
        return Job(
            id=record.id,
            seq=seq,
            priority=record.priority,
            state=record.state,
            attempt=record.attempt,
            replays=record.replays,
            depth=record.depth,
            created_at=record.created_at,
            updated_at=record.updated_at,
            run_at=record.run_at,
            due_at=record.due_at,
            scheduled_at=record.scheduled_at,
            started_at=record.started_at,
            completed_at=record.completed_at,
            lifetime_ends_at=None if record.state.is_terminal else record.lifetime_ends_at,
            dependencies=self._dependencies(seq),
            lease=lease_of(record) if record.token is not None else None,
            lease_version=record.version,
            cancel_requested=record.cancel_requested,
            progress=note.progress,
            checkpoint=note.checkpoint,
            result=record.result,
            failure=record.failure,
            ended_by=ender.id if ender else None,
            last_attempt_id=record.last_token,
            spawned_by=spawner.id if spawner else None,
            **as_given(job),
        )

    def _dependencies(self, seq: int) -> tuple[Dependency, ...]:
        edges = sorted(edge.parent for edge in self._tables.edges.values() if edge.child == seq)
        return tuple(
            Dependency(self._tables.records[parent].id, self._tables.edges[seq, parent].kind) for parent in edges
        )

    async def read_attempts(self, job_id: UUID) -> list[Attempt]:
        seq = self._tables.seqs.get(job_id)
        return [] if seq is None else list(self._tables.attempts.get(seq, ()))

    async def read_upstream(self, job_id: UUID) -> list[Upstream]:
        seq = self._tables.seqs.get(job_id)
        found = []
        for dependency in self._dependencies(seq) if seq is not None else ():
            record = self._tables.records[self._tables.seqs[dependency.job_id]]
            found.append(Upstream(job_id=record.id, state=record.state, result=record.result, dependency=dependency))
        return found

    async def read_queues(self) -> list[QueueStats]:
        names = {queue for queue, _ in self._tables.tally} | self._tables.paused.keys()
        return [self._queue(name) for name in sorted(names)]

    def _queue(self, name: str) -> QueueStats:
        ready = [r for r in (self._tables.records[seq] for seq in self._tables.places) if r.queue == name]
        return QueueStats(
            name=name,
            is_paused=name in self._tables.paused,
            counts={state: count for state in State if (count := self._tables.tally[name, state])},
            oldest_scheduled_at=min((r.scheduled_at for r in ready if r.scheduled_at is not None), default=None),
        )

    async def read_workers(self) -> list[WorkerInfo]:
        tx = MemoryTransaction(self._tables, self._clock.now())
        return [
            WorkerInfo(
                id=worker.id,
                name=worker.name,
                registered_at=worker.registered_at,
                seen_at=worker.seen_at,
                is_lost=worker.is_lost,
                running=len(tx.leases_of(worker.id)),
                queues=worker.queues,
                types=worker.types,
            )
            for worker in sorted(self._tables.workers.values(), key=lambda w: (w.registered_at, w.id))
        ]

    async def read_place(self, job_id: UUID) -> Place | None:
        tables = self._tables
        record = tables.records.get(tables.seqs.get(job_id, -1))
        if record is None:
            return None
        paused_at = tables.paused.get(record.queue)
        if record.state is not State.SCHEDULED:
            return Place(now=self._clock.now(), paused_at=paused_at, ahead=None)
        own = (record.priority, tables.places[record.seq])
        others = (tables.records[seq] for seq in tables.places)
        ahead = sum(one.queue == record.queue and (one.priority, tables.places[one.seq]) < own for one in others)
        return Place(now=self._clock.now(), paused_at=paused_at, ahead=min(ahead, limits.MAX_PLACE_JOBS))

    async def read_cron(self) -> CronState:
        tx = MemoryTransaction(self._tables, self._clock.now())
        return CronState(tx.now, tuple(tx.newest_slots().values()))

    # API keys

    async def add_key(self, new: NewKey) -> ApiKey:
        return api_keys.add_key(self._tables, new, now=self._clock.now())

    async def revoke_key(self, key_id: UUID) -> ApiKey:
        return api_keys.revoke_key(self._tables, key_id, now=self._clock.now())

    async def find_key(self, key_id: UUID) -> StoredKey | None:
        return api_keys.find_key(self._tables, key_id, now=self._clock.now())

    async def read_keys(self) -> list[ApiKey]:
        return api_keys.read_keys(self._tables)

    # queues and workers

    async def pause(self, queue: str) -> None:
        self._tables.paused.setdefault(queue, self._clock.now())

    async def resume(self, queue: str) -> None:
        self._tables.paused.pop(queue, None)
        self.news.wake({queue})

    async def register(
        self, worker_id: UUID, *, name: str, queues: Sequence[str] = (), types: Sequence[str] = ()
    ) -> None:
        now = self._clock.now()
        known = self._tables.workers.get(worker_id)
        registered_at = known.registered_at if known else now
        self._tables.workers[worker_id] = WorkerRow(worker_id, name, registered_at, now, tuple(queues), tuple(types))

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        return self._run(lambda tx: self._heartbeat(tx, heartbeat))

    async def _heartbeat(self, tx: MemoryTransaction, heartbeat: Heartbeat) -> HeartbeatAnswer:
        worker = self._tables.workers.get(heartbeat.worker)
        is_known = worker is not None and not worker.is_lost
        if worker is not None and is_known:
            worker.seen_at = tx.now
        records = await tx.lock({lease.seq for lease in heartbeat.held})
        held = [lease for lease in heartbeat.held if lease.seq in records and records[lease.seq].token == lease.token]
        valid = [records[lease.seq] for lease in held]
        await tx.write(
            [Change(r, decisions.extend(r, now=tx.now)) for r in valid if decisions.is_worth_extending(r, now=tx.now)]
        )
        handed_back = 0
        if is_known:
            handed_back = await hand_back_unknown(
                tx, heartbeat.worker, known=heartbeat.held, claiming=heartbeat.claiming
            )
        return HeartbeatAnswer(
            is_known=is_known,
            lost=frozenset(lease.token for lease in heartbeat.held) - frozenset(lease.token for lease in held),
            cancel_requested=frozenset(r.token for r in valid if r.cancel_requested and r.token is not None),
            handed_back=handed_back,
        )

    async def attend(self, worker_id: UUID, *, worker_timeout_seconds: float, tick: Tick | None) -> None:
        """It lives in one process, and ends with it."""

    async def leave(self, worker_id: UUID) -> None:
        self._run(lambda tx: hand_back_unknown(tx, worker_id, known=(), claiming=frozenset()))
        self._tables.workers.pop(worker_id, None)
