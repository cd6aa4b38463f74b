"""Questions about jobs, queues and workers. Nothing here locks or changes anything."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from holdfast.core import limits
from holdfast.core.commands import CronState, Page, Place, QueueStats, WorkerInfo
from holdfast.core.dependencies import Dependency, DependencyKind
from holdfast.core.job import Attempt, Job, Upstream
from holdfast.core.states import State
from holdfast.stores.postgres.connections import Executor
from holdfast.stores.postgres.page import Search
from holdfast.stores.postgres.rows import Row, attempt_from, job_from, slot_from
from holdfast.stores.postgres.statements import Statements


class Reader:
    def __init__(self, executor: Executor, statements: Statements) -> None:
        self._executor = executor
        self._sql = statements

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

    async def read_page(self, search: Search) -> Page:
        ids, next_cursor = await search.run(self._executor, self._sql)
        jobs = [job for job in await self.read(ids) if job is not None]
        return Page(tuple(jobs), next_cursor)

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

    async def read_workers(self) -> list[WorkerInfo]:
        rows = await self._run("read.workers")
        return [
            WorkerInfo(
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
