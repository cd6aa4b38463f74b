"""The port over PostgreSQL.

Fast verbs are one statement each, committed by itself: submit of plain jobs (``submit``), ``claim``, settle of plain
successes, heartbeat. Everything else runs the shared verbs in a transaction.
"""

from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from holdfast.core import limits
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
from holdfast.core.ports import Clock
from holdfast.core.states import REPLAYABLE
from holdfast.stores.postgres import api_keys
from holdfast.stores.postgres import heartbeat as workers
from holdfast.stores.postgres.claim import Claims
from holdfast.stores.postgres.connections import AsyncpgExecutor
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.doctor import PostgresDoctor
from holdfast.stores.postgres.locks import names_of_jobs
from holdfast.stores.postgres.page import Search
from holdfast.stores.postgres.presence import Presence
from holdfast.stores.postgres.read import Reader
from holdfast.stores.postgres.settle import settle
from holdfast.stores.postgres.submit import Submits
from holdfast.stores.postgres.tick import reclaim
from holdfast.stores.postgres.tick import tick as run_tick
from holdfast.stores.transaction import Transaction
from holdfast.stores.verbs.cancel import cancel
from holdfast.stores.verbs.fire import fire
from holdfast.stores.verbs.lease import extend, report
from holdfast.stores.verbs.replay import replay

Answer = TypeVar("Answer")


class PostgresStore:
    may_hold_submits: Final = True
    standstill: Final = None
    _presence: Presence | None = None

    def __init__(
        self,
        url: str,
        *,
        schema: str = "holdfast",
        clock: Clock | None = None,
        prepared_statements: bool = True,
        listen: bool = True,
        notify: bool = True,
        pool_size: int = limits.DEFAULT_POOL_CONNECTIONS,
        scan_budget: int = limits.SCAN_BUDGET_JOBS,
    ) -> None:
        """``prepared_statements=False`` and ``listen=False`` are for a pooler in transaction mode."""
        self._database = Database(
            url,
            schema=schema,
            clock=clock,
            prepared_statements=prepared_statements,
            listen=listen,
            notify=notify,
            pool_size=pool_size,
        )
        self._submits = Submits(self._database)
        self._scan_budget = scan_budget
        self._claims = Claims(self._database)
        self._database.on_lost = self._forget
        self.news: Final = self._database.news

    def _forget(self) -> None:
        """The next connection may be to a server that was promoted, and knows less than the one before."""
        self._claims.cursors.forget()
        self._database.sweeps.forget()

    async def open(self) -> None:
        await self._database.open()

    async def close(self) -> None:
        await self._claims.floors.close()
        await self._database.close()

    async def submit(self, submits: Sequence[Submit], *, connection: Any = None) -> list[SubmitAnswer]:
        if connection is not None:
            return await self._submits.submit_within(submits, connection)
        return await self._submits.submit(submits)

    # claim

    async def claim(self, claim: Claim) -> list[ClaimedJob]:
        return await self._claims.claim(claim)

    async def claim_ids(self, claim: ClaimIds) -> list[ClaimIdAnswer]:
        return await self._claims.claim_ids(claim)

    # settle

    async def settle(self, settlements: Sequence[Settlement]) -> list[SettleAnswer]:
        return await settle(self._database, settlements)

    # leases

    async def extend(self, leases: Sequence[Lease]) -> list[ExtendAnswer]:
        return await self._database.transact_each(leases, extend, names_of=lambda lease: {lease.seq})

    async def report(self, reports: Sequence[Report]) -> list[ReportAnswer]:
        return await self._database.transact_each(reports, report, names_of=lambda one: {one.lease.seq})

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        return await workers.heartbeat(self._database, heartbeat)

    async def register(
        self, worker_id: UUID, *, name: str, queues: Sequence[str] = (), types: Sequence[str] = ()
    ) -> None:
        await workers.register(self._database, worker_id, name=name, queues=queues, types=types)

    @property
    def absent_since(self) -> float | None:
        return None if self._presence is None else self._presence.absent_since

    async def attend(self, worker_id: UUID, *, worker_timeout_seconds: float, tick: Tick | None) -> None:
        if not self._database.has_sessions:
            return

        self._presence = Presence(
            self._database,
            worker_id,
            worker_timeout_seconds=worker_timeout_seconds,
            on_gone=None if tick is None else lambda gone: reclaim(self._database, tick, gone),
        )
        await self._presence.run()

    async def leave(self, worker_id: UUID) -> None:
        await workers.leave(self._database, worker_id)

    # manage

    async def cancel(self, ids: Sequence[UUID]) -> list[CancelAnswer]:
        return _all_free(ids, await self._database.transact_each(ids, cancel, names_of=lambda job_id: {job_id}))

    async def replay(self, ids: Sequence[UUID]) -> list[ReplayAnswer]:
        return _all_free(ids, await self._database.transact_each(ids, replay, names_of=lambda job_id: {job_id}))

    async def replay_where(self, where: Filter, *, limit: int, cursor: int | None = None) -> ReplayPage:
        states = frozenset(REPLAYABLE) if where.states is None else where.states & set(REPLAYABLE)
        search = Search(where=where, states=states, limit=limit, cursor=cursor, budget=self._scan_budget)
        ids, next_cursor = await self._ask(lambda executor: search.run(executor, self._database.sql))
        return ReplayPage(tuple(await self.replay(ids)), next_cursor)

    async def pause(self, queue: str) -> None:
        await self._database.fetch(self._database.sql["pause.pause"], queue, self._database.now)

    async def resume(self, queue: str) -> None:
        await self._database.fetch(self._database.sql["pause.resume"], queue)
        self._database.announce({queue})

    async def fire(self, fires: Sequence[Fire]) -> list[FireAnswer]:

        async def verb(tx: Transaction, some: Sequence[Fire]) -> list[FireAnswer]:
            return await fire(tx, some)

        return await self._database.transact_each(
            fires, verb, names_of=lambda one: names_of_jobs([one.job] if one.job is not None else [])
        )

    async def tick(self, tick: Tick) -> TickReport:
        return await run_tick(self._database, tick, self._presence)

    # doctor

    async def examine(self, examination: Examination) -> Examined:
        return await PostgresDoctor(self._database).examine(examination)

    async def find_overdue(self, timing: Timing = DEFAULT_TIMING) -> Look:
        return await PostgresDoctor(self._database).find_overdue(timing)

    async def repair(self, code: Code, examination: Examination, *, seqs: Collection[int] = ()) -> None:
        await PostgresDoctor(self._database).repair(code, examination, seqs)

    # API keys

    async def add_key(self, new: NewKey) -> ApiKey:
        return await api_keys.add_key(self._database, new)

    async def revoke_key(self, key_id: UUID) -> ApiKey:
        return await api_keys.revoke_key(self._database, key_id)

    async def find_key(self, key_id: UUID) -> StoredKey | None:
        return await api_keys.find_key(self._database, key_id)

    async def read_keys(self) -> list[ApiKey]:
        return await api_keys.read_keys(self._database)

    # reads

    async def _ask(self, question: Callable[[AsyncpgExecutor], Coroutine[Any, Any, Answer]]) -> Answer:
        return await self._database.use(lambda connection: question(AsyncpgExecutor(connection)))

    async def _read(self, question: Callable[[Reader], Coroutine[Any, Any, Answer]]) -> Answer:
        return await self._ask(lambda executor: question(Reader(executor, self._database.sql)))

    async def read(self, ids: Sequence[UUID]) -> list[Job | None]:
        return await self._read(lambda reader: reader.read(ids))

    async def read_page(self, where: Filter, *, limit: int, cursor: int | None = None) -> Page:
        search = Search(where=where, states=where.states, limit=limit, cursor=cursor, budget=self._scan_budget)
        return await self._read(lambda reader: reader.read_page(search))

    async def read_attempts(self, job_id: UUID) -> list[Attempt]:
        return await self._read(lambda reader: reader.read_attempts(job_id))

    async def read_upstream(self, job_id: UUID) -> list[Upstream]:
        return await self._read(lambda reader: reader.read_upstream(job_id))

    async def read_queues(self) -> list[QueueStats]:
        floors = self._claims.cursors.floors()
        found = await self._read(lambda reader: reader.read_queues(floors))
        self._claims.cursors.note_read([queue.name for queue in found])
        self._claims.floors.start()
        return found

    async def read_workers(self) -> list[WorkerInfo]:
        return await self._read(lambda reader: reader.read_workers())

    async def read_place(self, job_id: UUID) -> Place | None:
        return await self._read(lambda reader: reader.read_place(job_id, now=self._database.now))

    async def read_cron(self) -> CronState:
        return await self._read(lambda reader: reader.read_cron(now=self._database.now))


def _all_free(ids: Sequence[UUID], answers: Sequence[Answer | Unavailable]) -> list[Answer]:
    """The others are dealt with by now, and a repeat leaves them as they are."""
    held = [str(job_id) for job_id, answer in zip(ids, answers, strict=True) if isinstance(answer, Unavailable)]
    if held:
        raise Unavailable(
            f"somebody's open transaction holds {len(held)} of {len(ids)} jobs, the others are done; "
            f"repeat the call: {', '.join(held[:10])}"
        )
    return [answer for answer in answers if not isinstance(answer, Unavailable)]
