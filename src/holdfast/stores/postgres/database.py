"""One PostgreSQL schema as the store uses it: connections, single statements, transactions, and who is woken.

No session state is used: no session locks, no temporary tables, prepared statements only where allowed; LISTEN has a
connection of its own and may be off. So all of it works behind a pooler in transaction mode.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar

import asyncpg

from holdfast.core.errors import HoldfastError, SchemaMissing, Unavailable
from holdfast.core.ports import Clock, News
from holdfast.stores.postgres import version
from holdfast.stores.postgres.connections import AsyncpgExecutor, Executor
from holdfast.stores.postgres.errors import RETRIED, sqlstate_of, translate
from holdfast.stores.postgres.hosts import CONNECT_SECONDS, Hosts
from holdfast.stores.postgres.locks import TELLING_BRIEFLY, Held, Waiting
from holdfast.stores.postgres.pool import Pool
from holdfast.stores.postgres.rows import Row
from holdfast.stores.postgres.statements import MAX_IDENTIFIER_CHARACTERS, Statements
from holdfast.stores.postgres.sweeps import Sweeps
from holdfast.stores.postgres.telling import Retelling
from holdfast.stores.postgres.transaction import PostgresTransaction
from holdfast.stores.postgres.wake import Listener, Notifier, payloads_of
from holdfast.stores.verbs.change import MARKS_A_CALL, next_step, tell
from holdfast.stores.wakeup import Wakeups

Answer = TypeVar("Answer")
Item = TypeVar("Item")
Verb = Callable[[PostgresTransaction], Coroutine[Any, Any, Answer]]
VerbForEach = Callable[[PostgresTransaction, list[Item]], Coroutine[Any, Any, Sequence[Answer]]]

TRIES: Final = 5
COMMAND_TIMEOUT_SECONDS: Final = 60.0
STATEMENT_TIMEOUT_SECONDS: Final = 20.0
"""For what is one statement, and takes milliseconds: an answer that never comes is asked for again before long."""
KEY_PATIENCE_SECONDS: Final = 0.5
LONE_PATIENCE_SECONDS: Final = 3.0
FIRST_PAUSE_SECONDS: Final = 0.005
LONGEST_PAUSE_SECONDS: Final = 0.1
"""How long a key that somebody else holds is tried for, beside others and alone, and the pauses between tries."""
CHANNEL: Final = "holdfast"

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

BEGIN: Final = (
    "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '30s'; SET LOCAL lock_timeout = '20s'; "
    "SET LOCAL statement_timeout = '60s'"
)
NOT_SYNCHRONOUS: Final = "SET LOCAL synchronous_commit = off"
BEGIN_POOLED: Final = "; ".join((BEGIN, *(f"SET LOCAL {name} = {value}" for name, value in PLANNER.items())))


class Told(NamedTuple):
    """What became of marks."""

    done: int
    held: set[int]
    """Somebody holds the job, or a dependent."""
    left: set[int]
    """Not tried, or in vain."""


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
        self._hosts = Hosts(url)
        self._schema = schema
        self._clock = clock
        self._is_prepared = prepared_statements
        self._is_listening = listen
        self._is_notifying = notify
        self._pool_size = pool_size
        self._pool: Pool | None = None
        self._wakeups = Wakeups()
        self._notifier = Notifier(self._send_notifications)
        self._retelling = Retelling(self._retell)
        self.sql = Statements(schema)
        self.sweeps = Sweeps()
        self.channel = f"{CHANNEL}_{schema}"[:MAX_IDENTIFIER_CHARACTERS]
        self.on_lost: Callable[[], None] = _nothing
        """Called when a connection has ended: the next one may be to another server."""
        self.listener = Listener(
            self._connect_plainly, self.channel, self._wakeups, probe=self.sql["wait.is_read_only"]
        )
        self.news: News = self.listener if listen else self._wakeups

    # connections

    def _connection_arguments(self) -> dict[str, Any]:
        if self._is_prepared:
            return {"server_settings": {**PLANNER, "application_name": "holdfast"}}
        return {"statement_cache_size": 0}

    async def _connect_plainly(self) -> asyncpg.Connection:
        connection = await self._hosts.connect(command_timeout=COMMAND_TIMEOUT_SECONDS, **self._connection_arguments())
        connection.add_termination_listener(lambda _: self.on_lost())
        return connection

    async def connect(self) -> asyncpg.Connection:
        """With the types that our statements use known: else the first statement on it would wait for that."""
        try:
            connection = await self._connect_plainly()
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._learn_types(connection)
            except BaseException:
                connection.terminate()
                raise
            return connection
        except TimeoutError as error:
            # Ours, or the system's own, which may be shorter.
            raise Unavailable(f"PostgreSQL does not answer (no connection in {CONNECT_SECONDS} s)") from error

    async def _learn_types(self, connection: Any) -> None:
        """asyncpg switches jit off while it asks, and on again: behind a pooler in a session that may be another.

        In a transaction it is the same one, so that nothing is left behind for whoever gets it next. Whoever opens a
        connection closes it where this does not succeed, so nothing is rolled back here, by a server that may hang.
        """
        await connection.execute("BEGIN")
        await connection.fetch(self.sql["connection.learn_types"])
        await connection.execute("COMMIT")

    async def open(self) -> None:
        self._pool = Pool(self.connect, size=self._pool_size)
        try:
            await self._require_schema()
        except BaseException:
            await self.close()
            raise

    async def _require_schema(self) -> None:
        try:
            rows = await self.fetch(self.sql["migrate.version"])
        except SchemaMissing as error:
            raise SchemaMissing(
                f"Holdfast's tables are not in schema {self._schema!r}; run: holdfast migrate"
            ) from error
        version.require_suitable(version.found_in(rows), schema=self._schema)

    async def close(self) -> None:
        await self.listener.close()
        await self._retelling.close()
        await self._notifier.close()
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await pool.close()

    @property
    def has_sessions(self) -> bool:
        """Whether a connection is a session of its own: not behind a pooler in transaction mode."""
        return self._is_prepared and self._is_listening

    @property
    def now(self) -> datetime | None:
        """None: the database's own clock."""
        return self._clock.now() if self._clock is not None else None

    async def fetch(self, sql: str, *arguments: Any) -> Sequence[Row]:
        """One statement, committed by itself."""
        return await self.use(lambda connection: connection.fetch(sql, *arguments, timeout=STATEMENT_TIMEOUT_SECONDS))

    async def transact(self, verb: Verb[Answer], *, may_wait: bool = True) -> Answer:
        """A verb in a transaction of its own; then the dependents of what it ended are told, in others.

        ``Held`` where somebody else's transaction holds what it needs, without ``may_wait`` at once.
        """
        waiting = Waiting(may_wait=may_wait)
        for tries_left in reversed(range(TRIES)):
            try:
                answer, marked = await self.use(lambda connection: self.transact_once(connection, verb, waiting))
            except Held as held:
                if not tries_left or not waiting.learn(held):
                    raise
            else:
                if marked:
                    await self.tell_now(marked)
                return answer
        raise AssertionError("the last try returns or raises")

    async def transact_each(
        self,
        items: Sequence[Item],
        verb: VerbForEach[Item, Answer],
        *,
        names_of: Callable[[Item], set[object]],
        may_wait: bool = True,
    ) -> list[Answer | Unavailable]:
        """A verb that answers item by item. Those that somebody holds are answered with Unavailable; the others go on.

        ``names_of`` says which jobs and keys an item needs, as far as it names them. Most who hold a key are submitting
        the same job, and are done in a moment: what needs it is tried again for a while, between tries without a
        connection.
        """
        answers: dict[int, Answer | Unavailable] = {}
        left = dict(enumerate(items))
        ends_at = time.monotonic() + (KEY_PATIENCE_SECONDS if len(items) > 1 else LONE_PATIENCE_SECONDS)
        pause_seconds = FIRST_PAUSE_SECONDS
        while left:
            held = await self._transact_free(left, answers, verb, names_of, may_wait=may_wait)
            answers.update(held)
            left = {index: items[index] for index, error in held.items() if error.is_key}
            if time.monotonic() + pause_seconds > ends_at:
                break
            if left:
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
        return [answers[index] for index in range(len(items))]

    async def _transact_free(
        self,
        left: dict[int, Item],
        answers: dict[int, Answer | Unavailable],
        verb: VerbForEach[Item, Answer],
        names_of: Callable[[Item], set[object]],
        *,
        may_wait: bool,
    ) -> dict[int, Held]:
        """All that nobody holds up, in few transactions. Returns the rest."""
        held: dict[int, Held] = {}
        while left:
            chosen = list(left.values())
            try:
                given = await self.transact(
                    lambda tx, chosen=chosen: verb(tx, chosen),  # type: ignore[misc]
                    may_wait=may_wait,
                )
            except Held as error:
                named = [index for index, item in left.items() if error.names & names_of(item)]
                if not named and len(left) > 1:
                    # It is one of many keys, or something behind one of them, which none of them names.
                    indexes = list(left)
                    middle = len(indexes) // 2
                    for half in (indexes[:middle], indexes[middle:]):
                        items = {index: left[index] for index in half}
                        held |= await self._transact_free(items, answers, verb, names_of, may_wait=may_wait)
                    return held
                for index in named or list(left):
                    held[index] = error
                    del left[index]
            else:
                answers.update(zip(left, given, strict=True))
                break
        return held

    async def tell_now(self, marked: Collection[int]) -> None:
        """Tell the dependents of jobs that have just ended. Those that somebody holds are told a moment later."""
        told = await self.tell(marked, may_wait=True)
        self._retelling.add(told.held)

    async def _retell(self, marked: Collection[int]) -> set[int]:
        return (await self.tell(marked)).held

    async def tell(self, marked: Collection[int], *, may_wait: bool = False, limit: int = MARKS_A_CALL) -> Told:
        """Tell the dependents of jobs that ended, a transaction a step.

        The marks are durable: whatever goes wrong here, or is held by somebody else, is left to tick.
        """
        left, held, told, done = set(marked), set[int](), 0, 0
        while left and told < limit:
            step = next_step(left, told=told, limit=limit)
            told += len(step)
            try:
                done_now, held_now, marked_now = await self._tell_once(
                    step, may_wait=may_wait and self._retelling.may_wait()
                )
            except HoldfastError:
                break
            done += done_now
            held |= held_now
            left = (left - set(step)) | marked_now
        return Told(done, held, left)

    async def _tell_once(self, step: Sequence[int], *, may_wait: bool) -> tuple[int, set[int], set[int]]:
        waiting = Waiting(patience=TELLING_BRIEFLY)
        try:
            (done, held), marked = await self.use(
                # What a crash of the server forgets, its marks still say.
                lambda connection: self.transact_once(
                    connection, lambda tx: tell(tx, step, may_wait=may_wait), waiting, may_be_forgotten=True
                )
            )
        except Held as error:
            if error.has_waited:
                self._retelling.waited_in_vain()
            return await self._tell_once(step, may_wait=False)
        return done, held, marked

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

    async def transact_once(
        self, connection: Any, verb: Verb[Answer], waiting: Waiting | None = None, *, may_be_forgotten: bool = False
    ) -> tuple[Answer, set[int]]:
        """On a connection that ``use`` has lent. Also returns which jobs have left marks."""
        begin = BEGIN if self._is_prepared else BEGIN_POOLED
        await connection.execute(f"{begin}; {NOT_SYNCHRONOUS}" if may_be_forgotten else begin)
        try:
            now = self.now or await connection.fetchval(self.sql["connection.now"])
            tx = self.transaction(AsyncpgExecutor(connection), now, waiting or Waiting())
            answer = await verb(tx)
            await connection.execute("COMMIT")
        except Exception:
            # After a cancellation the connection is given up instead, which rolls back, too.
            if not connection.is_closed():
                await connection.execute("ROLLBACK")
            raise
        for note in tx.after_commit:
            note()
        self.announce(tx.awakened)
        return answer, tx.marked

    def transaction(self, executor: Executor, now: datetime, waiting: Waiting) -> PostgresTransaction:
        return PostgresTransaction(executor, self.sql, now, self.sweeps, waiting)

    # waking

    def announce(self, queues: Collection[str], *, is_told: bool = False) -> None:
        """After the commit: there is work in these queues. ``is_told``: other processes know of it already."""
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
            await executor.fetch(self.sql["wait.notify"], self.channel, payloads_of(queues))

    async def _send_notifications(self, queues: list[str]) -> None:
        await self.fetch(self.sql["wait.notify_after_commit"], self.channel, payloads_of(queues))


def _nothing() -> None:
    """Nobody wants to know."""
