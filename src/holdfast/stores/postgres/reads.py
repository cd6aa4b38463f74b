"""Questions about jobs, queues and workers. Nothing here locks or changes anything."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from holdfast.core import limits
from holdfast.core.commands import EQUAL, CronState, Filter, Page, Place, QueueStats, Worker
from holdfast.core.dependencies import Dependency, DependencyKind
from holdfast.core.job import Attempt, Job, Upstream
from holdfast.core.states import REPLAYABLE, WAITING, State
from holdfast.stores.postgres.rows import Row, attempt_from, job_from, slot_from
from holdfast.stores.postgres.statements import Statements
from holdfast.stores.postgres.transaction import Executor

LAST_SEQ: Final = 2**63 - 1


class Reader:
    def __init__(self, executor: Executor, statements: Statements, *, scan_budget: int) -> None:
        self._executor = executor
        self._sql = statements
        self._scan_budget = scan_budget

    async def _run(self, name: str, *arguments: Any) -> Sequence[Row]:
        return await self._executor.fetch(self._sql[name], *arguments)

    async def read(self, ids: Sequence[UUID]) -> list[Job | None]:
        rows = {row["id"]: row for row in await self._run("read.jobs", list(ids))}
        waited_for = await self._dependencies([row["seq"] for row in rows.values() if row["depth"] > 0])
        return [
            job_from(rows[job_id], waited_for.get(rows[job_id]["seq"], ())) if job_id in rows else None
            for job_id in ids
        ]

    async def _dependencies(self, seqs: Sequence[int]) -> dict[int, list[Dependency]]:
        if not seqs:
            return {}
        rows = await self._run("read.dependencies", list(seqs))
        found: dict[int, list[Dependency]] = {}
        for row in rows:
            found.setdefault(row["child"], []).append(Dependency(row["id"], DependencyKind(row["kind"])))
        return found

    async def read_page(self, where: Filter, *, limit: int, cursor: int | None) -> Page:
        ids, next_cursor = await self._search(where, where.states, limit, cursor)
        jobs = [job for job in await self.read(ids) if job is not None]
        return Page(tuple(jobs), next_cursor)

    async def find_replayable(self, where: Filter, *, limit: int, cursor: int | None) -> tuple[list[UUID], int | None]:
        states = frozenset(REPLAYABLE) if where.states is None else where.states & set(REPLAYABLE)
        return await self._search(where, states, limit, cursor)

    async def _search(
        self, where: Filter, states: frozenset[State] | None, limit: int, cursor: int | None
    ) -> tuple[list[UUID], int | None]:
        """Newest first. Looks at no more candidates than the budget, and says from where to go on."""
        if states is not None and not states:
            return [], None
        start = LAST_SEQ if cursor is None else cursor
        # Without conditions every candidate is a match, and a page's worth of them is enough.
        budget = self._scan_budget if _has_conditions(where) else min(limit, self._scan_budget)
        sql = self._sql["page.matching"].replace("{candidates}", self._candidates(states))
        rows = await self._executor.fetch(sql, start, budget + 1, limit + 1, *_conditions(where))
        total, budget_seq = rows[0]["total"], rows[0]["budget_seq"]
        found = [row for row in rows if row["seq"] is not None]
        if len(found) >= limit:
            last = found[limit - 1]
            return [row["id"] for row in found[:limit]], last["seq"] if last["n"] < total else None
        return [row["id"] for row in found], budget_seq if total > budget else None

    def _candidates(self, states: frozenset[State] | None) -> str:
        """Jobs (of the states asked for) by falling seq, from the index of the table they stand in."""
        if states is None:
            return self._sql["page.any"]
        parts = [self._candidates_in(state) for state in State if state in states]
        return self._sql["page.merged"].replace("{parts}", " UNION ALL ".join(parts))

    def _candidates_in(self, state: State) -> str:
        if state in (State.SCHEDULED, State.RUNNING):
            return self._sql[f"page.{state.lower()}"]
        return self._sql["page.waiting" if state in WAITING else "page.ended"].replace("{state}", state)

    async def read_attempts(self, job_id: UUID) -> list[Attempt]:
        rows = await self._run("read.attempts", job_id)
        return [attempt_from(row, job_id) for row in rows]

    async def read_upstream(self, job_id: UUID) -> list[Upstream]:
        rows = await self._run("read.seq", job_id)
        waited_for = await self._dependencies([row["seq"] for row in rows])
        dependencies = [dependency for found in waited_for.values() for dependency in found]
        jobs = await self.read([dependency.job_id for dependency in dependencies])
        return [
            Upstream(job_id=job.id, state=job.state, result=job.result, dependency=dependency)
            for job, dependency in zip(jobs, dependencies, strict=True)
            if job is not None
        ]

    async def read_queues(self, floors: Mapping[str, int]) -> list[QueueStats]:
        """``floors``: before which no job waits, by priority and queue. What lies there is dead, and may be much."""
        rows = await self._run("read.queues", json.dumps(floors))
        found: dict[str, list[Row]] = {}
        for row in rows:
            found.setdefault(row["queue"], []).append(row)
        return [_queue(name, group) for name, group in found.items()]

    async def read_workers(self) -> list[Worker]:
        rows = await self._run("read.workers")
        return [
            Worker(
                id=row["id"],
                name=row["name"],
                registered_at=row["registered_at"],
                seen_at=row["seen_at"],
                is_lost=row["is_lost"],
                running=row["running"],
                queues=tuple(row["queues"]),
                types=tuple(row["types"]),
            )
            for row in rows
        ]

    async def read_place(self, job_id: UUID, *, now: datetime | None) -> Place | None:
        for row in await self._run("read.place", now, job_id, limits.MAX_PLACE_JOBS):
            return Place(now=row["now"], paused_at=row["paused_at"], ahead=row["ahead"])
        return None

    async def read_cron(self, *, now: datetime | None) -> CronState:
        rows = await self._run("read.cron", now)
        slots = [slot_from(row) for row in rows if row["name"] is not None]
        return CronState(rows[0]["now"], tuple(sorted(slots, key=lambda slot: slot.name)))


def _queue(name: str, rows: Sequence[Row]) -> QueueStats:
    counts = {State(row["state"]): row["jobs"] for row in rows if row["jobs"]}
    return QueueStats(
        name=name,
        is_paused=rows[0]["is_paused"],
        counts={state: counts[state] for state in State if state in counts},
        oldest_scheduled_at=rows[0]["oldest_scheduled_at"],
    )


def _conditions(where: Filter) -> tuple[Any, ...]:
    name, value = where.tag or (None, None)
    return (name, value, where.created_from, where.created_until, *(getattr(where, name) for name in EQUAL))


def _has_conditions(where: Filter) -> bool:
    return any(value is not None for value in _conditions(where))
