"""The port over one SQLite file.

Writes go through the writer's thread and share commits (``writer``), reads through the reader's. Every method here
only checks its input and says which work is to be done; the work itself stands in the module of the verb's name, or
is the verb as all stores share it.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
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
from holdfast.core.errors import UsageError
from holdfast.core.examination import Code, Examination, Examined, Look
from holdfast.core.job import Attempt, ClaimedJob, Job, Lease, Upstream
from holdfast.core.liveness import DEFAULT_TIMING, Timing
from holdfast.core.ports import Clock, Standstill
from holdfast.core.states import REPLAYABLE
from holdfast.stores.sqlite import api_keys, doctor, read
from holdfast.stores.sqlite import heartbeat as workers
from holdfast.stores.sqlite.caller import submit_in
from holdfast.stores.sqlite.claim import Answer as ClaimAnswer
from holdfast.stores.sqlite.claim import claim as lease_jobs
from holdfast.stores.sqlite.claim import claim_ids as lease_ids
from holdfast.stores.sqlite.claim import claimed
from holdfast.stores.sqlite.connection import Synchronous, connect, require_durability, require_file, require_supported
from holdfast.stores.sqlite.cursors import ClaimCursors
from holdfast.stores.sqlite.errors import translated
from holdfast.stores.sqlite.files import OpenFiles
from holdfast.stores.sqlite.migrate import migrate, require_current
from holdfast.stores.sqlite.page import Search
from holdfast.stores.sqlite.presence import Presence
from holdfast.stores.sqlite.reader import Reader
from holdfast.stores.sqlite.settle import settle as settle_all
from holdfast.stores.sqlite.submit import is_plain, submit_together
from holdfast.stores.sqlite.submit import submit as submit_all
from holdfast.stores.sqlite.tick import PARTS
from holdfast.stores.sqlite.transaction import SQLiteTransaction
from holdfast.stores.sqlite.wake import Watch
from holdfast.stores.sqlite.writer import Writer, time_of
from holdfast.stores.transaction import run_now
from holdfast.stores.verbs import tick as tick_verbs
from holdfast.stores.verbs.cancel import cancel
from holdfast.stores.verbs.change import propagate
from holdfast.stores.verbs.fire import fire
from holdfast.stores.verbs.lease import extend, report
from holdfast.stores.verbs.replay import replay

Answer = TypeVar("Answer")
BRIEF_JOBS: Final = 64
"""Submitting so few takes hardly longer than the commit itself."""


@dataclass(slots=True)
class Opened:
    """What an open store consists of."""

    files: OpenFiles
    writer: Writer
    reader: Reader
    watch: Watch


class SQLiteStore:
    may_hold_submits: Final = False
    absent_since: Final = None
    """A lock on a file is lost with its process, and not before."""

    def __init__(
        self,
        path: str | Path,
        *,
        synchronous: Synchronous = "FULL",
        clock: Clock | None = None,
        scan_budget: int = limits.SCAN_BUDGET_JOBS,
        migrates: bool = True,
    ) -> None:
        """``migrates=False``: the tables must be those of this version; otherwise the file is not touched."""
        require_supported()
        self.path = require_file(path)
        self._synchronous = require_durability(synchronous)
        self._clock = clock
        self._scan_budget = scan_budget
        self._migrates = migrates
        self._opened: Opened | None = None
        self._cursors = ClaimCursors()

    @property
    def standstill(self) -> Standstill | None:
        return None if self._opened is None else self._opened.writer.standstill

    @property
    def news(self) -> Watch:
        return self._require_open().watch

    async def open(self) -> None:
        if self._opened is None:
            self._opened = await asyncio.to_thread(self._open)

    def _open(self) -> Opened:
        with translated(), ExitStack() as opened:
            if not self._migrates:
                require_current(self.path)

            def one(*, is_reader: bool) -> sqlite3.Connection:
                made = connect(self.path, synchronous=self._synchronous, is_reader=is_reader)
                return opened.enter_context(closing(made))

            for_writer = one(is_reader=False)
            migrate(for_writer, self.path)
            for_reader, for_watch = one(is_reader=True), one(is_reader=True)
            files = OpenFiles(self.path)
            opened.pop_all()
        watch = Watch(for_watch, files)
        return Opened(
            files,
            Writer(for_writer, files, synchronous=self._synchronous, clock=self._clock, wake=watch.wake),
            Reader(for_reader, files),
            watch,
        )

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.writer.close()
            await opened.reader.close()
            await opened.watch.close()

    def _require_open(self) -> Opened:
        if self._opened is None:
            raise UsageError("the store is not open")
        return self._opened

    def _write(self, work: Callable[[SQLiteTransaction], Answer]) -> asyncio.Future[Answer]:
        return self._require_open().writer.run(lambda tx: _with_dependents(work, tx))

    def _run(self, verb: Callable[[SQLiteTransaction], Coroutine[Any, Any, Answer]]) -> asyncio.Future[Answer]:
        return self._write(lambda tx: run_now(verb(tx)))

    def _read(self, work: Callable[[sqlite3.Cursor], Answer]) -> asyncio.Future[Answer]:
        return self._require_open().reader.run(work)

    # the verbs

    async def submit(self, submits: Sequence[Submit], *, connection: Any = None) -> list[SubmitAnswer]:
        if connection is not None:
            self._require_open().files.require_in_place()
            return submit_in(connection, submits, path=self.path, clock=self._clock)
        return await self._submit(submits)

    def _submit(self, submits: Sequence[Submit]) -> asyncio.Future[list[SubmitAnswer]]:
        for one in submits:
            if not is_plain(one):
                return self._write(lambda tx: submit_all(tx, submits))
        is_brief = sum(len(one.jobs) for one in submits) <= BRIEF_JOBS
        return self._require_open().writer.run_together(submit_together, submits, is_brief=is_brief)

    async def claim(self, claim: Claim) -> list[ClaimedJob]:
        watch = self._require_open().watch

        def work(tx: SQLiteTransaction) -> ClaimAnswer:
            answer = lease_jobs(tx, claim, self._cursors)
            if answer.is_exhausted:
                ((last_place,),) = tx.rows("claim.last_place")
                if self._cursors.are_ahead_of(last_place) and not answer.leased:
                    answer = lease_jobs(tx, claim, self._cursors)
                watch.note_drained(claim.queues, last_place)
            return answer

        # docs/decisions/0003-claims-commit-without-waiting.md
        answer = await self._require_open().writer.run(work, may_be_forgotten=True)
        self._cursors.advance(answer.passed)
        return claimed(answer.leased, claim.owner)

    async def claim_ids(self, claim: ClaimIds) -> list[ClaimIdAnswer]:
        writer = self._require_open().writer
        leased, left = await writer.run(lambda tx: lease_ids(tx, claim), may_be_forgotten=True)
        jobs = {job.id: job for job in claimed(leased, claim.owner)}
        return [jobs.get(job_id) or left[job_id] for job_id in claim.ids]

    async def settle(self, settlements: Sequence[Settlement]) -> list[SettleAnswer]:
        return await self._write(lambda tx: settle_all(tx, settlements))

    async def extend(self, leases: Sequence[Lease]) -> list[ExtendAnswer]:
        return await self._run(lambda tx: extend(tx, leases))

    async def report(self, reports: Sequence[Report]) -> list[ReportAnswer]:
        return await self._run(lambda tx: report(tx, reports))

    async def cancel(self, ids: Sequence[UUID]) -> list[CancelAnswer]:
        return await self._run(lambda tx: cancel(tx, ids))

    async def replay(self, ids: Sequence[UUID]) -> list[ReplayAnswer]:
        return await self._run(lambda tx: replay(tx, ids))

    async def replay_where(self, where: Filter, *, limit: int, cursor: int | None = None) -> ReplayPage:
        states = frozenset(REPLAYABLE) if where.states is None else where.states & set(REPLAYABLE)
        search = Search(where=where, states=states, limit=limit, cursor=cursor, budget=self._scan_budget)

        def work(tx: SQLiteTransaction) -> ReplayPage:
            found, next_cursor = search.run(tx.cursor)
            return ReplayPage(tuple(run_now(replay(tx, [UUID(bytes=job_id) for _, job_id in found]))), next_cursor)

        return await self._write(work)

    async def fire(self, fires: Sequence[Fire]) -> list[FireAnswer]:
        return await self._run(lambda tx: fire(tx, fires))

    async def tick(self, tick: Tick) -> TickReport:
        """All parts are asked for at once, so that they share a commit; each can fail only itself."""
        reports = [self._run(lambda tx, part=part: part(tx, tick)) for part in PARTS]  # type: ignore[misc]
        return tick_verbs.total(list(await asyncio.gather(*reports)))

    # reads

    async def read(self, ids: Sequence[UUID]) -> list[Job | None]:
        return await self._read(lambda cursor: read.read(cursor, ids))

    async def read_page(self, where: Filter, *, limit: int, cursor: int | None = None) -> Page:
        search = Search(where=where, states=where.states, limit=limit, cursor=cursor, budget=self._scan_budget)
        return await self._read(lambda cursor: read.read_page(cursor, search))

    async def read_attempts(self, job_id: UUID) -> list[Attempt]:
        return await self._read(lambda cursor: read.read_attempts(cursor, job_id))

    async def read_upstream(self, job_id: UUID) -> list[Upstream]:
        return await self._read(lambda cursor: read.read_upstream(cursor, job_id))

    async def read_queues(self) -> list[QueueStats]:
        return await self._read(read.read_queues)

    async def read_workers(self) -> list[WorkerInfo]:
        return await self._read(read.read_workers)

    async def read_place(self, job_id: UUID) -> Place | None:
        return await self._read(lambda cursor: read.read_place(cursor, job_id, now=time_of(self._clock)))

    async def read_cron(self) -> CronState:
        return await self._read(lambda cursor: read.read_cron(cursor, now=time_of(self._clock)))

    # doctor

    async def examine(self, examination: Examination) -> Examined:
        return await self._read(lambda cursor: doctor.examine(cursor, examination, now=time_of(self._clock)))

    async def find_overdue(self, timing: Timing = DEFAULT_TIMING) -> Look:
        return await self._read(lambda cursor: doctor.find_overdue(cursor, timing, now=time_of(self._clock)))

    async def repair(self, code: Code, examination: Examination, *, seqs: Collection[int] = ()) -> None:
        await self._write(lambda tx: doctor.repair(tx, code, examination, seqs))

    # API keys

    async def add_key(self, new: NewKey) -> ApiKey:
        return await self._write(lambda tx: api_keys.add_key(tx, new))

    async def revoke_key(self, key_id: UUID) -> ApiKey:
        return await self._write(lambda tx: api_keys.revoke_key(tx, key_id))

    async def find_key(self, key_id: UUID) -> StoredKey | None:
        return await self._read(lambda cursor: api_keys.find_key(cursor, key_id, now=time_of(self._clock)))

    async def read_keys(self) -> list[ApiKey]:
        return await self._read(api_keys.read_keys)

    # queues and workers

    async def pause(self, queue: str) -> None:
        await self._write(lambda tx: tx.run("pause.pause", queue, tx.now_microseconds))

    async def resume(self, queue: str) -> None:

        def work(tx: SQLiteTransaction) -> None:
            tx.run("pause.resume", queue)
            tx.awakened.add(queue)

        await self._write(work)

    async def register(
        self, worker_id: UUID, *, name: str, queues: Sequence[str] = (), types: Sequence[str] = ()
    ) -> None:
        await self._write(lambda tx: workers.register(tx, worker_id, name=name, queues=queues, types=types))

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        return await self._write(lambda tx: workers.heartbeat(tx, heartbeat))

    async def attend(self, worker_id: UUID, *, worker_timeout_seconds: float, tick: Tick | None) -> None:
        async def reclaim(gone: Sequence[UUID], tick: Tick) -> None:
            report = TickReport(has_more=True)
            while report.has_more:
                report = await self._run(lambda tx: tick_verbs.gone_workers(tx, tick, gone))

        presence = Presence(
            self.path,
            worker_id,
            worker_timeout_seconds=worker_timeout_seconds,
            on_gone=None if tick is None else lambda gone: reclaim(gone, tick),
        )
        await presence.run()

    async def leave(self, worker_id: UUID) -> None:
        await self._write(lambda tx: workers.leave(tx, worker_id))


def _with_dependents(work: Callable[[SQLiteTransaction], Answer], tx: SQLiteTransaction) -> Answer:
    answer = work(tx)
    if tx.marked:
        run_now(propagate(tx))
    return answer
