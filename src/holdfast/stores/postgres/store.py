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
    Completed,
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
    Settled,
    Settlement,
    Submit,
    SubmitAnswer,
    Tick,
    TickReport,
    Worker,
)
from holdfast.core.errors import Unavailable
from holdfast.core.examination import Code, Examination, Examined, Look
from holdfast.core.job import Attempt, ClaimedJob, Job, Lease, Upstream
from holdfast.core.liveness import DEFAULT_TIMING, Timing
from holdfast.core.ports import Clock
from holdfast.core.states import State
from holdfast.stores.postgres import keys, reads
from holdfast.stores.postgres.claim import Claims
from holdfast.stores.postgres.connections import AsyncpgExecutor
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.doctor import PostgresDoctor
from holdfast.stores.postgres.errors import LOCK_NOT_AVAILABLE, sqlstate_of
from holdfast.stores.postgres.locks import BRIEFLY, Held, names_of_jobs
from holdfast.stores.postgres.presence import Presence
from holdfast.stores.postgres.rows import given_once
from holdfast.stores.postgres.submit import Submits
from holdfast.stores.postgres.sweeps import Searches
from holdfast.stores.postgres.transaction import PostgresTransaction
from holdfast.stores.transaction import Transaction
from holdfast.stores.verbs import tick as tick_verbs
from holdfast.stores.verbs.cancel import cancel
from holdfast.stores.verbs.fire import fire
from holdfast.stores.verbs.lease import extend, hand_back_unknown, report
from holdfast.stores.verbs.replay import replay
from holdfast.stores.verbs.settle import settle

Answer = TypeVar("Answer")
Part = Callable[[Transaction, Tick], Coroutine[Any, Any, TickReport]]

COMPLETED: Final = Settled(State.COMPLETED)


class PostgresStore:
    submit_lanes: Final = 2
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

    # settle

    async def settle(self, settlements: Sequence[Settlement]) -> list[SettleAnswer]:
        answers: dict[int, SettleAnswer] = {}
        plain = [one for one in settlements if one.is_plain_success]
        has_waited = False
        done: set[tuple[int, UUID]] | None = set()
        try:
            if plain:
                done = await self._settle_plain(plain)
        except Held:
            # The verbs find out which of them it is, and do not wait again.
            has_waited = True
        if done is None:
            if len(plain) == len(settlements):
                return [COMPLETED] * len(settlements)
            done = {(one.lease.seq, one.lease.token) for one in plain}
        for index, one in enumerate(settlements):
            # Of two settlements of one lease in a call the first wins, and the other is answered below.
            if one.is_plain_success and (one.lease.seq, one.lease.token) in done:
                done.remove((one.lease.seq, one.lease.token))
                answers[index] = COMPLETED
        rest = {index: one for index, one in enumerate(settlements) if index not in answers}
        if rest:
            settled = await self._database.transact_each(
                list(rest.values()), settle, names_of=_names_of_settlement, may_wait=not has_waited
            )
            answers.update(zip(rest, settled, strict=True))
        return [answers[index] for index in range(len(settlements))]

    async def _settle_plain(self, settlements: Sequence[Settlement]) -> set[tuple[int, UUID]] | None:
        """The leases that were valid, and are now settled; None for all of them. ``Held`` where somebody holds one."""
        by_seq = sorted(settlements, key=lambda one: one.lease.seq)
        try:
            (row,) = await self._database.fetch(
                self._database.sql["settle"],
                self._database.now,
                [one.lease.seq for one in by_seq],
                [one.lease.token for one in by_seq],
                given_once([one.outcome.result if isinstance(one.outcome, Completed) else None for one in by_seq]),
                BRIEFLY,
            )
        except Unavailable as error:
            if sqlstate_of(error.__cause__ or error) != LOCK_NOT_AVAILABLE:
                raise
            raise Held(has_waited=True) from error
        if row["marked"]:
            await self._database.tell_now(row["marked"])
        if row["settled"] == len(settlements):
            return None
        return set(zip(row["jobs"] or (), row["tokens"] or (), strict=True))

    # leases

    async def extend(self, leases: Sequence[Lease]) -> list[ExtendAnswer]:
        return await self._database.transact_each(leases, extend, names_of=lambda lease: {lease.seq})

    async def report(self, reports: Sequence[Report]) -> list[ReportAnswer]:
        return await self._database.transact_each(reports, report, names_of=lambda one: {one.lease.seq})

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        rows = await self._database.fetch(
            self._database.sql["heartbeat.extend"],
            self._database.now,
            heartbeat.worker,
            [lease.seq for lease in heartbeat.held],
            [lease.token for lease in heartbeat.held],
            1 - limits.EXTEND_AFTER_FRACTION,
            list(heartbeat.claiming),
            self._database.sweeps.unknown.is_due(heartbeat.worker),
        )
        is_known = rows[0]["known"] > 0
        valid = {row["token"] for row in rows if row["token"] is not None}
        handed_back = 0
        owned = rows[0]["owned"]
        if owned is not None:
            self._database.sweeps.unknown.done(heartbeat.worker)
        if is_known and owned is not None and owned > len(valid - heartbeat.claiming):
            handed_back = await self._database.transact(
                lambda tx: hand_back_unknown(tx, heartbeat.worker, known=heartbeat.held, claiming=heartbeat.claiming),
                may_wait=False,
            )
        return HeartbeatAnswer(
            is_known=is_known,
            lost=frozenset(lease.token for lease in heartbeat.held) - valid,
            cancel_requested=frozenset(row["token"] for row in rows if row["cancel_requested"]),
            handed_back=handed_back,
        )

    async def register(
        self, worker_id: UUID, *, name: str, queues: Sequence[str] = (), types: Sequence[str] = ()
    ) -> None:
        given = (worker_id, name, self._database.now, list(queues), list(types))
        await self._database.fetch(self._database.sql["heartbeat.register"], *given)

    @property
    def absent_since(self) -> float | None:
        return None if self._presence is None else self._presence.absent_since

    async def attend(self, worker_id: UUID, *, worker_timeout_seconds: float, tick: Tick | None) -> None:
        if not self._database.has_sessions:
            return

        async def reclaim(gone: Sequence[UUID], tick: Tick) -> None:
            report = TickReport(has_more=True)
            while report.has_more:
                report = await self._database.transact(
                    lambda tx: tick_verbs.gone_workers(tx, tick, gone), may_wait=False
                )

        self._presence = Presence(
            self._database,
            worker_id,
            worker_timeout_seconds=worker_timeout_seconds,
            on_gone=None if tick is None else lambda gone: reclaim(gone, tick),
        )
        await self._presence.run()

    async def leave(self, worker_id: UUID) -> None:
        async def hand_back(tx: PostgresTransaction) -> None:
            await hand_back_unknown(tx, worker_id, known=(), claiming=frozenset())

        await self._database.transact(hand_back, may_wait=False)
        await self._database.fetch(self._database.sql["heartbeat.leave"], worker_id)
        # What a claim got that found the worker still there. One that is later still is for tick.
        await self._database.transact(hand_back, may_wait=False)

    # manage

    async def cancel(self, ids: Sequence[UUID]) -> list[CancelAnswer]:
        return _all_free(ids, await self._database.transact_each(ids, cancel, names_of=lambda job_id: {job_id}))

    async def replay(self, ids: Sequence[UUID]) -> list[ReplayAnswer]:
        return _all_free(ids, await self._database.transact_each(ids, replay, names_of=lambda job_id: {job_id}))

    async def replay_where(self, where: Filter, *, limit: int, cursor: int | None = None) -> ReplayPage:
        ids, next_cursor = await self._read(lambda reader: reader.find_replayable(where, limit=limit, cursor=cursor))
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
        """One statement asks whether there is anything to do; only the parts that have work run, each by itself."""
        sweeps = self._database.sweeps
        asked = sweeps.begin()
        (row,) = await self._database.fetch(
            self._database.sql["tick.ask"],
            self._database.now,
            tick.worker_timeout_seconds,
            asked.due.start,
            asked.expired.start,
            tick.completed_retention_seconds,
            tick.dead_retention_seconds,
            asked.done_from[0],
            limits.WORKER_RETENTION_SECONDS,
            limits.CRON_RETENTION_SECONDS,
            sweeps.ticked_at,
            asked.dead_from[0],
            sweeps.marks.begin()[0],
        )
        sweeps.ticked_at = row["now"]
        if self._presence is not None:
            self._presence.note_attended(row["attended"])
        searches = sweeps.put_right(asked, row["now"])
        if not row["due"] and searches.due is asked.due:
            sweeps.due.finished(asked.due, row["now"])
        if not row["expired"] and searches.expired is asked.expired:
            sweeps.expired.finished(asked.expired, row["now"])
        sweeps.marks.note(row["next_number"])
        if not row["marks"]:
            sweeps.marks.finished()
        owed = "marks" if sweeps.marks.owed(limit=1) else None
        parts = [
            part
            for part in tick_verbs.PARTS
            if row[part.__name__] or part.__name__ == owed or searches.asks_for(part.__name__, asked)
        ]
        reports = await self._run_parts(parts, tick, searches)
        await self._compact_tally(row["tally_bytes"])
        return tick_verbs.total(reports, quiet_seconds=row["quiet_seconds"])

    async def _run_parts(self, parts: Sequence[Part], tick: Tick, searches: Searches) -> list[TickReport]:
        """All of them, whatever becomes of the ones before."""
        reports: list[TickReport] = []
        problems: list[Exception] = []
        for part in parts:
            try:
                # Never waits for a job: one that somebody holds is the business of a later tick.
                reports.append(
                    await self._tell_marks(tick)
                    if part is tick_verbs.marks
                    else await self._database.transact(_bound(part, tick, searches), may_wait=False)
                )
            except Exception as problem:
                problems.append(problem)
        if problems:
            raise problems[0]
        return reports

    async def _compact_tally(self, size_bytes: int) -> None:
        tally = self._database.sweeps.tally
        if not tally.is_worth_it(size_bytes):
            return
        (row,) = await self._database.fetch(self._database.sql["tick.tally_rows"])
        if row["rows"] < 2 * row["sums"]:
            tally.is_all_needed(size_bytes)
            return
        (answer,) = await self._database.fetch(self._database.sql["tick.compact_tally"], tally.wait_milliseconds)
        tally.tried(is_done=answer["is_done"])

    async def _tell_marks(self, tick: Tick) -> TickReport:
        marks = self._database.sweeps.marks
        again = marks.owed(limit=tick.batch)
        found = await self._database.transact(lambda tx: tx.find_marks(limit=tick.batch))
        marked = {*again, *found}
        told = await self._database.tell(marked, limit=max(tick.batch, len(marked)))
        marks.told(marked - told.held - told.left)
        marks.put_off(marked & (told.held | told.left))
        return TickReport(
            propagated=told.done, has_more=marks.is_under_way or (told.done > 0 and len(again) == tick.batch)
        )

    # doctor

    async def examine(self, examination: Examination) -> Examined:
        return await PostgresDoctor(self._database).examine(examination)

    async def find_overdue(self, timing: Timing = DEFAULT_TIMING) -> Look:
        return await PostgresDoctor(self._database).find_overdue(timing)

    async def repair(self, code: Code, examination: Examination, *, seqs: Collection[int] = ()) -> None:
        await PostgresDoctor(self._database).repair(code, examination, seqs)

    # API keys

    async def add_key(self, new: NewKey) -> ApiKey:
        return await keys.add_key(self._database, new)

    async def revoke_key(self, key_id: UUID) -> ApiKey:
        return await keys.revoke_key(self._database, key_id)

    async def find_key(self, key_id: UUID) -> StoredKey | None:
        return await keys.find_key(self._database, key_id)

    async def read_keys(self) -> list[ApiKey]:
        return await keys.read_keys(self._database)

    # reads

    async def _read(self, question: Callable[[reads.Reader], Coroutine[Any, Any, Answer]]) -> Answer:
        def ask(connection: Any) -> Coroutine[Any, Any, Answer]:
            executor = AsyncpgExecutor(connection)
            return question(reads.Reader(executor, self._database.sql, scan_budget=self._scan_budget))

        return await self._database.use(ask)

    async def read(self, ids: Sequence[UUID]) -> list[Job | None]:
        return await self._read(lambda reader: reader.read(ids))

    async def read_page(self, where: Filter, *, limit: int, cursor: int | None = None) -> Page:
        return await self._read(lambda reader: reader.read_page(where, limit=limit, cursor=cursor))

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

    async def read_workers(self) -> list[Worker]:
        return await self._read(lambda reader: reader.read_workers())

    async def read_place(self, job_id: UUID) -> Place | None:
        return await self._read(lambda reader: reader.read_place(job_id, now=self._database.now))

    async def read_cron(self) -> CronState:
        return await self._read(lambda reader: reader.read_cron(now=self._database.now))


def _names_of_settlement(settlement: Settlement) -> set[object]:
    spawn = settlement.outcome.spawn if isinstance(settlement.outcome, Completed) else ()
    return {settlement.lease.seq, *names_of_jobs(spawn)}


def _all_free(ids: Sequence[UUID], answers: Sequence[Answer | Unavailable]) -> list[Answer]:
    """The others are dealt with by now, and a repeat leaves them as they are."""
    held = [str(job_id) for job_id, answer in zip(ids, answers, strict=True) if isinstance(answer, Unavailable)]
    if held:
        raise Unavailable(
            f"somebody's open transaction holds {len(held)} of {len(ids)} jobs, the others are done; "
            f"repeat the call: {', '.join(held[:10])}"
        )
    return [answer for answer in answers if not isinstance(answer, Unavailable)]


def _bound(
    part: Part, tick: Tick, searches: Searches
) -> Callable[[PostgresTransaction], Coroutine[Any, Any, TickReport]]:
    async def verb(tx: PostgresTransaction) -> TickReport:
        tx.searches = searches
        return await part(tx, tick)

    return verb
