"""An examination of the dictionaries. State is a field here, so no job can stand in two states, or in none."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from typing import Final
from uuid import UUID

from holdfast.core import limits
from holdfast.core.examination import EXAMPLES, Code, Examined, Found, Look, overdue_of
from holdfast.core.job import Record
from holdfast.core.liveness import Owner, Standing, Timing
from holdfast.core.states import State
from holdfast.stores.memory.transaction import MemoryTransaction, Tables
from holdfast.stores.verbs.repair import BY_JOBS, RELEASED

Candidates = Iterator[tuple[UUID, int, int, Standing]]
Broken = Iterator[tuple[int, str]]
"""The seqs of jobs that break a rule, each with how to name it."""


def _named(tables: Tables, seq: int) -> str:
    record = tables.records.get(seq)
    return str(record.id) if record is not None else f"seq {seq}"


def _tally_wrong(tables: Tables) -> Broken:
    counted = Counter((record.queue, record.state) for record in tables.records.values())
    for queue, state in sorted({*counted, *tables.tally}):
        if counted[queue, state] != tables.tally[queue, state]:
            yield 0, f"{queue} {state}: {tables.tally[queue, state]} counted, {counted[queue, state]} there"


def _sequence_behind(tables: Tables) -> Broken:
    if max(tables.records, default=0) > tables.last_seq or max(tables.places.values(), default=0) > tables.last_place:
        yield 0, f"at {tables.last_seq}"


def _is_pending(tables: Tables, seq: int) -> bool:
    return seq in tables.records and tables.records[seq].state is State.PENDING


def _pending_without_edge(tables: Tables) -> Broken:
    waiting = {edge.child for edge in tables.edges.values() if edge.is_open}
    yield from ((seq, _named(tables, seq)) for seq in tables.records if _is_pending(tables, seq) and seq not in waiting)


def _waits_for_nothing(tables: Tables) -> Broken:
    for edge in tables.edges.values():
        if edge.is_open and edge.parent not in tables.records and _is_pending(tables, edge.child):
            yield edge.child, _named(tables, edge.child)


def _end_untold(tables: Tables) -> Broken:
    for edge in tables.edges.values():
        parent = tables.records.get(edge.parent)
        is_owed = edge.is_open and _is_pending(tables, edge.child) and edge.parent not in tables.marks
        if is_owed and parent is not None and parent.state.is_terminal:
            yield edge.parent, _named(tables, edge.child)


def _dependents_forgotten(tables: Tables) -> Broken:
    for edge in tables.edges.values():
        parent = tables.records.get(edge.parent)
        is_owed = edge.is_open and _is_pending(tables, edge.child)
        if is_owed and parent is not None and not parent.state.is_terminal and not parent.has_dependents:
            yield edge.parent, _named(tables, edge.parent)


def _open_edge_left(tables: Tables) -> Broken:
    for edge in tables.edges.values():
        child = tables.records.get(edge.child)
        if edge.is_open and child is not None and child.state in RELEASED and not child.replays:
            yield edge.child, _named(tables, edge.child)


def _edge_to_nothing(tables: Tables) -> Broken:
    for edge in tables.edges.values():
        is_waited_for = edge.is_open and _is_pending(tables, edge.child)
        if edge.child not in tables.records or (edge.parent not in tables.records and not is_waited_for):
            yield edge.child, f"{_named(tables, edge.child)} after {_named(tables, edge.parent)}"


def _mark_without_job(tables: Tables) -> Broken:
    yield from ((seq, _named(tables, seq)) for seq in tables.marks if seq not in tables.records)


CHECKS: Final[dict[Code, Callable[[Tables], Broken]]] = {
    Code.TALLY_WRONG: _tally_wrong,
    Code.SEQUENCE_BEHIND: _sequence_behind,
    Code.PENDING_WITHOUT_EDGE: _pending_without_edge,
    Code.WAITS_FOR_NOTHING: _waits_for_nothing,
    Code.END_UNTOLD: _end_untold,
    Code.DEPENDENTS_FORGOTTEN: _dependents_forgotten,
    Code.OPEN_EDGE_LEFT: _open_edge_left,
    Code.EDGE_TO_NOTHING: _edge_to_nothing,
    Code.MARK_WITHOUT_JOB: _mark_without_job,
}


def examine(tables: Tables, *, now: datetime) -> Examined:
    found: list[Found] = []
    for code, check in CHECKS.items():
        examples = [example for _, example in check(tables)]
        if examples:
            found.append(Found(code, len(examples), tuple(examples[:EXAMPLES])))
    keys = [
        f"{job_type} {key}"
        for (job_type, key), holder in tables.keys.items()
        if holder.is_valid(now) and holder.job_id not in tables.seqs
    ]
    if keys:
        found.append(Found(Code.KEY_WITHOUT_JOB, len(keys), tuple(keys[:EXAMPLES])))
    return Examined(tuple(found), (*CHECKS, Code.KEY_WITHOUT_JOB))


async def repair(tx: MemoryTransaction, code: Code, seqs: Collection[int]) -> None:
    tables = tx.tables
    if code in BY_JOBS:
        broken = seqs if code is Code.OVERDUE_SCHEDULED else {seq for seq, _ in CHECKS[code](tables)}
        await BY_JOBS[code](tx, broken)
    elif code is Code.TALLY_WRONG:
        tables.tally = Counter((record.queue, record.state) for record in tables.records.values())
    elif code is Code.SEQUENCE_BEHIND:
        tables.last_seq = max(tables.last_seq, *tables.records)
        tables.last_place = max(tables.last_place, *tables.places.values(), 0)
    elif code is Code.EDGE_TO_NOTHING:
        waited_for = {seq for seq, _ in _waits_for_nothing(tables)}
        for child, parent in list(tables.edges):
            is_broken = child not in tables.records or (parent not in tables.records and child not in waited_for)
            if is_broken:
                del tables.edges[child, parent]
    elif code is Code.KEY_WITHOUT_JOB:
        for name in [name for name, holder in tables.keys.items() if holder.job_id not in tables.seqs]:
            del tables.keys[name]


# time


def find_overdue(tables: Tables, *, now: datetime, timing: Timing) -> Look:
    candidates = _standings(tables, now=now, timing=timing)
    return Look(now, tuple(overdue_of(candidates, now=now, timing=timing, limit=limits.MAX_OVERDUE_JOBS)))


def _standings(tables: Tables, *, now: datetime, timing: Timing) -> Candidates:
    for record in tables.records.values():
        match record.state:
            case State.PENDING:
                yield _candidate(record, _pending(tables, record))
            case State.DELAYED | State.RETRYING:
                yield _candidate(record, _standing(record, due_at=record.due_at))
            case State.SCHEDULED:
                is_passed_by = _is_passed_by(tables, record, now=now, timing=timing)
                yield _candidate(record, _standing(record, is_passed_by=is_passed_by))
            case State.RUNNING:
                yield _candidate(record, _running(tables, record))


def _candidate(record: Record, standing: Standing) -> tuple[UUID, int, int, Standing]:
    return record.id, record.seq, record.version, standing


def _standing(record: Record, *, due_at: datetime | None = None, is_passed_by: bool = False) -> Standing:
    return Standing(
        state=record.state,
        since=record.updated_at,
        lifetime_ends_at=record.lifetime_ends_at,
        due_at=due_at,
        is_passed_by=is_passed_by,
    )


def _pending(tables: Tables, record: Record) -> Standing:
    edges = [edge for edge in tables.edges.values() if edge.child == record.seq and edge.is_open]
    ended = [
        (parent.completed_at, parent.seq in tables.marks)
        for parent in (tables.records.get(edge.parent) for edge in edges)
        if parent is not None and parent.completed_at is not None
    ]
    # One without a mark is nobody's to tell of: it counts before those that have one.
    ended.sort(key=lambda one: (one[1], one[0]))
    return Standing(
        state=record.state,
        since=record.updated_at,
        lifetime_ends_at=record.lifetime_ends_at,
        waits=bool(edges),
        dependency_ended_at=ended[0][0] if ended else None,
        has_mark=ended[0][1] if ended else True,
    )


def _running(tables: Tables, record: Record) -> Standing:
    assert record.owner is not None
    worker = tables.workers.get(record.owner)
    owner = Owner.UNKNOWN if worker is None else Owner.LOST if worker.is_lost else Owner.KNOWN
    return Standing(
        state=record.state,
        since=record.updated_at,
        lifetime_ends_at=record.lifetime_ends_at,
        expires_at=record.expires_at,
        owner=owner,
        owner_seen_at=worker.seen_at if worker is not None else None,
    )


def _is_passed_by(tables: Tables, record: Record, *, now: datetime, timing: Timing) -> bool:
    """By a worker that has nothing to do, or by one that took a later job of the same kind a minute after this came."""
    if record.queue in tables.paused:
        return False
    running = [one for one in tables.records.values() if one.state is State.RUNNING]
    busy = {one.owner for one in running}
    is_anybody_idle = any(
        worker.id not in busy
        and not worker.is_lost
        and abs((now - worker.seen_at).total_seconds()) <= timing.worker_timeout_seconds
        and (not worker.queues or record.queue in worker.queues)
        and (not worker.types or record.type in worker.types)
        for worker in tables.workers.values()
    )
    return is_anybody_idle or any(_overtook(one, record, timing) for one in running)


def _overtook(other: Record, record: Record, timing: Timing) -> bool:
    assert record.scheduled_at is not None
    return (
        (other.queue, other.type) == (record.queue, record.type)
        and other.priority >= record.priority
        and other.scheduled_at is not None
        and other.scheduled_at > record.scheduled_at
        and other.started_at is not None
        and (other.started_at - record.scheduled_at).total_seconds() > timing.late_seconds
    )
