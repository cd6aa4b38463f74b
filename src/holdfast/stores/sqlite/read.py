"""The questions that can be asked of a store, each over a cursor inside a transaction of its own."""

from collections import defaultdict
from collections.abc import Sequence
from sqlite3 import Cursor
from uuid import UUID

from holdfast.core import limits
from holdfast.core.commands import CronState, Page, Place, QueueStats, WorkerInfo
from holdfast.core.dependencies import Dependency, DependencyKind
from holdfast.core.job import Attempt, Job, Upstream
from holdfast.core.states import State
from holdfast.stores.sqlite.page import Search
from holdfast.stores.sqlite.rows import (
    attempt_from,
    from_microseconds,
    from_time,
    job_from,
    json_array,
    named,
    slot_from,
    worker_from,
)
from holdfast.stores.sqlite.statements import execute, rows_of_bytes


def read(cursor: Cursor, ids: Sequence[UUID]) -> list[Job | None]:
    seqs = [seq for _, seq in rows_of_bytes(cursor, "read.seqs", {job_id.bytes for job_id in ids})]
    jobs = {job.id: job for job in _jobs(cursor, seqs)}
    return [jobs.get(job_id) for job_id in ids]


def _jobs(cursor: Cursor, seqs: Sequence[int]) -> list[Job]:
    if not seqs:
        return []
    rows = named(execute(cursor, "read.jobs", json_array(seqs)))
    dependencies: defaultdict[int, list[Dependency]] = defaultdict(list)
    # Only below a depth of 0 can there be any.
    dependents = [row["seq"] for row in rows if row["depth"]]
    if dependents:
        for child, parent_id, kind in execute(cursor, "read.dependencies", json_array(dependents)):
            dependencies[child].append(Dependency(UUID(bytes=parent_id), DependencyKind(kind)))
    return [job_from(row, dependencies[row["seq"]]) for row in rows]


def read_page(cursor: Cursor, search: Search) -> Page:
    found, next_cursor = search.run(cursor)
    jobs = _jobs(cursor, [seq for seq, _ in found])
    return Page(tuple(sorted(jobs, key=lambda job: -job.seq)), next_cursor)


def read_attempts(cursor: Cursor, job_id: UUID) -> list[Attempt]:
    return [attempt_from(row, job_id) for row in named(execute(cursor, "read.attempts", job_id.bytes))]


def read_upstream(cursor: Cursor, job_id: UUID) -> list[Upstream]:
    found = []
    for id_bytes, kind, result, state in execute(cursor, "read.upstream", job_id.bytes):
        dependency = Dependency(UUID(bytes=id_bytes), DependencyKind(kind))
        found.append(Upstream(job_id=dependency.job_id, state=State(state), result=result, dependency=dependency))
    return found


def read_queues(cursor: Cursor) -> list[QueueStats]:
    counts: defaultdict[str, dict[State, int]] = defaultdict(dict)
    for queue, state, jobs in execute(cursor, "read.queues"):
        if jobs:
            counts[queue][State(state)] = jobs
        else:
            counts[queue]
    paused = {queue for (queue,) in execute(cursor, "read.paused")}
    oldest = dict(execute(cursor, "read.oldest").fetchall())
    return [
        QueueStats(
            name=name,
            is_paused=name in paused,
            counts=counts.get(name, {}),
            oldest_scheduled_at=from_time(oldest.get(name)),
        )
        for name in sorted(counts.keys() | paused)
    ]


def read_workers(cursor: Cursor) -> list[WorkerInfo]:
    return [worker_from(row) for row in named(execute(cursor, "read.workers"))]


def read_place(cursor: Cursor, job_id: UUID, *, now: int) -> Place | None:
    for queue, paused_at, priority, place in execute(cursor, "read.place", job_id.bytes).fetchall():
        ahead = None
        if place is not None:
            before = (queue, priority, place, limits.MAX_PLACE_JOBS)
            (ahead,) = execute(cursor, "read.ahead", *before).fetchone()
        return Place(now=from_microseconds(now), paused_at=from_time(paused_at), ahead=ahead)
    return None


def read_cron(cursor: Cursor, *, now: int) -> CronState:
    found = [slot_from(row) for row in execute(cursor, "read.cron", now)]
    return CronState(from_microseconds(now), tuple(sorted(found, key=lambda slot: slot.name)))
