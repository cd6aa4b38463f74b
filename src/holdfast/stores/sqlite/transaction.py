"""The verbs' transaction over one cursor. It never suspends, and it has the only write lock there is.

Every statement's rows are fetched before the next one runs, so one cursor serves a whole transaction. Counts are
gathered in ``tally`` and written once, by whoever commits: so many operations that share a commit write one row.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from sqlite3 import Cursor
from typing import Any, Final
from uuid import UUID

from holdfast.core import limits
from holdfast.core.commands import CronSlot, NewJob, Tick
from holdfast.core.dependencies import Edge
from holdfast.core.idempotency import KeyClaim, KeyHolder
from holdfast.core.job import Attempt, Progress, Record
from holdfast.core.states import State
from holdfast.stores.sqlite.rows import (
    Row,
    attempt_row,
    duration_microseconds,
    edge_from,
    encode_failure,
    ended_row,
    from_microseconds,
    job_row,
    json_array,
    named,
    ready_row,
    record_from,
    running_row,
    slot_from,
    to_bytes,
    to_microseconds,
    waiting_row,
)
from holdfast.stores.sqlite.statements import SQL, bound, execute, with_marks
from holdfast.stores.transaction import Change

VALUES_A_STATEMENT: Final = 256
"""In lists of bytes, which are bound one by one."""
BEATS_A_TIMEOUT: Final = 16
"""How often ticks write that they ran, in a worker timeout: idle processes then cost about one commit a second."""
RETENTION_LOOKS: Final = 10
"""Batches of ended jobs that one tick looks at, where something keeps them from being removed."""

_TABLES: Final = {
    State.PENDING: "waiting",
    State.DELAYED: "waiting",
    State.RETRYING: "waiting",
    State.SCHEDULED: "ready",
    State.RUNNING: "running",
    State.COMPLETED: "ended",
    State.FAILED: "ended",
    State.DEAD_LETTER: "ended",
    State.CANCELLED: "ended",
}
_ROWS: Final[dict[str, Callable[[Record], Row]]] = {
    "waiting": waiting_row,
    "running": running_row,
    "ended": ended_row,
}


Tally = defaultdict[tuple[str, str], int]
"""Jobs that came (or went, where negative), by queue and state."""
Sweeps = dict[str, tuple[int, int]]
"""How far retention has looked, kept by whoever opens the transactions: (completed_at, seq) by the find's name."""


class SQLiteTransaction:
    def __init__(self, cursor: Cursor, *, now: int, sweeps: Sweeps | None = None, is_late: bool = False) -> None:
        self.cursor = cursor
        self._is_late = is_late
        """Others kept it waiting, and heartbeats with it: silence proves nothing (WRITER-8)."""
        self.sweeps: Sweeps = {} if sweeps is None else sweeps
        self.now_microseconds = now
        self.now: datetime = from_microseconds(now)
        self.tally: Tally = defaultdict(int)
        self.awakened: set[str] = set()
        """Queues in which jobs became claimable."""
        self.marked: set[int] = set()

    def rows(self, name: str, *values: Any) -> list[Row]:
        return execute(self.cursor, name, *values).fetchall()

    def run(self, name: str, *values: Any) -> int:
        """Returns how many rows were changed."""
        return execute(self.cursor, name, *values).rowcount

    def run_many(self, name: str, rows: Iterable[Row]) -> int:
        sql = SQL[name]
        return self.cursor.executemany(sql, [bound(sql, row) for row in rows] if "?1" in sql else rows).rowcount

    def rows_of_bytes(self, name: str, values: Collection[bytes], *first: Any) -> list[Row]:
        return rows_of_bytes(self.cursor, name, values, *first)

    def write_tally(self) -> None:
        write_tally(self.cursor, self.tally)
        self.tally.clear()

    # jobs

    async def lock(self, seqs: Collection[int]) -> dict[int, Record]:
        return {record.seq: record for record in self._records(seqs)} if seqs else {}

    async def lock_free(self, seqs: Collection[int]) -> tuple[dict[int, Record], set[int]]:
        """The transaction has the only write lock there is."""
        return await self.lock(seqs), set()

    def _records(self, seqs: Collection[int]) -> list[Record]:
        return [record_from(row) for row in named(execute(self.cursor, "lock", json_array(seqs)))]

    def _records_in_order(self, rows: Sequence[Row]) -> list[Record]:
        """Of rows that begin with a seq; a find's order is the order in which jobs become claimable."""
        seqs = [row[0] for row in rows]
        records = {record.seq: record for record in self._records(seqs)} if seqs else {}
        return [records[seq] for seq in seqs]

    async def lock_ids(self, ids: Collection[UUID]) -> dict[UUID, Record]:
        seqs = [seq for _, seq in self.rows_of_bytes("read.seqs", [job_id.bytes for job_id in ids])]
        return {record.id: record for record in self._records(seqs)} if seqs else {}

    async def existing_ids(self, ids: Collection[UUID]) -> set[UUID]:
        return {UUID(bytes=row[0]) for row in self.rows_of_bytes("read.seqs", [job_id.bytes for job_id in ids])}

    def reserve(self, count: int) -> int:
        """The first of ``count`` numbers in a row."""
        ((last,),) = self.rows("write.reserve", count)
        return int(last) - count + 1

    async def reserve_seqs(self, count: int) -> list[int]:
        first = self.reserve(count)
        return list(range(first, first + count))

    async def insert(self, jobs: Sequence[tuple[Record, NewJob]]) -> None:
        self.run_many("write.job", [job_row(record, job) for record, job in jobs])
        tags = [(record.seq, name, value) for record, job in jobs for name, value in job.tags.items()]
        if tags:
            self.run_many("write.tag", tags)
        self._enter([record for record, _ in jobs])

    async def write(self, changes: Sequence[Change]) -> None:
        leaving: dict[str, list[int]] = {}
        entering: list[Record] = []
        changed: dict[str, list[Row]] = {}
        for change in changes:
            before, after = change.before, change.after
            table = _TABLES[before.state]
            if before.state is after.state and table in ("ready", "ended"):
                row: Row = (after.seq, after.is_fragile, after.has_dependents)
                changed.setdefault(table, []).append(
                    row if table == "ready" else (*row, after.ended_by, encode_failure(after.failure))
                )
                continue
            self.tally[before.queue, before.state] -= 1
            entering.append(after)
            if table != _TABLES[after.state]:
                leaving.setdefault(table, []).append(before.seq)
        for table, rows in changed.items():
            self.run_many(f"write.change_{table}", rows)
        for table, seqs in leaving.items():
            self.run(f"write.leave_{table}", json_array(seqs))
        self._enter(entering)

    def _enter(self, records: Sequence[Record]) -> None:
        """In the order given, which is the order of places."""
        entering: dict[str, list[Row]] = {}
        for record in records:
            self.tally[record.queue, record.state] += 1
            if record.state is not State.SCHEDULED:
                table = _TABLES[record.state]
                entering.setdefault(table, []).append(_ROWS[table](record))
        ready = [record for record in records if record.state is State.SCHEDULED]
        if ready:
            self.awakened.update(record.queue for record in ready)
            first = self.reserve(len(ready))
            entering["ready"] = [ready_row(record, place) for place, record in enumerate(ready, start=first)]
        for table, rows in entering.items():
            self.run_many(f"write.{table}", rows)

    async def place_anew(self, records: Sequence[Record]) -> None:
        first = self.reserve(len(records))
        rows = [(r.seq, place, self.now_microseconds) for place, r in enumerate(records, start=first)]
        self.run_many("write.place_anew", rows)
        self.awakened.update(record.queue for record in records)

    async def keep_attempts(self, attempts: Sequence[tuple[int, Attempt]]) -> None:
        self.run_many("write.attempt", [attempt_row(seq, attempt) for seq, attempt in attempts])

    async def ended_by_holder(self, leases: Collection[tuple[int, UUID]]) -> set[tuple[int, UUID]]:
        rows = self.rows("write.ended_by_holder", json_array([seq for seq, _ in leases]))
        return {(job, UUID(bytes=token)) for job, token in rows} & set(leases)

    async def save_notes(self, notes: Sequence[tuple[int, Progress | None, bytes | None]]) -> None:
        self.run_many(
            "write.note",
            [
                (seq, progress.percent if progress else None, progress.message if progress else None, checkpoint)
                for seq, progress, checkpoint in notes
            ],
        )

    # keys

    async def lock_keys(self, claims: Sequence[KeyClaim]) -> list[KeyHolder | None]:
        return [self._key_holder(claim) for claim in claims]

    def _key_holder(self, claim: KeyClaim) -> KeyHolder | None:
        for job_id, digest, expires_at in self.rows("idempotency.find", claim.job_type, claim.key):
            return KeyHolder(job_id=UUID(bytes=job_id), digest=digest, expires_at=from_microseconds(expires_at))
        return None

    async def put_keys(self, claims: Sequence[KeyClaim]) -> None:
        self.run_many(
            "idempotency.put",
            [(c.job_type, c.key, c.job_id.bytes, c.digest, to_microseconds(c.expires_at)) for c in claims],
        )

    async def drop_keys(self, claims: Sequence[KeyClaim]) -> None:
        """Nothing was written by lock_keys."""

    # edges

    async def add_edges(self, edges: Sequence[Edge]) -> None:
        self.run_many("edges.add", [(e.child, e.parent, e.kind.value, e.is_open) for e in edges])

    async def set_edges(self, edges: Sequence[Edge]) -> None:
        await self.add_edges(edges)

    def _edges(self, name: str, seqs: Collection[int], *values: Any) -> list[Edge]:
        return [edge_from(row) for row in self.rows(name, json_array(seqs), *values)]

    async def edges_to(self, children: Collection[int]) -> list[Edge]:
        return self._edges("edges.to", children)

    async def edges_from(self, parents: Collection[int]) -> list[Edge]:
        return self._edges("edges.from", parents)

    async def open_edges_from(self, parents: Collection[int], *, limit: int) -> list[Edge]:
        return self._edges("edges.open_from", parents, limit)

    async def close_alternatives(self, children: Collection[int]) -> None:
        self.run("edges.close_alternatives", json_array(children))

    async def with_open_edges(self, children: Collection[int]) -> set[int]:
        return {row[0] for row in self.rows("edges.with_open", json_array(children))}

    async def spawned(self, parents: Collection[int]) -> list[Record]:
        return self._records_in_order(self.rows("edges.spawned", json_array(parents)))

    # marks

    async def mark(self, seqs: Collection[int]) -> None:
        self.run_many("edges.mark", [(seq,) for seq in seqs])
        self.marked.update(seqs)

    async def unmark(self, seqs: Collection[int]) -> None:
        self.run("edges.unmark", json_array(seqs))
        self.marked.difference_update(seqs)

    async def find_marks(self, *, limit: int) -> list[int]:
        return [row[0] for row in self.rows("edges.find_marks", limit)]

    # slots

    async def lock_slots(self) -> None:
        """The transaction has the only write lock there is."""

    async def find_slots(self, wanted: Sequence[tuple[str, datetime]]) -> list[CronSlot]:
        return [
            slot_from(row)
            for name, slot in wanted
            for row in self.rows("fire.find", name, to_microseconds(slot), self.now_microseconds)
        ]

    async def add_slots(self, slots: Sequence[CronSlot]) -> None:
        self.run_many(
            "fire.add",
            [(s.name, to_microseconds(s.slot), to_bytes(s.job_id), to_microseconds(s.fired_at)) for s in slots],
        )

    # time

    async def find_due(self, *, limit: int) -> list[Record]:
        return self._records_in_order(self.rows("tick.find_due", self.now_microseconds, limit))

    async def find_expired(self, *, limit: int) -> list[Record]:
        if self._is_late:
            return []
        return self._records_in_order(self.rows("tick.find_expired", self.now_microseconds, limit))

    async def find_overaged(self, *, limit: int) -> list[Record]:
        return self._records_in_order(self.rows("tick.find_overaged", self.now_microseconds, limit))

    async def find_unknown_leases(
        self, owner: UUID, *, known: Collection[tuple[int, UUID]], claiming: Collection[UUID]
    ) -> list[Record]:
        known_pairs = {(seq, token.bytes) for seq, token in known}
        in_flight = {token.bytes for token in claiming}
        leases = self.rows("heartbeat.leases", owner.bytes)
        unknown = [row for row in leases if row not in known_pairs and row[1] not in in_flight]
        return self._records_in_order(unknown)

    async def find_leases_of_lost_workers(self, *, limit: int) -> list[Record]:
        return self._records_in_order(self.rows("tick.find_lost", limit))

    async def mark_lost_workers(self, *, timeout_seconds: float) -> None:
        if not self._is_late:
            self.run("tick.mark_lost", self._ago(timeout_seconds), self._ago(-timeout_seconds))

    async def mark_gone_workers(self, workers: Collection[UUID]) -> None:
        self.run_many("tick.mark_gone", [(worker.bytes,) for worker in workers])

    async def beat(self, *, timeout_seconds: float) -> datetime:
        gap = duration_microseconds(timeout_seconds / 2)
        counts_again = self.now_microseconds + duration_microseconds(timeout_seconds)
        recent = duration_microseconds(timeout_seconds / BEATS_A_TIMEOUT)
        rows = self.rows("tick.beat", self.now_microseconds, gap, counts_again, recent) or self.rows("tick.silence")
        return from_microseconds(rows[0][0])

    def _ago(self, seconds: float) -> int:
        return self.now_microseconds - duration_microseconds(seconds)

    async def remove_ended(self, tick: Tick) -> int:
        self.run("retention.keys", self.now_microseconds, tick.batch)
        self.run("retention.workers", self._ago(limits.WORKER_RETENTION_SECONDS))
        self.run("retention.slots", self._ago(limits.CRON_RETENTION_SECONDS), self.now_microseconds, tick.batch)
        removed = self._remove("retention.find_done", tick.completed_retention_seconds, tick.batch)
        return removed + self._remove("retention.find_dead", tick.dead_retention_seconds, tick.batch - removed)

    def _remove(self, find: str, retention_seconds: float, batch: int) -> int:
        looks = batch * RETENTION_LOOKS
        candidates = self.rows(find, *self.sweeps.pop(find, (0, 0)), self._ago(retention_seconds), looks)
        if not candidates:
            return 0
        seqs = json_array([seq for _, seq in candidates])
        removable = self.rows("retention.removable", seqs, self.now_microseconds, batch)
        if len(removable) < batch and len(candidates) == looks:
            # What must stay may stand before what may go: the next tick looks further on.
            self.sweeps[find] = candidates[-1]
        if removable:
            self._remove_all(removable)
        return len(removable)

    def _remove_all(self, removable: Sequence[Row]) -> None:
        seqs = json_array([row[0] for row in removable])
        for table in ("ended", "jobs", "edges_to", "edges_from", "notes", "tags", "attempts"):
            self.run(f"retention.{table}", seqs)
        for _, queue, state in removable:
            self.tally[queue, state] -= 1


def write_tally(cursor: Cursor, tally: Mapping[tuple[str, str], int]) -> None:
    for (queue, state), jobs in tally.items():
        if jobs:
            execute(cursor, "write.tally", queue, str(state), jobs)


def rows_of_bytes(cursor: Cursor, name: str, values: Collection[bytes], *first: Any) -> list[Row]:
    """A statement with a list of bytes, in as many steps as its bound needs."""
    rest = list(values)
    found: list[Row] = []
    for start in range(0, len(rest), VALUES_A_STATEMENT):
        part = rest[start : start + VALUES_A_STATEMENT]
        # Padded to a power of two, so that few texts are ever prepared.
        size = 1 << (len(part) - 1).bit_length()
        sql = with_marks(name, size, after=len(first))
        found += cursor.execute(sql, bound(sql, [*first, *part, *[None] * (size - len(part))]))
    return found
