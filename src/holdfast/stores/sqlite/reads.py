"""The questions that can be asked of a store, each over a cursor inside a transaction of its own."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from sqlite3 import Cursor
from typing import Any, Final
from uuid import UUID

from holdfast.core import limits
from holdfast.core.commands import EQUAL, CronState, Filter, Page, Place, QueueStats, Worker
from holdfast.core.dependencies import Dependency, DependencyKind
from holdfast.core.job import Attempt, Job, Upstream
from holdfast.core.states import WAITING, State
from holdfast.stores.sqlite.rows import (
    Row,
    attempt_from,
    from_microseconds,
    from_time,
    job_from,
    json_array,
    named,
    slot_from,
    to_time,
    worker_from,
)
from holdfast.stores.sqlite.statements import SQL, bound, execute
from holdfast.stores.sqlite.transaction import rows_of_bytes

_ABOVE_ALL: Final = 2**63 - 1


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A page of jobs: those of ``states`` below the cursor, newest first, that match the rest of the filter.

    Looks at no more than ``budget`` of them. Every store finds the same page, so the same cursor.
    """

    where: Filter
    states: frozenset[State] | None
    limit: int
    cursor: int | None
    budget: int

    def run(self, cursor: Cursor) -> tuple[list[Row], int | None]:
        """Rows of (seq, id); and where to go on, None exactly when no candidate is left."""
        if self.states is not None and not self.states:
            return [], None
        start = _ABOVE_ALL if self.cursor is None else self.cursor
        found = self._execute(cursor, "page.matching", start, self.budget, self.limit, *self._values()).fetchall()
        if len(found) == self.limit:
            last = found[-1][0]
        else:
            looked_at, last = self._execute(cursor, "page.looked_at", start, self.budget).fetchone()
            if looked_at < self.budget:
                return found, None
        (has_more,) = self._execute(cursor, "page.more", last).fetchone()
        return found, last if has_more else None

    def _execute(self, cursor: Cursor, name: str, *values: Any) -> Cursor:
        sql = self._sql(name)
        return cursor.execute(sql, bound(sql, values))

    def _sql(self, name: str) -> str:
        return SQL[name].replace("{candidates}", " UNION ALL ".join(_candidates(self.states)))

    def _values(self) -> tuple[Any, ...]:
        where = self.where
        name, value = where.tag or (None, None)
        times = (to_time(where.created_from), to_time(where.created_until))
        return (name, value, *times, *(getattr(where, name) for name in EQUAL))


def _candidates(states: Collection[State] | None) -> list[str]:
    if states is None:
        return [SQL["page.any"]]
    return [_candidates_in(state) for state in State if state in states]


def _candidates_in(state: State) -> str:
    if state in (State.SCHEDULED, State.RUNNING, State.COMPLETED):
        return SQL[f"page.{state.lower()}"]
    return SQL["page.waiting" if state in WAITING else "page.ended"].replace("{state}", state.value)


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


def read_workers(cursor: Cursor) -> list[Worker]:
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
