"""A store that fails when told to, in the three ways a real one can.

What a caller cannot tell apart, a test can: the call never arrived, it was done and the answer lost, or it is still
under way while the caller has given up. In all three the caller sees ``Unavailable``, and repeats (PORT-4).
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar
from uuid import UUID

from holdfast.core.access import ApiKey, NewKey, StoredKey
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
from holdfast.core.errors import Unavailable
from holdfast.core.examination import Code, Examination, Examined, Look
from holdfast.core.job import Attempt, ClaimedJob, Job, Lease, Upstream
from holdfast.core.liveness import DEFAULT_TIMING, Timing
from holdfast.core.ports import News, Standstill, Store

Answer = TypeVar("Answer")


class FaultKind(StrEnum):
    BEFORE_WRITE = "before the write"
    """The call never arrives."""
    AFTER_COMMIT = "after the commit"
    """The call is done; its answer is lost."""
    TIMEOUT = "timeout"
    """The caller gives up at once; the call goes on beside whatever the caller does next."""


@dataclass(frozen=True, slots=True)
class PlannedFault:
    verb: str
    kind: FaultKind
    call: int = 1
    """Which call of the verb fails, from 1."""


class FaultyStore:
    """Fulfils the port with another store, except for the calls named in ``plan``."""

    def __init__(self, store: Store, plan: Sequence[PlannedFault] = ()) -> None:
        self._store = store
        self._kinds = {(fault.verb, fault.call): fault.kind for fault in plan}
        self._calls: dict[str, int] = {}
        self._under_way: set[asyncio.Task[Any]] = set()

    @property
    def standstill(self) -> Standstill | None:
        return self._store.standstill

    @property
    def absent_since(self) -> float | None:
        return self._store.absent_since

    @property
    def news(self) -> News:
        return _FaultyNews(lambda queues: self._do("news", lambda: self._store.news.next(queues)))

    @property
    def may_hold_submits(self) -> bool:
        return self._store.may_hold_submits

    async def under_way(self) -> None:
        """Wait for the calls that timed out; what they raise is nobody's any more."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _do(self, verb: str, call: Callable[[], Awaitable[Answer]]) -> Answer:
        self._calls[verb] = number = self._calls.get(verb, 0) + 1
        kind = self._kinds.get((verb, number))
        if kind is None:
            return await call()
        if kind is FaultKind.AFTER_COMMIT:
            await call()
        if kind is FaultKind.TIMEOUT:
            self._go_on(call)
        raise Unavailable(f"planned: {verb}, call {number}, {kind}")

    def _go_on(self, call: Callable[[], Awaitable[Answer]]) -> None:
        async def run() -> None:
            await call()

        task = asyncio.create_task(run())
        self._under_way.add(task)

    async def open(self) -> None:
        await self._do("open", self._store.open)

    async def close(self) -> None:
        await self.under_way()
        await self._do("close", self._store.close)

    async def submit(self, submits: Sequence[Submit], *, connection: Any = None) -> list[SubmitAnswer]:
        return await self._do("submit", lambda: self._store.submit(submits, connection=connection))

    async def claim(self, claim: Claim) -> list[ClaimedJob]:
        return await self._do("claim", lambda: self._store.claim(claim))

    async def claim_ids(self, claim: ClaimIds) -> list[ClaimIdAnswer]:
        return await self._do("claim_ids", lambda: self._store.claim_ids(claim))

    async def settle(self, settlements: Sequence[Settlement]) -> list[SettleAnswer]:
        return await self._do("settle", lambda: self._store.settle(settlements))

    async def extend(self, leases: Sequence[Lease]) -> list[ExtendAnswer]:
        return await self._do("extend", lambda: self._store.extend(leases))

    async def report(self, reports: Sequence[Report]) -> list[ReportAnswer]:
        return await self._do("report", lambda: self._store.report(reports))

    async def cancel(self, ids: Sequence[UUID]) -> list[CancelAnswer]:
        return await self._do("cancel", lambda: self._store.cancel(ids))

    async def replay(self, ids: Sequence[UUID]) -> list[ReplayAnswer]:
        return await self._do("replay", lambda: self._store.replay(ids))

    async def replay_where(self, where: Filter, *, limit: int, cursor: int | None = None) -> ReplayPage:
        return await self._do("replay_where", lambda: self._store.replay_where(where, limit=limit, cursor=cursor))

    async def fire(self, fires: Sequence[Fire]) -> list[FireAnswer]:
        return await self._do("fire", lambda: self._store.fire(fires))

    async def tick(self, tick: Tick) -> TickReport:
        return await self._do("tick", lambda: self._store.tick(tick))

    async def read(self, ids: Sequence[UUID]) -> list[Job | None]:
        return await self._do("read", lambda: self._store.read(ids))

    async def read_page(self, where: Filter, *, limit: int, cursor: int | None = None) -> Page:
        return await self._do("read_page", lambda: self._store.read_page(where, limit=limit, cursor=cursor))

    async def read_attempts(self, job_id: UUID) -> list[Attempt]:
        return await self._do("read_attempts", lambda: self._store.read_attempts(job_id))

    async def read_upstream(self, job_id: UUID) -> list[Upstream]:
        return await self._do("read_upstream", lambda: self._store.read_upstream(job_id))

    async def read_queues(self) -> list[QueueStats]:
        return await self._do("read_queues", self._store.read_queues)

    async def read_workers(self) -> list[WorkerInfo]:
        return await self._do("read_workers", self._store.read_workers)

    async def read_place(self, job_id: UUID) -> Place | None:
        return await self._do("read_place", lambda: self._store.read_place(job_id))

    async def read_cron(self) -> CronState:
        return await self._do("read_cron", self._store.read_cron)

    async def add_key(self, new: NewKey) -> ApiKey:
        return await self._do("add_key", lambda: self._store.add_key(new))

    async def revoke_key(self, key_id: UUID) -> ApiKey:
        return await self._do("revoke_key", lambda: self._store.revoke_key(key_id))

    async def find_key(self, key_id: UUID) -> StoredKey | None:
        return await self._do("find_key", lambda: self._store.find_key(key_id))

    async def read_keys(self) -> list[ApiKey]:
        return await self._do("read_keys", self._store.read_keys)

    async def pause(self, queue: str) -> None:
        await self._do("pause", lambda: self._store.pause(queue))

    async def resume(self, queue: str) -> None:
        await self._do("resume", lambda: self._store.resume(queue))

    async def register(
        self, worker_id: UUID, *, name: str, queues: Sequence[str] = (), types: Sequence[str] = ()
    ) -> None:
        await self._do("register", lambda: self._store.register(worker_id, name=name, queues=queues, types=types))

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        return await self._do("heartbeat", lambda: self._store.heartbeat(heartbeat))

    async def attend(self, worker_id: UUID, *, worker_timeout_seconds: float, tick: Tick | None) -> None:
        await self._do(
            "attend",
            lambda: self._store.attend(worker_id, worker_timeout_seconds=worker_timeout_seconds, tick=tick),
        )

    async def leave(self, worker_id: UUID) -> None:
        await self._do("leave", lambda: self._store.leave(worker_id))

    async def examine(self, examination: Examination) -> Examined:
        return await self._do("examine", lambda: self._store.examine(examination))

    async def find_overdue(self, timing: Timing = DEFAULT_TIMING) -> Look:
        return await self._do("find_overdue", lambda: self._store.find_overdue(timing))

    async def repair(self, code: Code, examination: Examination, *, seqs: Collection[int] = ()) -> None:
        await self._do("repair", lambda: self._store.repair(code, examination, seqs=seqs))


class _FaultyNews:
    def __init__(self, ask: Callable[[Sequence[str]], Awaitable[None]]) -> None:
        self._ask = ask

    async def next(self, queues: Sequence[str]) -> None:
        await self._ask(queues)
