"""The port over PostgreSQL.

Fast verbs are one statement each, committed by itself: submit of plain jobs (``submit``), claim, settle of plain
successes, heartbeat. Everything else runs the shared verbs in a transaction.
"""

import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from holdfast.core import limits
from holdfast.core.access import ApiKey, NewKey, StoredKey
from holdfast.core.checks import (
    require_valid_claim,
    require_valid_fires,
    require_valid_key,
    require_valid_key_id,
    require_valid_page,
    require_valid_queue,
    require_valid_report,
    require_valid_tick,
    require_valid_worker,
)
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
    lease_tokens,
)
from holdfast.core.errors import WorkerNotFound
from holdfast.core.job import Attempt, ClaimedJob, Job, Lease, Upstream
from holdfast.core.payload import check_limit
from holdfast.core.ports import Clock
from holdfast.core.states import State
from holdfast.stores.postgres import keys, reads
from holdfast.stores.postgres.connections import AsyncpgExecutor
from holdfast.stores.postgres.cursors import ClaimCursors
from holdfast.stores.postgres.database import POOL_SIZE, Database
from holdfast.stores.postgres.rows import Row, all_claimed_from, given_once, in_claim_order
from holdfast.stores.postgres.submit import Submits
from holdfast.stores.postgres.transaction import TALLY_ROWS, PostgresTransaction
from holdfast.stores.transaction import Transaction
from holdfast.stores.verbs import tick as tick_verbs
from holdfast.stores.verbs.cancel import cancel
from holdfast.stores.verbs.change import propagate
from holdfast.stores.verbs.fire import fire
from holdfast.stores.verbs.lease import extend, hand_back_unknown, report
from holdfast.stores.verbs.replay import replay
from holdfast.stores.verbs.settle import settle

Answer = TypeVar("Answer")

COMPLETED: Final = Settled(State.COMPLETED)


class PostgresStore:
    submit_lanes: Final = 2

    def __init__(
        self,
        url: str,
        *,
        schema: str = "holdfast",
        clock: Clock | None = None,
        prepared_statements: bool = True,
        listen: bool = True,
        notify: bool = True,
        pool_size: int = POOL_SIZE,
        payload_limit_bytes: int = limits.DEFAULT_PAYLOAD_BYTES,
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
        self._submits = Submits(self._database, payload_limit_bytes=check_limit(payload_limit_bytes))
        self._payload_limit_bytes = payload_limit_bytes
        self._scan_budget = scan_budget
        self._cursors = ClaimCursors()

    async def open(self) -> None:
        await self._database.open()

    async def close(self) -> None:
        await self._database.close()

    async def wait(self, queues: Sequence[str], *, timeout_seconds: float) -> bool:
        return await self._database.wait(queues, timeout_seconds=timeout_seconds)

    async def submit(self, submits: Sequence[Submit], *, connection: Any = None) -> list[SubmitAnswer]:
        if connection is not None:
            return await self._submits.submit_within(submits, connection)
        return await self._submits.submit(submits)

    # claim

    async def claim(self, claim: Claim) -> list[ClaimedJob]:
        require_valid_claim(claim)
        if claim.is_repeat:
            tokens = lease_tokens(claim.nonce, claim.limit)
            rows = await self._database.fetch(self._database.sql["claim_again"], claim.owner, tokens)
            if rows:
                return all_claimed_from(rows, claim.owner)
        await self._refresh_cursors(claim)
        rows = await self._claim_rows(claim)
        if len(rows) < claim.limit and claim.types is None and self._cursors.is_ahead(claim.queues):
            self._cursors.go_back(claim.queues)
            if not rows:
                rows = await self._claim_rows(claim)
        return all_claimed_from(rows, claim.owner)

    async def _claim_rows(self, claim: Claim) -> Sequence[Row]:
        lanes = self._cursors.columns(claim.queues, from_start=claim.types is not None)
        types = list(claim.types) if claim.types is not None else None
        token_stem = str(claim.nonce)[:-4]
        rows = await self._database.fetch(
            self._database.sql["claim"], self._database.now, claim.owner, *lanes, claim.limit, types, token_stem
        )
        if rows[0]["job"] is None:
            if rows[0]["is_known"]:
                return []
            raise WorkerNotFound(claim.owner)
        rows = in_claim_order(rows, claim.queues)
        if claim.types is None:
            self._cursors.advance(rows)
        return rows

    async def _refresh_cursors(self, claim: Claim) -> None:
        monotonic = time.monotonic()
        if self._cursors.is_refresh_due(claim.queues, monotonic=monotonic):
            rows = await self._database.fetch(self._database.sql["claim_floor"], *self._cursors.floors(claim.queues))
            self._cursors.refresh(claim.queues, rows, monotonic=monotonic)

    # settle

    async def settle(self, settlements: Sequence[Settlement]) -> list[SettleAnswer]:
        answers: dict[int, SettleAnswer] = {}
        plain = [one for one in settlements if one.is_plain_success]
        done = await self._settle_plain(plain) if plain else set()
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
            settled = await self._database.transact(lambda tx: settle(tx, list(rest.values())))
            answers.update(zip(rest, settled, strict=True))
        return [answers[index] for index in range(len(settlements))]

    async def _settle_plain(self, settlements: Sequence[Settlement]) -> set[tuple[int, UUID]] | None:
        """The leases that were valid, and are now settled; None for all of them."""
        by_seq = sorted(settlements, key=lambda one: one.lease.seq)
        (row,) = await self._database.fetch(
            self._database.sql["settle"],
            self._database.now,
            [one.lease.seq for one in by_seq],
            [one.lease.token for one in by_seq],
            given_once([one.outcome.result if isinstance(one.outcome, Completed) else None for one in by_seq]),
        )
        if row["has_dependents"]:
            await self._database.transact(propagate)
        if row["settled"] == len(settlements):
            return None
        return set(zip(row["jobs"] or (), row["tokens"] or (), strict=True))

    # leases

    async def extend(self, leases: Sequence[Lease]) -> list[ExtendAnswer]:
        return await self._database.transact(lambda tx: extend(tx, leases))

    async def report(self, reports: Sequence[Report]) -> list[ReportAnswer]:
        for one in reports:
            require_valid_report(one)
        return await self._database.transact(lambda tx: report(tx, reports))

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        rows = await self._database.fetch(
            self._database.sql["extend"],
            self._database.now,
            heartbeat.worker,
            [lease.seq for lease in heartbeat.held],
            [lease.token for lease in heartbeat.held],
            1 - limits.EXTEND_AFTER_FRACTION,
            list(heartbeat.claiming),
        )
        is_known = rows[0]["known"] > 0
        valid = {row["token"] for row in rows if row["token"] is not None}
        handed_back = 0
        if is_known and rows[0]["owned"] > len(valid - heartbeat.claiming):
            handed_back = await self._database.transact(
                lambda tx: hand_back_unknown(tx, heartbeat.worker, known=heartbeat.held, claiming=heartbeat.claiming)
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
        require_valid_worker(name, queues=queues, types=types)
        sql = f"""
            INSERT INTO {self._database.sql.schema}.worker AS w (id, name, queues, types, registered_at, seen_at)
            SELECT $1::uuid, $2::text, $4::text[], $5::text[], clock.now, clock.now
            FROM (SELECT coalesce($3::timestamptz, clock_timestamp()) AS now) clock
            ON CONFLICT (id) DO UPDATE SET
                name = excluded.name, queues = excluded.queues, types = excluded.types,
                seen_at = excluded.seen_at, is_lost = false
        """
        await self._database.fetch(sql, worker_id, name, self._database.now, list(queues), list(types))

    async def leave(self, worker_id: UUID) -> None:
        async def verb(tx: PostgresTransaction) -> None:
            await hand_back_unknown(tx, worker_id, known=(), claiming=frozenset())

        await self._database.transact(verb)
        schema = self._database.sql.schema
        sql = f"""
            DELETE FROM {schema}.worker w WHERE w.id = $1::uuid
                AND (SELECT r.job FROM {schema}.running r WHERE r.owner = w.id ORDER BY r.expires_at LIMIT 1) IS NULL
        """
        await self._database.fetch(sql, worker_id)

    # manage

    async def cancel(self, ids: Sequence[UUID]) -> list[CancelAnswer]:
        return await self._database.transact(lambda tx: cancel(tx, ids))

    async def replay(self, ids: Sequence[UUID]) -> list[ReplayAnswer]:
        return await self._database.transact(lambda tx: replay(tx, ids))

    async def replay_where(self, where: Filter, *, limit: int, cursor: int | None = None) -> ReplayPage:
        require_valid_page(where, limit=limit)
        ids, next_cursor = await self._read(lambda reader: reader.find_replayable(where, limit=limit, cursor=cursor))
        return ReplayPage(tuple(await self.replay(ids)), next_cursor)

    async def pause(self, queue: str) -> None:
        require_valid_queue(queue)
        sql = f"""
            INSERT INTO {self._database.sql.schema}.pause (queue, paused_at)
            VALUES ($1::text, coalesce($2::timestamptz, clock_timestamp())) ON CONFLICT DO NOTHING
        """
        await self._database.fetch(sql, queue, self._database.now)

    async def resume(self, queue: str) -> None:
        require_valid_queue(queue)
        await self._database.fetch(f"DELETE FROM {self._database.sql.schema}.pause WHERE queue = $1::text", queue)
        self._database.announce({queue})

    async def fire(self, fires: Sequence[Fire]) -> list[FireAnswer]:
        require_valid_fires(fires)
        return await self._database.transact(lambda tx: fire(tx, fires, payload_limit_bytes=self._payload_limit_bytes))

    async def tick(self, tick: Tick) -> TickReport:
        """One statement asks whether there is anything to do; only the parts that have work run."""
        require_valid_tick(tick)
        (row,) = await self._database.fetch(
            self._database.sql["tick"],
            self._database.now,
            tick.worker_timeout_seconds,
            self._database.sweeps.due.start(),
            self._database.sweeps.expired.start(),
            tick.completed_retention_seconds,
            tick.dead_retention_seconds,
            TALLY_ROWS,
            limits.WORKER_RETENTION_SECONDS,
            limits.CRON_RETENTION_SECONDS,
        )
        parts = [part for part in tick_verbs.PARTS if row[part.__name__]]
        reports = [await self._database.transact(_bound(part, tick)) for part in parts]
        return tick_verbs.total(reports, quiet_seconds=row["quiet_seconds"])

    # API keys

    async def add_key(self, new: NewKey) -> ApiKey:
        require_valid_key(new)
        return await keys.add_key(self._database, new)

    async def revoke_key(self, key_id: UUID) -> ApiKey:
        require_valid_key_id(key_id)
        return await keys.revoke_key(self._database, key_id)

    async def find_key(self, key_id: UUID) -> StoredKey | None:
        require_valid_key_id(key_id)
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
        require_valid_page(where, limit=limit)
        return await self._read(lambda reader: reader.read_page(where, limit=limit, cursor=cursor))

    async def read_attempts(self, job_id: UUID) -> list[Attempt]:
        return await self._read(lambda reader: reader.read_attempts(job_id))

    async def read_upstream(self, job_id: UUID) -> list[Upstream]:
        return await self._read(lambda reader: reader.read_upstream(job_id))

    async def read_queues(self) -> list[QueueStats]:
        return await self._read(lambda reader: reader.read_queues())

    async def read_workers(self) -> list[Worker]:
        return await self._read(lambda reader: reader.read_workers())

    async def read_place(self, job_id: UUID) -> Place | None:
        return await self._read(lambda reader: reader.read_place(job_id, now=self._database.now))

    async def read_cron(self) -> CronState:
        return await self._read(lambda reader: reader.read_cron(now=self._database.now))


def _bound(
    part: Callable[[Transaction, Tick], Coroutine[Any, Any, TickReport]], tick: Tick
) -> Callable[[PostgresTransaction], Coroutine[Any, Any, TickReport]]:
    return lambda tx: part(tx, tick)
