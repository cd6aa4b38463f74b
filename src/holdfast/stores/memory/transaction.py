"""The verbs' transaction over plain dictionaries. It never suspends, so it is alone while it runs."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from holdfast.core import limits
from holdfast.core.access import ApiKey
from holdfast.core.commands import CronSlot, NewJob, Tick
from holdfast.core.dependencies import DependencyKind, Edge
from holdfast.core.idempotency import KeyClaim, KeyHolder
from holdfast.core.job import Attempt, Progress, Record
from holdfast.core.states import State
from holdfast.stores.transaction import Change


@dataclass(slots=True)
class Note:
    progress: Progress | None = None
    checkpoint: bytes | None = None


@dataclass(slots=True)
class WorkerRow:
    id: UUID
    name: str
    registered_at: datetime
    seen_at: datetime
    queues: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    is_lost: bool = False


@dataclass(slots=True)
class Tables:
    """All there is."""

    jobs: dict[int, NewJob] = field(default_factory=dict)
    records: dict[int, Record] = field(default_factory=dict)
    seqs: dict[UUID, int] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)
    """Of SCHEDULED jobs: the order of becoming claimable."""
    edges: dict[tuple[int, int], Edge] = field(default_factory=dict)
    marks: dict[int, None] = field(default_factory=dict)
    keys: dict[tuple[str, str], KeyHolder] = field(default_factory=dict)
    attempts: dict[int, list[Attempt]] = field(default_factory=dict)
    notes: dict[int, Note] = field(default_factory=dict)
    workers: dict[UUID, WorkerRow] = field(default_factory=dict)
    paused: dict[str, datetime] = field(default_factory=dict)
    slots: dict[tuple[str, datetime], CronSlot] = field(default_factory=dict)
    api_keys: dict[UUID, tuple[ApiKey, bytes]] = field(default_factory=dict)
    """With their digests."""
    tally: Counter[tuple[str, State]] = field(default_factory=Counter)
    last_tick_at: datetime | None = None
    silence_counts_from: datetime | None = None
    last_seq: int = 0
    last_place: int = 0


class MemoryTransaction:
    def __init__(self, tables: Tables, now: datetime) -> None:
        self.tables = tables
        self.now = now
        self.awakened: set[str] = set()
        """Queues in which jobs became claimable."""
        self.marked: set[int] = set()

    # jobs

    async def lock(self, seqs: Collection[int]) -> dict[int, Record]:
        records = self.tables.records
        return {seq: records[seq] for seq in seqs if seq in records}

    async def lock_free(self, seqs: Collection[int]) -> tuple[dict[int, Record], set[int]]:
        return await self.lock(seqs), set()

    async def lock_ids(self, ids: Collection[UUID]) -> dict[UUID, Record]:
        seqs = self.tables.seqs
        return {job_id: self.tables.records[seqs[job_id]] for job_id in ids if job_id in seqs}

    async def existing_ids(self, ids: Collection[UUID]) -> set[UUID]:
        return {job_id for job_id in ids if job_id in self.tables.seqs}

    async def reserve_seqs(self, count: int) -> list[int]:
        first = self.tables.last_seq + 1
        self.tables.last_seq += count
        return list(range(first, first + count))

    async def insert(self, jobs: Sequence[tuple[Record, NewJob]]) -> None:
        for record, job in jobs:
            self.tables.jobs[record.seq] = job
            self.tables.seqs[record.id] = record.seq
            self.tables.tally[record.queue, record.state] += 1
            self._stand(record)

    async def write(self, changes: Sequence[Change]) -> None:
        for change in changes:
            before, after = change.before, change.after
            if before.state is not after.state or (
                after.state is State.SCHEDULED and before.updated_at != after.updated_at
            ):
                self.tables.tally[before.queue, before.state] -= 1
                self.tables.tally[after.queue, after.state] += 1
                self._stand(after)
            else:
                self.tables.records[after.seq] = after

    def _stand(self, record: Record) -> None:
        self.tables.records[record.seq] = record
        self.tables.places.pop(record.seq, None)
        if record.state is State.SCHEDULED:
            self.tables.last_place += 1
            self.tables.places[record.seq] = self.tables.last_place
            self.awakened.add(record.queue)

    async def place_again(self, records: Sequence[Record]) -> None:
        for record in records:
            self._stand(replace(record, scheduled_at=self.now, updated_at=self.now))

    async def keep_attempts(self, attempts: Sequence[tuple[int, Attempt]]) -> None:
        for seq, attempt in attempts:
            self.tables.attempts.setdefault(seq, []).append(attempt)

    async def ended_by_holder(self, leases: Collection[tuple[int, UUID]]) -> set[tuple[int, UUID]]:
        return {
            (seq, token)
            for seq, token in leases
            if any(a.id == token and a.is_ended_by_holder for a in self.tables.attempts.get(seq, ()))
        }

    async def save_notes(self, notes: Sequence[tuple[int, Progress | None, bytes | None]]) -> None:
        for seq, progress, checkpoint in notes:
            note = self.tables.notes.setdefault(seq, Note())
            note.progress = progress if progress is not None else note.progress
            note.checkpoint = checkpoint if checkpoint is not None else note.checkpoint

    # keys

    async def lock_keys(self, claims: Sequence[KeyClaim]) -> list[KeyHolder | None]:
        return [self.tables.keys.get((claim.job_type, claim.key)) for claim in claims]

    async def put_keys(self, claims: Sequence[KeyClaim]) -> None:
        for claim in claims:
            self.tables.keys[claim.job_type, claim.key] = KeyHolder(
                job_id=claim.job_id, digest=claim.digest, expires_at=claim.expires_at
            )

    async def drop_keys(self, claims: Sequence[KeyClaim]) -> None:
        """Nothing was written by lock_keys."""

    # edges

    async def add_edges(self, edges: Sequence[Edge]) -> None:
        await self.set_edges(edges)

    async def edges_to(self, children: Collection[int]) -> list[Edge]:
        return [edge for edge in self.tables.edges.values() if edge.child in children]

    async def edges_from(self, parents: Collection[int]) -> list[Edge]:
        return [edge for edge in self.tables.edges.values() if edge.parent in parents]

    async def open_edges_from(self, parents: Collection[int], *, limit: int) -> list[Edge]:
        found = [edge for edge in self.tables.edges.values() if edge.parent in parents and edge.is_open]
        return sorted(found, key=lambda edge: (edge.parent, edge.child))[:limit]

    async def set_edges(self, edges: Sequence[Edge]) -> None:
        self.tables.edges.update({(edge.child, edge.parent): edge for edge in edges})

    async def close_alternatives(self, children: Collection[int]) -> None:
        alternatives = [e for e in await self.edges_to(children) if e.kind is DependencyKind.AFTER_ANY]
        await self.set_edges([replace(edge, is_open=False) for edge in alternatives])

    async def with_open_edges(self, children: Collection[int]) -> set[int]:
        return {edge.child for edge in await self.edges_to(children) if edge.is_open}

    async def spawned(self, parents: Collection[int]) -> list[Record]:
        return [record for record in self.tables.records.values() if record.spawned_by in parents]

    # marks

    async def mark(self, seqs: Collection[int]) -> None:
        self.tables.marks.update(dict.fromkeys(seqs))
        self.marked.update(seqs)

    async def unmark(self, seqs: Collection[int]) -> None:
        for seq in seqs:
            self.tables.marks.pop(seq, None)
        self.marked.difference_update(seqs)

    async def find_marks(self, *, limit: int) -> list[int]:
        return sorted(self.tables.marks)[:limit]

    # slots

    async def lock_slots(self) -> None:
        """Nobody else can be there."""

    async def find_slots(self, wanted: Sequence[tuple[str, datetime]]) -> list[CronSlot]:
        same = [self.tables.slots[pair] for pair in wanted if pair in self.tables.slots]
        newest = self.newest_slots()
        return same + [newest[name] for name, _ in wanted if name in newest]

    def newest_slots(self) -> dict[str, CronSlot]:
        """Of each name the newest that has come."""
        come = [slot for slot in self.tables.slots.values() if slot.slot <= self.now]
        return {slot.name: slot for slot in sorted(come, key=lambda slot: (slot.name, slot.slot))}

    async def add_slots(self, slots: Sequence[CronSlot]) -> None:
        self.tables.slots.update({(slot.name, slot.slot): slot for slot in slots})

    # time

    async def find_due(self, *, limit: int) -> list[Record]:
        due = [r for r in self.tables.records.values() if r.due_at is not None and r.due_at <= self.now]
        return sorted(due, key=lambda record: (record.due_at, record.seq))[:limit]

    async def find_expired(self, *, limit: int) -> list[Record]:
        found = [r for r in self.tables.records.values() if r.expires_at is not None and r.expires_at <= self.now]
        return sorted(found, key=lambda record: (record.expires_at, record.seq))[:limit]

    async def find_overaged(self, *, limit: int) -> list[Record]:
        found = [
            r
            for r in self.tables.records.values()
            if not r.state.is_terminal and r.state is not State.RUNNING and r.lifetime_ends_at <= self.now
        ]
        return sorted(found, key=lambda record: (record.lifetime_ends_at, record.seq))[:limit]

    def leases_of(self, owner: UUID) -> list[Record]:
        return sorted(
            (r for r in self.tables.records.values() if r.state is State.RUNNING and r.owner == owner),
            key=lambda record: record.seq,
        )

    async def find_unknown_leases(
        self, owner: UUID, *, known: Collection[tuple[int, UUID]], claiming: Collection[UUID]
    ) -> list[Record]:
        return [r for r in self.leases_of(owner) if (r.seq, r.token) not in known and r.token not in claiming]

    async def find_leases_of_lost_workers(self, *, limit: int) -> list[Record]:
        live = {worker.id for worker in self.tables.workers.values() if not worker.is_lost}
        found = [r for r in self.tables.records.values() if r.state is State.RUNNING and r.owner not in live]
        return sorted(found, key=lambda record: record.seq)[:limit]

    async def mark_lost_workers(self, *, timeout_seconds: float) -> None:
        timeout = timedelta(seconds=timeout_seconds)
        for worker in self.tables.workers.values():
            # One that was seen in the future was seen before the clock was put back.
            if abs(self.now - worker.seen_at) > timeout:
                worker.is_lost = True

    async def mark_gone_workers(self, workers: Collection[UUID]) -> None:
        """All are of one process, which is at work on this."""

    async def beat(self, *, timeout_seconds: float) -> datetime:
        tables = self.tables
        longest = timedelta(seconds=timeout_seconds / 2)
        # A tick in the future was before the clock was put back.
        is_gap = tables.last_tick_at is None or not timedelta(0) <= self.now - tables.last_tick_at <= longest
        if is_gap or tables.silence_counts_from is None:
            tables.silence_counts_from = self.now + timedelta(seconds=timeout_seconds)
        tables.last_tick_at = self.now
        return tables.silence_counts_from

    async def remove_ended(self, tick: Tick) -> int:
        tables = self.tables
        for name in [name for name, holder in tables.keys.items() if not holder.is_valid(self.now)]:
            del tables.keys[name]
        self._remove_workers()
        self._remove_slots(tick.batch)
        keyed = {holder.job_id for holder in tables.keys.values()}
        needed = {e.parent for e in tables.edges.values() if self._may_run(tables.records[e.child])}
        removable = [
            record
            for record in tables.records.values()
            if self._is_past_retention(record, tick) and record.id not in keyed and record.seq not in needed
        ]
        removable.sort(key=lambda record: (record.completed_at, record.seq))
        for record in removable[: tick.batch]:
            self._remove(record)
        return len(removable[: tick.batch])

    def _may_run(self, record: Record) -> bool:
        """It is live, or would be if it was replayed: then it reads what it waited for."""
        return not record.state.is_terminal or record.state.is_replayable

    def _is_past_retention(self, record: Record, tick: Tick) -> bool:
        if record.completed_at is None or record.seq in self.tables.marks:
            return False
        is_dead = record.state.is_replayable
        seconds = tick.dead_retention_seconds if is_dead else tick.completed_retention_seconds
        return record.completed_at <= self.now - timedelta(seconds=seconds)

    def _remove(self, record: Record) -> None:
        tables, seq = self.tables, record.seq
        tables.tally[record.queue, record.state] -= 1
        del tables.records[seq], tables.jobs[seq], tables.seqs[record.id]
        tables.attempts.pop(seq, None)
        tables.notes.pop(seq, None)
        for pair in [pair for pair in tables.edges if seq in pair]:
            del tables.edges[pair]

    def _remove_workers(self) -> None:
        latest = self.now - timedelta(seconds=limits.WORKER_RETENTION_SECONDS)
        for worker in list(self.tables.workers.values()):
            if worker.is_lost and worker.seen_at < latest and not self.leases_of(worker.id):
                del self.tables.workers[worker.id]

    def _remove_slots(self, limit: int) -> None:
        latest = self.now - timedelta(seconds=limits.CRON_RETENTION_SECONDS)
        newest = self.newest_slots()
        old = [
            pair
            for pair, slot in sorted(self.tables.slots.items(), key=lambda item: item[1].fired_at)
            if slot.fired_at <= latest and slot.name in newest and slot.slot < newest[slot.name].slot
        ]
        for pair in old[:limit]:
            del self.tables.slots[pair]
