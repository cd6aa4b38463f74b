"""The port over PostgreSQL.

Fast verbs are one statement each, committed by itself: submit of plain jobs, claim, settle of plain successes,
heartbeat. Everything else runs the shared verbs in a transaction. No session state is used: no session locks, no
temporary tables, prepared statements only where allowed; LISTEN has a connection of its own and may be off.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import UUID

import asyncpg

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
    require_valid_submit,
    require_valid_tick,
    require_valid_worker,
)
from holdfast.core.commands import (
    AlikeJobs,
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
    JobsInParts,
    NewJob,
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
    Submitted,
    Tick,
    TickReport,
    Worker,
    lease_tokens,
)
from holdfast.core.errors import HoldfastError, InvalidInput, SchemaMismatch, SchemaMissing, Unavailable, WorkerNotFound
from holdfast.core.job import Attempt, ClaimedJob, Job, Lease, Upstream
from holdfast.core.payload import check_limit
from holdfast.core.ports import Clock
from holdfast.core.states import State
from holdfast.stores.postgres import keys, reads, version
from holdfast.stores.postgres.connections import AsyncpgExecutor, executor_of, open_connection
from holdfast.stores.postgres.cursors import ClaimCursors
from holdfast.stores.postgres.errors import RETRIED, UNIQUE_VIOLATION, sqlstate_of, translate, translated
from holdfast.stores.postgres.pool import Pool
from holdfast.stores.postgres.rows import Row, all_claimed_from, given_once, in_claim_order, one_row, plain_insert
from holdfast.stores.postgres.statements import MAX_IDENTIFIER_CHARACTERS, Statements
from holdfast.stores.postgres.transaction import TALLY_ROWS, Executor, PostgresTransaction, Sweeps
from holdfast.stores.postgres.wake import Listener, Notifier, payloads_of
from holdfast.stores.transaction import Transaction
from holdfast.stores.verbs import tick as tick_verbs
from holdfast.stores.verbs.cancel import cancel
from holdfast.stores.verbs.change import propagate
from holdfast.stores.verbs.fire import fire
from holdfast.stores.verbs.lease import extend, hand_back_unknown, report
from holdfast.stores.verbs.replay import replay
from holdfast.stores.verbs.settle import settle
from holdfast.stores.verbs.submit import submit
from holdfast.stores.wakeup import Wakeups

Answer = TypeVar("Answer")

TRIES: Final = 5
COMMAND_TIMEOUT_SECONDS: Final = 60.0
POOL_SIZE: Final = 10
CHANNEL: Final = "holdfast"
COMPLETED: Final = Settled(State.COMPLETED)
NOTIFY: Final = "SELECT pg_notify($1::text, payload) FROM unnest($2::text[]) AS g (payload)"
# Of a notification by itself nothing need reach the disk.
NOTIFY_AFTER_COMMIT: Final = NOTIFY.replace("SELECT", "SELECT set_config('synchronous_commit', 'off', true),", 1)

# The plans of the hot statements are index lookups whatever the statistics say. As start-up settings they hold for
# our own connections only, and for cached plans too. Behind a pooler plans are made afresh for every statement: there
# they are set for each transaction, and the statements that are one by themselves are written so as to need none.
PLANNER: Final = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    # The plan does not depend on the arguments, so it is made once.
    "plan_cache_mode": "force_generic_plan",
}

# Every type of our parameters that asyncpg has to ask the server about.
LEARN_TYPES: Final = (
    "SELECT NULL::uuid[], NULL::bigint[], NULL::int[], NULL::smallint[], NULL::float8[], NULL::boolean[], "
    "NULL::bytea[], NULL::timestamptz[]"
)

BEGIN: Final = (
    "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '30s'; SET LOCAL lock_timeout = '20s'; "
    "SET LOCAL statement_timeout = '60s'"
)
BEGIN_POOLED: Final = "; ".join((BEGIN, *(f"SET LOCAL {name} = {value}" for name, value in PLANNER.items())))


class Unusual(Exception):
    """A submit cannot be written part by part."""


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
        self._url = url
        self._schema = schema
        self._sql = Statements(schema)
        self._clock = clock
        self._is_prepared = prepared_statements
        self._is_listening = listen
        self._is_notifying = notify
        self._pool_size = pool_size
        self._payload_limit_bytes = check_limit(payload_limit_bytes)
        self._scan_budget = scan_budget
        self._pool: Pool | None = None
        self._cursors = ClaimCursors()
        self._sweeps = Sweeps()
        self._wakeups = Wakeups()
        self._notifier = Notifier(self._send_notifications)
        self._channel = f"{CHANNEL}_{schema}"[:MAX_IDENTIFIER_CHARACTERS]
        self._listener = Listener(self._connect, self._channel, self._wakeups)

    # connections

    def _connection_arguments(self) -> dict[str, Any]:
        if self._is_prepared:
            return {"server_settings": {**PLANNER, "application_name": "holdfast"}}
        return {"statement_cache_size": 0}

    async def _connect(self) -> asyncpg.Connection:
        connection = await open_connection(
            self._url, command_timeout=COMMAND_TIMEOUT_SECONDS, **self._connection_arguments()
        )
        if not self._is_prepared:
            await _learn_types(connection)
        return connection

    async def open(self) -> None:
        self._pool = Pool(self._connect, size=self._pool_size)
        try:
            await self._require_schema()
        except BaseException:
            await self.close()
            raise

    async def _require_schema(self) -> None:
        table = f"{self._sql.schema}.{version.VERSION_TABLE}"
        try:
            rows = await self._fetch(f"SELECT version_num FROM {table}")
        except SchemaMissing as error:
            raise SchemaMissing(
                f"Holdfast's tables are not in schema {self._schema!r}; run: holdfast migrate"
            ) from error
        found, wanted = (rows[0]["version_num"] if rows else "nothing"), version.head()
        if found != wanted:
            advice = "run: holdfast migrate" if found < wanted or not rows else "upgrade this program"
            raise SchemaMismatch(f"schema {self._schema!r} is at {found}, this program speaks {wanted}; {advice}")

    async def close(self) -> None:
        await self._listener.close()
        await self._notifier.close()
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await pool.close()

    @property
    def _now(self) -> datetime | None:
        """None: the database's own clock."""
        return self._clock.now() if self._clock is not None else None

    async def _fetch(self, sql: str, *arguments: Any) -> Sequence[Row]:
        """One statement, committed by itself."""
        return await self._use(lambda connection: connection.fetch(sql, *arguments))

    async def _transact(self, verb: Callable[[PostgresTransaction], Coroutine[Any, Any, Answer]]) -> Answer:
        """A verb in a transaction of its own."""
        return await self._use(lambda connection: self._transact_once(connection, verb))

    async def _use(self, work: Callable[[Any], Coroutine[Any, Any, Answer]]) -> Answer:
        """Work on a connection; again after a deadlock, or when a simultaneous repeat was first."""
        pool = self._pool
        if pool is None:
            raise Unavailable("the store is not open; call open() first")
        for tries_left in reversed(range(TRIES)):
            try:
                return await pool.lend(work)
            except Exception as error:
                if tries_left and sqlstate_of(error) in RETRIED:
                    continue
                translation = translate(error)
                if translation is None:
                    raise
                raise translation from error
        raise AssertionError("the last try returns or raises")

    async def _transact_once(
        self, connection: Any, verb: Callable[[PostgresTransaction], Coroutine[Any, Any, Answer]]
    ) -> Answer:
        await connection.execute(BEGIN if self._is_prepared else BEGIN_POOLED)
        try:
            now = self._now or await connection.fetchval("SELECT clock_timestamp()")
            tx = PostgresTransaction(AsyncpgExecutor(connection), self._sql, now, self._sweeps)
            answer = await verb(tx)
            await connection.execute("COMMIT")
        except Exception:
            # After a cancellation the connection is given up instead, which rolls back, too.
            if not connection.is_closed():
                await connection.execute("ROLLBACK")
            raise
        self._announce(tx.awakened)
        return answer

    # waking

    def _announce(self, queues: set[str]) -> None:
        if queues:
            self._wakeups.wake(queues)
            if self._is_notifying:
                self._notifier.announce(queues)

    async def _send_notifications(self, queues: list[str]) -> None:
        await self._fetch(NOTIFY_AFTER_COMMIT, self._channel, payloads_of(queues))

    async def wait(self, queues: Sequence[str], *, timeout_seconds: float) -> bool:
        if self._is_listening:
            self._listener.start()
        try:
            return await asyncio.wait_for(self._wakeups.next(queues), timeout_seconds)
        except TimeoutError:
            return False

    # submit

    async def submit(self, submits: Sequence[Submit], *, connection: Any = None) -> list[SubmitAnswer]:
        if connection is not None:
            return await self._submit_within(submits, connection)
        if len(submits) == 1 and isinstance(submits[0].jobs, JobsInParts):
            if await self._submit_parts(submits[0].jobs):
                return [tuple(map(Submitted, submits[0].ids))]
        elif len(submits) == 1 and len(submits[0].jobs) == 1:
            return [await self._submit_single(submits[0])]
        return await self._submit_many(submits)

    async def _submit_single(self, submit: Submit) -> SubmitAnswer:
        """What a request handler does, one job at a time: nothing here but the statement."""
        (job,) = submit.jobs
        if not job.is_plain or job.delay_seconds:
            (answer,) = await self._submit_many([submit])
            return answer
        try:
            require_valid_submit(submit, payload_limit_bytes=self._payload_limit_bytes)
        except HoldfastError as refusal:
            return refusal
        is_carried = self._is_notifying and self._notifier.may_carry()
        await self._insert("submit_one", self._now, *one_row(job), self._channel if is_carried else None)
        if is_carried:
            self._wakeups.wake((job.queue,))
        else:
            self._announce({job.queue})
        return (Submitted(job.id),)

    async def _submit_many(self, submits: Sequence[Submit]) -> list[SubmitAnswer]:
        answers: dict[int, SubmitAnswer] = {}
        plain: dict[int, Submit] = {}
        other: dict[int, Submit] = {}
        for index, one in enumerate(submits):
            try:
                require_valid_submit(one, payload_limit_bytes=self._payload_limit_bytes)
            except HoldfastError as refusal:
                answers[index] = refusal
            else:
                (plain if one.is_plain else other)[index] = one
        if plain:
            first = next(iter(plain.values())).jobs
            await self._submit_plain(first if len(plain) == 1 else [job for one in plain.values() for job in one.jobs])
            answers.update((i, tuple(map(Submitted, one.ids))) for i, one in plain.items())
        if other:
            accepted = await self._transact(lambda tx: submit(tx, list(other.values())))
            self._announce(_queues_with_delays(other.values()))
            answers.update(zip(other, accepted, strict=True))
        return [answers[index] for index in range(len(submits))]

    async def _submit_parts(self, jobs: JobsInParts) -> bool:
        """Part by part in one transaction, each while the next is made.

        False where one is not plain, not valid or there already, or where they are too many: nothing is written, and
        the usual way finds out what is the matter.
        """

        async def submit_parts(connection: Any) -> bool:
            try:
                await self._transact_once(connection, lambda tx: self._write_parts(connection, jobs, tx))
            except (InvalidInput, Unusual, asyncpg.UniqueViolationError):
                return False
            return True

        return await self._use(submit_parts)

    async def _write_parts(self, connection: Any, jobs: JobsInParts, tx: PostgresTransaction) -> None:
        under_way: asyncio.Task[Any] | None = None
        written = 0
        try:
            for part in jobs.parts():
                submit = Submit(jobs=part)
                require_valid_submit(submit, payload_limit_bytes=self._payload_limit_bytes)
                written += len(part)
                if not submit.is_plain or written > limits.MAX_SUBMIT_JOBS:
                    raise Unusual
                tx.awakened |= _queues_of(part)
                if under_way is not None:
                    await under_way
                name, arguments = plain_insert(part)
                under_way = asyncio.create_task(connection.fetch(self._sql[name], tx.now, *arguments))
                # It goes out now, and the database is busy while the next part is made.
                await asyncio.sleep(0)
            if under_way is not None:
                await under_way
        finally:
            if under_way is not None and not under_way.done():
                await asyncio.wait([under_way])

    async def _submit_plain(self, jobs: Sequence[NewJob]) -> None:
        name, arguments = plain_insert(jobs)
        await self._insert(name, self._now, *arguments)
        self._announce(_queues_of(jobs))

    async def _insert(self, name: str, *arguments: Any) -> None:
        """New jobs. Where some are there already this is a repeat of a submit whose answer was lost."""
        sql = self._sql[name]

        async def insert(connection: Any) -> None:
            nonlocal sql
            try:
                await connection.fetch(sql, *arguments)
            except asyncpg.UniqueViolationError:
                sql = self._sql.for_repeat(name)
                raise

        await self._use(insert)

    async def _submit_within(self, submits: Sequence[Submit], connection: Any) -> list[SubmitAnswer]:
        """In the caller's transaction: refusals raise, and leave it as it was."""
        for one in submits:
            require_valid_submit(one, payload_limit_bytes=self._payload_limit_bytes)
        with translated():
            executor = await executor_of(connection)
            for tries_left in reversed(range(TRIES)):
                try:
                    return await self._submit_in_savepoint(executor, submits)
                except Exception as error:
                    # A repeat elsewhere was first: by now its jobs can be seen.
                    if not tries_left or sqlstate_of(error) != UNIQUE_VIOLATION:
                        raise
        raise AssertionError

    async def _submit_in_savepoint(self, executor: Executor, submits: Sequence[Submit]) -> list[SubmitAnswer]:
        await executor.fetch("SAVEPOINT holdfast_submit")
        try:
            answers = await self._submit_by(executor, submits)
        except BaseException:
            await executor.fetch("ROLLBACK TO SAVEPOINT holdfast_submit")
            await executor.fetch("RELEASE SAVEPOINT holdfast_submit")
            raise
        await executor.fetch("RELEASE SAVEPOINT holdfast_submit")
        return answers

    async def _submit_by(self, executor: Executor, submits: Sequence[Submit]) -> list[SubmitAnswer]:
        now = self._now
        if now is None:
            (row,) = await executor.fetch("SELECT clock_timestamp() AS now")
            now = row["now"]
        tx = PostgresTransaction(executor, self._sql, now, self._sweeps)
        answers = await submit(tx, submits)
        for answer in answers:
            if isinstance(answer, HoldfastError):
                raise answer
        tx.awakened |= _queues_with_delays(submits)
        if tx.awakened and self._is_notifying:
            # The only NOTIFY inside a write transaction: who commits it, and when, is not ours to know.
            await executor.fetch(NOTIFY, self._channel, payloads_of(tx.awakened))
        return answers

    # claim

    async def claim(self, claim: Claim) -> list[ClaimedJob]:
        require_valid_claim(claim)
        if claim.is_repeat:
            tokens = lease_tokens(claim.nonce, claim.limit)
            rows = await self._fetch(self._sql["claim_again"], claim.owner, tokens)
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
        rows = await self._fetch(self._sql["claim"], self._now, claim.owner, *lanes, claim.limit, types, token_stem)
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
            rows = await self._fetch(self._sql["claim_floor"], *self._cursors.floors(claim.queues))
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
            settled = await self._transact(lambda tx: settle(tx, list(rest.values())))
            answers.update(zip(rest, settled, strict=True))
        return [answers[index] for index in range(len(settlements))]

    async def _settle_plain(self, settlements: Sequence[Settlement]) -> set[tuple[int, UUID]] | None:
        """The leases that were valid, and are now settled; None for all of them."""
        by_seq = sorted(settlements, key=lambda one: one.lease.seq)
        (row,) = await self._fetch(
            self._sql["settle"],
            self._now,
            [one.lease.seq for one in by_seq],
            [one.lease.token for one in by_seq],
            given_once([one.outcome.result if isinstance(one.outcome, Completed) else None for one in by_seq]),
        )
        if row["has_dependents"]:
            await self._transact(propagate)
        if row["settled"] == len(settlements):
            return None
        return set(zip(row["jobs"] or (), row["tokens"] or (), strict=True))

    # leases

    async def extend(self, leases: Sequence[Lease]) -> list[ExtendAnswer]:
        return await self._transact(lambda tx: extend(tx, leases))

    async def report(self, reports: Sequence[Report]) -> list[ReportAnswer]:
        for one in reports:
            require_valid_report(one)
        return await self._transact(lambda tx: report(tx, reports))

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        rows = await self._fetch(
            self._sql["extend"],
            self._now,
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
            handed_back = await self._transact(
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
            INSERT INTO {self._sql.schema}.worker AS w (id, name, queues, types, registered_at, seen_at)
            SELECT $1::uuid, $2::text, $4::text[], $5::text[], clock.now, clock.now
            FROM (SELECT coalesce($3::timestamptz, clock_timestamp()) AS now) clock
            ON CONFLICT (id) DO UPDATE SET
                name = excluded.name, queues = excluded.queues, types = excluded.types,
                seen_at = excluded.seen_at, is_lost = false
        """
        await self._fetch(sql, worker_id, name, self._now, list(queues), list(types))

    async def leave(self, worker_id: UUID) -> None:
        async def verb(tx: PostgresTransaction) -> None:
            await hand_back_unknown(tx, worker_id, known=(), claiming=frozenset())

        await self._transact(verb)
        schema = self._sql.schema
        sql = f"""
            DELETE FROM {schema}.worker w WHERE w.id = $1::uuid
                AND (SELECT r.job FROM {schema}.running r WHERE r.owner = w.id ORDER BY r.expires_at LIMIT 1) IS NULL
        """
        await self._fetch(sql, worker_id)

    # manage

    async def cancel(self, ids: Sequence[UUID]) -> list[CancelAnswer]:
        return await self._transact(lambda tx: cancel(tx, ids))

    async def replay(self, ids: Sequence[UUID]) -> list[ReplayAnswer]:
        return await self._transact(lambda tx: replay(tx, ids))

    async def replay_where(self, where: Filter, *, limit: int, cursor: int | None = None) -> ReplayPage:
        require_valid_page(where, limit=limit)
        ids, next_cursor = await self._use(
            lambda connection: self._reader(connection).find_replayable(where, limit=limit, cursor=cursor)
        )
        return ReplayPage(tuple(await self.replay(ids)), next_cursor)

    async def pause(self, queue: str) -> None:
        require_valid_queue(queue)
        sql = f"""
            INSERT INTO {self._sql.schema}.pause (queue, paused_at)
            VALUES ($1::text, coalesce($2::timestamptz, clock_timestamp())) ON CONFLICT DO NOTHING
        """
        await self._fetch(sql, queue, self._now)

    async def resume(self, queue: str) -> None:
        require_valid_queue(queue)
        await self._fetch(f"DELETE FROM {self._sql.schema}.pause WHERE queue = $1::text", queue)
        self._announce({queue})

    async def fire(self, fires: Sequence[Fire]) -> list[FireAnswer]:
        require_valid_fires(fires)
        return await self._transact(lambda tx: fire(tx, fires, payload_limit_bytes=self._payload_limit_bytes))

    async def tick(self, tick: Tick) -> TickReport:
        """One statement asks whether there is anything to do; only the parts that have work run."""
        require_valid_tick(tick)
        (row,) = await self._fetch(
            self._sql["tick"],
            self._now,
            tick.worker_timeout_seconds,
            self._sweeps.due.start(),
            self._sweeps.expired.start(),
            tick.completed_retention_seconds,
            tick.dead_retention_seconds,
            TALLY_ROWS,
            limits.WORKER_RETENTION_SECONDS,
            limits.CRON_RETENTION_SECONDS,
        )
        parts = [part for part in tick_verbs.PARTS if row[part.__name__]]
        reports = [await self._transact(_bound(part, tick)) for part in parts]
        return tick_verbs.total(reports, quiet_seconds=row["quiet_seconds"])

    # API keys

    async def add_key(self, new: NewKey) -> ApiKey:
        require_valid_key(new)
        return await keys.add_key(self._fetch, self._sql, new, now=self._now)

    async def revoke_key(self, key_id: UUID) -> ApiKey:
        require_valid_key_id(key_id)
        return await keys.revoke_key(self._fetch, self._sql, key_id, now=self._now)

    async def find_key(self, key_id: UUID) -> StoredKey | None:
        require_valid_key_id(key_id)
        return await keys.find_key(self._fetch, self._sql, key_id, now=self._now)

    async def read_keys(self) -> list[ApiKey]:
        return await keys.read_keys(self._fetch, self._sql)

    # reads

    def _reader(self, connection: Any) -> reads.Reader:
        return reads.Reader(AsyncpgExecutor(connection), self._sql, scan_budget=self._scan_budget)

    async def read(self, ids: Sequence[UUID]) -> list[Job | None]:
        return await self._use(lambda connection: self._reader(connection).read(ids))

    async def read_page(self, where: Filter, *, limit: int, cursor: int | None = None) -> Page:
        require_valid_page(where, limit=limit)
        return await self._use(lambda connection: self._reader(connection).read_page(where, limit=limit, cursor=cursor))

    async def read_attempts(self, job_id: UUID) -> list[Attempt]:
        return await self._use(lambda connection: self._reader(connection).read_attempts(job_id))

    async def read_upstream(self, job_id: UUID) -> list[Upstream]:
        return await self._use(lambda connection: self._reader(connection).read_upstream(job_id))

    async def read_queues(self) -> list[QueueStats]:
        return await self._use(lambda connection: self._reader(connection).read_queues())

    async def read_workers(self) -> list[Worker]:
        return await self._use(lambda connection: self._reader(connection).read_workers())

    async def read_place(self, job_id: UUID) -> Place | None:
        return await self._use(lambda connection: self._reader(connection).read_place(job_id, now=self._now))

    async def read_cron(self) -> CronState:
        return await self._use(lambda connection: self._reader(connection).read_cron(now=self._now))


async def _learn_types(connection: Any) -> None:
    """Behind a pooler: asyncpg switches jit off while it asks, and on again, in a session that may be another by then.

    In a transaction it is the same one, so that nothing is left behind for whoever gets it next.
    """
    async with connection.transaction():
        await connection.fetch(LEARN_TYPES)


def _bound(
    part: Callable[[Transaction, Tick], Coroutine[Any, Any, TickReport]], tick: Tick
) -> Callable[[PostgresTransaction], Coroutine[Any, Any, TickReport]]:
    return lambda tx: part(tx, tick)


def _queues_of(jobs: Sequence[NewJob]) -> set[str]:
    return {jobs.first.queue} if isinstance(jobs, AlikeJobs) else {job.queue for job in jobs}


def _queues_with_delays(submits: Iterable[Submit]) -> set[str]:
    """Who waits there for work learns that there will be some: it looks up when."""
    return {job.queue for one in submits for job in one.jobs if job.delay_seconds or job.run_at is not None}
