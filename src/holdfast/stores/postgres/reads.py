"""Questions about jobs, queues and workers. Nothing here locks or changes anything."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from holdfast.core import limits
from holdfast.core.commands import CronState, Filter, Page, Place, QueueStats, Worker
from holdfast.core.dependencies import Dependency, DependencyKind
from holdfast.core.job import Attempt, Job, Upstream
from holdfast.core.states import REPLAYABLE, TERMINAL, WAITING, State
from holdfast.stores.postgres.rows import Row, attempt_from, job_from, slot_from
from holdfast.stores.postgres.statements import Statements
from holdfast.stores.postgres.transaction import Executor

LAST_SEQ: Final = 2**63 - 1


class Reader:
    def __init__(self, executor: Executor, statements: Statements, *, scan_budget: int) -> None:
        self._executor = executor
        self._sql = statements
        self._scan_budget = scan_budget

    async def _fetch(self, sql: str, *arguments: Any) -> Sequence[Row]:
        return await self._executor.fetch(sql.replace("{schema}", self._sql.schema), *arguments)

    async def read(self, ids: Sequence[UUID]) -> list[Job | None]:
        rows = {row["id"]: row for row in await self._executor.fetch(self._sql["read"], list(ids))}
        waited_for = await self._dependencies([row["seq"] for row in rows.values() if row["depth"] > 0])
        return [
            job_from(rows[job_id], waited_for.get(rows[job_id]["seq"], ())) if job_id in rows else None
            for job_id in ids
        ]

    async def _dependencies(self, seqs: Sequence[int]) -> dict[int, list[Dependency]]:
        if not seqs:
            return {}
        rows = await self._fetch(
            """
            SELECT e.child, e.kind, p.id FROM unnest($1::bigint[]) AS g (child)
            CROSS JOIN LATERAL (SELECT * FROM {schema}.edge e WHERE e.child = g.child OFFSET 0) e
            CROSS JOIN LATERAL (SELECT id FROM {schema}.job p WHERE p.seq = e.parent OFFSET 0) p
            ORDER BY e.child, e.parent
            """,
            list(seqs),
        )
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
        arguments: list[Any] = [LAST_SEQ if cursor is None else cursor, self._scan_budget + 1]
        conditions = _conditions(where, arguments)
        # Without conditions every candidate is a match, and a page's worth of them is enough.
        budget = self._scan_budget if conditions else min(limit, self._scan_budget)
        arguments[1] = budget + 1
        arguments.append(limit + 1)
        # One more candidate than the budget, and one more match than the limit, tell whether anything remains.
        # matched takes candidates in the order they lie in, and needs no more of them than it shows: an ORDER BY there
        # would look at every one first.
        sql = f"""
            WITH candidates AS MATERIALIZED (
                {_candidates(states)}
            ),
            counted AS MATERIALIZED (
                SELECT seq, row_number() OVER (ORDER BY seq DESC) AS n FROM candidates
            ),
            matched AS (
                SELECT c.seq, c.n, j.id
                FROM counted c
                CROSS JOIN LATERAL (SELECT * FROM {{schema}}.job j WHERE j.seq = c.seq OFFSET 0) j
                WHERE c.n < $2 {conditions}
                LIMIT ${len(arguments)}
            )
            SELECT m.seq, m.id, m.n, t.total, t.budget_seq
            FROM (SELECT count(*) AS total, min(seq) FILTER (WHERE n < $2) AS budget_seq FROM counted) t
            LEFT JOIN matched m ON true
            ORDER BY m.n
        """
        rows = await self._fetch(sql, *arguments)
        total, budget_seq = rows[0]["total"], rows[0]["budget_seq"]
        found = [row for row in rows if row["seq"] is not None]
        if len(found) >= limit:
            last = found[limit - 1]
            return [row["id"] for row in found[:limit]], last["seq"] if last["n"] < total else None
        return [row["id"] for row in found], budget_seq if total > budget else None

    async def read_attempts(self, job_id: UUID) -> list[Attempt]:
        rows = await self._fetch(
            """
            SELECT a.* FROM {schema}.attempt a
            WHERE a.job = (SELECT j.seq FROM {schema}.job j WHERE j.id = $1::uuid) ORDER BY a.version
            """,
            job_id,
        )
        return [attempt_from(row, job_id) for row in rows]

    async def read_upstream(self, job_id: UUID) -> list[Upstream]:
        rows = await self._fetch("SELECT seq FROM {schema}.job WHERE id = $1::uuid", job_id)
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
        rows = await self._fetch(
            """
            WITH counts AS MATERIALIZED (
                SELECT queue, state, sum(delta)::bigint AS jobs FROM {schema}.tally GROUP BY queue, state
            ),
            names AS MATERIALIZED (
                SELECT queue FROM counts UNION SELECT queue FROM {schema}.pause
            ),
            oldest AS MATERIALIZED (
                SELECT n.queue, (
                    SELECT min(first.scheduled_at)
                    FROM generate_series(0, 4) AS lane (priority)
                    CROSS JOIN LATERAL (
                        SELECT r.scheduled_at FROM {schema}.ready r
                        WHERE r.queue = n.queue AND r.priority = lane.priority
                            AND r.place > coalesce(($1::jsonb ->> (lane.priority || ' ' || n.queue))::bigint, 0)
                        ORDER BY r.place LIMIT 1
                    ) first
                ) AS scheduled_at
                FROM names n
            )
            SELECT n.queue, c.state, c.jobs,
                EXISTS (SELECT FROM {schema}.pause p WHERE p.queue = n.queue) AS is_paused,
                n.scheduled_at AS oldest_scheduled_at
            FROM oldest n LEFT JOIN counts c ON c.queue = n.queue
            ORDER BY n.queue
            """,
            json.dumps(floors),
        )
        found: dict[str, list[Row]] = {}
        for row in rows:
            found.setdefault(row["queue"], []).append(row)
        return [_queue(name, group) for name, group in found.items()]

    async def read_workers(self) -> list[Worker]:
        rows = await self._fetch(
            """
            SELECT w.*, coalesce(held.leases, 0) AS running
            FROM {schema}.worker w
            LEFT JOIN (
                SELECT r.owner, count(*) AS leases FROM {schema}.running r GROUP BY r.owner
            ) held ON held.owner = w.id
            ORDER BY w.registered_at, w.id
            """
        )
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
        for row in await self._executor.fetch(self._sql["read_place"], now, job_id, limits.MAX_PLACE_JOBS):
            return Place(now=row["now"], paused_at=row["paused_at"], ahead=row["ahead"])
        return None

    async def read_cron(self, *, now: datetime | None) -> CronState:
        rows = await self._executor.fetch(self._sql["read_cron"], now)
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


def _conditions(where: Filter, arguments: list[Any]) -> str:
    """The filter's conditions on ``j``, their values appended to the arguments."""
    parts = []
    for condition, value in (
        ("j.queue = ${}::text", where.queue),
        ("j.type = ${}::text", where.type),
        ("j.created_at >= ${}::timestamptz", where.created_from),
        ("j.created_at < ${}::timestamptz", where.created_until),
    ):
        if value is not None:
            arguments.append(value)
            parts.append(condition.format(len(arguments)))
    if where.tag is not None:
        arguments += where.tag
        last = len(arguments)
        parts.append(
            "(SELECT true FROM {schema}.tag t WHERE t.job = j.seq "
            f"AND t.name = ${last - 1}::text AND t.value = ${last}::text)"
        )
    return "".join(f" AND {part}" for part in parts)


def _candidates(states: frozenset[State] | None) -> str:
    """Jobs (of the states asked for) by falling seq, from the index of the table they stand in."""
    below = "{column} < $1::bigint"
    if states is None:
        return f"SELECT seq FROM {{schema}}.job WHERE {below.format(column='seq')} ORDER BY seq DESC LIMIT $2"
    parts = []
    for table, of_table in (
        ("ready", (State.SCHEDULED,)),
        ("running", (State.RUNNING,)),
        ("waiting", WAITING),
        ("ended", TERMINAL),
    ):
        wanted = [state for state in of_table if state in states]
        for state in wanted:
            condition = f" AND state = '{state}'" if table in ("waiting", "ended") else ""
            parts.append(
                f"(SELECT job AS seq FROM {{schema}}.{table} WHERE {below.format(column='job')}{condition} "
                "ORDER BY job DESC LIMIT $2)"
            )
    return f"SELECT seq FROM ({' UNION ALL '.join(parts)}) u ORDER BY seq DESC LIMIT $2"
