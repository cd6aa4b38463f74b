"""One PostgreSQL schema as the store uses it: connections, single statements, transactions, and who is woken.

No session state is used: no session locks, no temporary tables, prepared statements only where allowed; LISTEN has a
connection of its own and may be off. So all of it works behind a pooler in transaction mode.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

import asyncpg

from holdfast.core.errors import SchemaMismatch, SchemaMissing, Unavailable
from holdfast.core.ports import Clock
from holdfast.stores.postgres import version
from holdfast.stores.postgres.connections import AsyncpgExecutor, open_connection
from holdfast.stores.postgres.errors import RETRIED, sqlstate_of, translate
from holdfast.stores.postgres.pool import Pool
from holdfast.stores.postgres.rows import Row
from holdfast.stores.postgres.statements import MAX_IDENTIFIER_CHARACTERS, Statements
from holdfast.stores.postgres.sweeps import Sweeps
from holdfast.stores.postgres.transaction import Executor, PostgresTransaction
from holdfast.stores.postgres.wake import Listener, Notifier, payloads_of
from holdfast.stores.wakeup import Wakeups

Answer = TypeVar("Answer")
Verb = Callable[[PostgresTransaction], Coroutine[Any, Any, Answer]]

TRIES: Final = 5
CONNECT_TIMEOUT_SECONDS: Final = 10.0
COMMAND_TIMEOUT_SECONDS: Final = 60.0
POOL_SIZE: Final = 10
CHANNEL: Final = "holdfast"
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


class Database:
    def __init__(
        self,
        url: str,
        *,
        schema: str,
        clock: Clock | None,
        prepared_statements: bool,
        listen: bool,
        notify: bool,
        pool_size: int,
    ) -> None:
        self._url = url
        self._schema = schema
        self._clock = clock
        self._is_prepared = prepared_statements
        self._is_listening = listen
        self._is_notifying = notify
        self._pool_size = pool_size
        self._pool: Pool | None = None
        self._wakeups = Wakeups()
        self._notifier = Notifier(self._send_notifications)
        self.sql = Statements(schema)
        self.sweeps = Sweeps()
        self.channel = f"{CHANNEL}_{schema}"[:MAX_IDENTIFIER_CHARACTERS]
        self.listener = Listener(self._connect_plainly, self.channel, self._wakeups)

    # connections

    def _connection_arguments(self) -> dict[str, Any]:
        if self._is_prepared:
            return {"server_settings": {**PLANNER, "application_name": "holdfast"}}
        return {"statement_cache_size": 0}

    async def _connect_plainly(self) -> asyncpg.Connection:
        return await open_connection(self._url, command_timeout=COMMAND_TIMEOUT_SECONDS, **self._connection_arguments())

    async def connect(self) -> asyncpg.Connection:
        """With the types that our statements use known: else the first statement on it would wait for that."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                connection = await self._connect_plainly()
                try:
                    await _learn_types(connection)
                except BaseException:
                    connection.terminate()
                    raise
                return connection
        except TimeoutError as error:
            # Ours, or the system's own, which may be shorter.
            raise Unavailable(f"PostgreSQL does not answer (no connection in {CONNECT_TIMEOUT_SECONDS} s)") from error

    async def open(self) -> None:
        self._pool = Pool(self.connect, size=self._pool_size)
        try:
            await self._require_schema()
        except BaseException:
            await self.close()
            raise

    async def _require_schema(self) -> None:
        table = f"{self.sql.schema}.{version.VERSION_TABLE}"
        try:
            rows = await self.fetch(f"SELECT version_num FROM {table}")
        except SchemaMissing as error:
            raise SchemaMissing(
                f"Holdfast's tables are not in schema {self._schema!r}; run: holdfast migrate"
            ) from error
        found, wanted = (rows[0]["version_num"] if rows else "nothing"), version.head()
        if found != wanted:
            advice = "run: holdfast migrate" if found < wanted or not rows else "upgrade this program"
            raise SchemaMismatch(f"schema {self._schema!r} is at {found}, this program speaks {wanted}; {advice}")

    async def close(self) -> None:
        await self.listener.close()
        await self._notifier.close()
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await pool.close()

    @property
    def now(self) -> datetime | None:
        """None: the database's own clock."""
        return self._clock.now() if self._clock is not None else None

    async def fetch(self, sql: str, *arguments: Any) -> Sequence[Row]:
        """One statement, committed by itself."""
        return await self.use(lambda connection: connection.fetch(sql, *arguments))

    async def transact(self, verb: Verb[Answer]) -> Answer:
        """A verb in a transaction of its own."""
        return await self.use(lambda connection: self.transact_once(connection, verb))

    async def use(self, work: Callable[[Any], Coroutine[Any, Any, Answer]]) -> Answer:
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

    async def transact_once(self, connection: Any, verb: Verb[Answer]) -> Answer:
        """On a connection that ``use`` has lent."""
        await connection.execute(BEGIN if self._is_prepared else BEGIN_POOLED)
        try:
            now = self.now or await connection.fetchval("SELECT clock_timestamp()")
            tx = self.transaction(AsyncpgExecutor(connection), now)
            answer = await verb(tx)
            await connection.execute("COMMIT")
        except Exception:
            # After a cancellation the connection is given up instead, which rolls back, too.
            if not connection.is_closed():
                await connection.execute("ROLLBACK")
            raise
        self.announce(tx.awakened)
        return answer

    def transaction(self, executor: Executor, now: datetime) -> PostgresTransaction:
        return PostgresTransaction(executor, self.sql, now, self.sweeps)

    # waking

    def announce(self, queues: Collection[str], *, is_told: bool = False) -> None:
        """After the commit: there is work in these queues. ``is_told``: other processes know it from the statement."""
        if queues:
            self._wakeups.wake(queues)
            if self._is_notifying and not is_told:
                self._notifier.announce(queues)

    def may_tell(self) -> bool:
        """Whether the next statement may tell other processes of its job itself."""
        return self._is_notifying and self._notifier.may_carry()

    async def notify_within(self, executor: Executor, queues: Collection[str]) -> None:
        """As part of a caller's transaction: who commits it, and when, is not ours to know."""
        if queues and self._is_notifying:
            await executor.fetch(NOTIFY, self.channel, payloads_of(queues))

    async def _send_notifications(self, queues: list[str]) -> None:
        await self.fetch(NOTIFY_AFTER_COMMIT, self.channel, payloads_of(queues))

    async def wait(self, queues: Sequence[str], *, timeout_seconds: float) -> bool:
        """Until there is work in one of the queues; False where there was none in time."""
        if self._is_listening:
            self.listener.start()
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._wakeups.next(queues)
        except TimeoutError:
            return False


async def _learn_types(connection: Any) -> None:
    """asyncpg switches jit off while it asks, and on again: behind a pooler in a session that may be another by then.

    In a transaction it is the same one, so that nothing is left behind for whoever gets it next. Whoever opens a
    connection closes it where this does not succeed, so nothing is rolled back here, by a server that may hang.
    """
    await connection.execute("BEGIN")
    await connection.fetch(LEARN_TYPES)
    await connection.execute("COMMIT")
