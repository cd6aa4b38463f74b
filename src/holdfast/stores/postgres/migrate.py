"""Bring a database's schema to this version, while programs of this and of earlier versions work on it.

Safe to start from many processes at once: one is at work, the others wait for it. Safe to be killed at any moment: what
was done stays, and the next start goes on. A role needs no more rights than what is to be done needs: none to change
anything where nothing is to be changed.

MIGRATE-1. A table that is changed is locked against everybody, and while that lock is waited for, every other statement
    waits behind it. So such a lock is waited for briefly and held for a moment: each step of a migration (``steps.py``)
    is a short transaction that reads no table under such a lock. Where somebody's transaction holds the table, the step
    is rolled back and made again after a pause, in which the others go on.
MIGRATE-2. Autovacuum gives way only to whoever has waited for a second. It is waited for with a lock that nobody else
    waits behind.
MIGRATE-3. Indexes are built CONCURRENTLY, which waits for the transactions of others, but nobody waits for it. One that
    was interrupted leaves an index that is not valid; it is dropped before it is built again.
MIGRATE-4. Who is at work holds an advisory lock in an idle transaction of another connection (behind a pooler a
    session's lock would be nobody's). The others ask for it again and again: whoever waited for it inside a statement
    would hold a snapshot, and an index would wait for the end of that. For the same reason nothing is asked on the
    connection that holds the lock while an index is built.
MIGRATE-5. A schema that is not there yet is made in one transaction.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final

import asyncpg

from holdfast.core.errors import ConfigError, HoldfastError, SchemaMismatch, Unavailable
from holdfast.stores.migrations import Migration, Schema
from holdfast.stores.postgres import version
from holdfast.stores.postgres.errors import DEADLOCK, LOCK_NOT_AVAILABLE, sqlstate_of, translated
from holdfast.stores.postgres.hosts import Hosts
from holdfast.stores.postgres.statements import Statements
from holdfast.stores.postgres.steps import Kind, Step, at_once, index_made_by, steps_of
from holdfast.stores.postgres.version import VERSION_TABLE

Say = Callable[[str], None]

LOCK_NUMBER: Final = 0x484F4C45
TURN_SECONDS: Final = 0.2
"""How often somebody asks whether it is their turn."""
LOCK_SECONDS: Final = 0.5
"""How long a try waits for a table, and everybody else behind it."""
VACUUM_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 3.0
PATIENCE_SECONDS: Final = 60.0
TELL_SECONDS: Final = 5.0
"""How often is looked for whom an index waits for."""
MAX_BATCHES: Final = 10_000_000
_FIRST_NOTE: Final = ("migrate.make_version", "migrate.first_version")
_NEXT_NOTE: Final = ("migrate.extend_version", "migrate.next_version")


async def upgrade(url: str, *, schema: str = "holdfast", revision: str = "head", say: Say | None = None) -> str:
    """The number that the schema is at then. ``say`` is told who is waited for.

    A lock that somebody's transaction holds is tried again for PATIENCE_SECONDS.
    """
    statements = Statements(schema)  # refuses what is no name
    hosts = Hosts(url)
    migrations = [one for one in version.migrations() if revision == "head" or one.number <= int(revision)]
    with translated():
        async with _connected(hosts) as connection:
            upgrading = _Upgrade(hosts, connection, statements, schema, say or _nothing)
            await upgrading.require_rights()
            if await upgrading.missing(migrations):
                async with _connected(hosts) as guard:
                    await upgrading.run_alone(guard, migrations)
            return version.written(upgrading.at.number)


@asynccontextmanager
async def _connected(hosts: Hosts) -> AsyncIterator[asyncpg.Connection]:
    connection = await hosts.connect(statement_cache_size=0)
    try:
        yield connection
    finally:
        # Not close(): a server that is away would never answer.
        connection.terminate()


class _Upgrade:
    def __init__(
        self, hosts: Hosts, connection: asyncpg.Connection, statements: Statements, schema: str, say: Say
    ) -> None:
        self._hosts = hosts
        self._connection = connection
        self._statements = statements
        self._schema = schema
        self._say = say
        self.at = Schema(0, 0)
        """The number that was found, or reached."""

    async def missing(self, migrations: Sequence[Migration]) -> list[Migration]:
        self.at = await self._found()
        own = migrations[-1].number
        if self.at.number > own and not self.at.suits(own):
            raise SchemaMismatch(
                f"schema {self._schema!r} is at {version.written(self.at.number)}, which programs of "
                f"{version.written(own)} cannot work on; upgrade this program"
            )
        return [one for one in migrations if one.number > self.at.number]

    async def _found(self) -> Schema:
        match await self._connection.fetchval(self._statements["migrate.may_read"]):
            case None:
                return Schema(0, 0)
            case False:
                raise ConfigError(
                    f"the role may not read {self._schema}.{VERSION_TABLE}; grant it SELECT on Holdfast's tables"
                )
        return version.found_in(await self._connection.fetch(self._statements["migrate.version"]))

    async def require_rights(self, *, to_change: bool = False) -> None:
        (row,) = await self._connection.fetch(self._statements["migrate.rights"], self._schema)
        rights = dict(row)
        missing = _missing_right(self._schema, rights)
        if missing is None and to_change and rights["schema_exists"]:
            missing = _missing_right_to_change(self._schema, rights)
        if missing is not None:
            raise ConfigError(f"role {rights['role']!r} {missing}")

    async def run_alone(self, guard: asyncpg.Connection, migrations: Sequence[Migration]) -> None:
        await self.require_rights(to_change=True)
        await self._have_the_turn(guard)
        left = await self.missing(migrations)  # somebody else may have been first
        if left and not self.at.number:
            await self._create(left)
            return
        for migration in left:
            for step in steps_of(migration, self._statements):
                await guard.execute("SELECT")  # MIGRATE-4: it is still ours
                await self._take_patiently(step)
            self.at = Schema(migration.number, migration.compatible_since)

    async def _have_the_turn(self, guard: asyncpg.Connection) -> None:
        is_said = False
        while True:
            await guard.execute("BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0")
            if await guard.fetchval(self._statements["migrate.take_turn"], LOCK_NUMBER):
                return
            await guard.execute("ROLLBACK")
            if not is_said:
                self._say("another migration is at work; waiting for it")
                is_said = True
            await asyncio.sleep(TURN_SECONDS)

    async def _create(self, migrations: Sequence[Migration]) -> None:
        async with self._connection.transaction():
            if not await self._connection.fetchval(self._statements["migrate.has_schema"]):
                await self._execute(self._statements["migrate.make_schema"])
            for statement in at_once(migrations, self._statements):
                await self._execute(statement)
            await self._note(migrations[-1], _FIRST_NOTE)
        self.at = Schema(migrations[-1].number, migrations[-1].compatible_since)

    async def _note(self, migration: Migration, names: Sequence[str]) -> None:
        for statement in _filled(names, self._statements, migration):
            await self._execute(statement)

    async def _execute(self, statement: str) -> str:
        status: str = await self._connection.execute(statement)
        return status

    # one step

    async def _take_patiently(self, step: Step) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        said = ""
        while True:
            try:
                return await self._take(step)
            except asyncpg.PostgresError as error:
                if sqlstate_of(error) not in (LOCK_NOT_AVAILABLE, DEADLOCK):
                    raise
                blockers = await self._holders() or "somebody held one for a moment"
                if time.monotonic() + PAUSE_SECONDS > deadline:
                    raise Unavailable(
                        f"schema {self._schema!r} is still at {version.written(self.at.number)}, because its tables "
                        f"are in use: {blockers}; end that transaction (SELECT pg_terminate_backend(pid) ends its "
                        "connection) and run: holdfast migrate"
                    ) from error
            if blockers != said:
                seconds = max(0, deadline - time.monotonic())
                self._say(f"the tables are in use: {blockers}; trying again for {seconds:.0f} s")
                said = blockers
            await asyncio.sleep(PAUSE_SECONDS)

    async def _take(self, step: Step) -> None:
        match step.kind:
            case Kind.TOGETHER:
                await self._together(step)
            case Kind.ALONE:
                for statement in step.statements:
                    await self._alone(statement)
            case Kind.BATCHES:
                for statement in step.statements:
                    await self._in_batches(statement)

    async def _together(self, step: Step) -> None:
        async with self._connection.transaction():
            await self._have_vacuum_leave(step.changed_tables)
            await self._wait_at_most(LOCK_SECONDS)
            for statement in step.statements:
                await self._execute(statement)
            if step.completes is not None:
                await self._note(step.completes, _NEXT_NOTE)

    async def _have_vacuum_leave(self, tables: Sequence[str]) -> None:
        """MIGRATE-2."""
        await self._wait_at_most(VACUUM_SECONDS)
        for table in tables:
            if await self._connection.fetchval(self._statements["migrate.has_table"], table):
                await self._execute(self._statements["migrate.have_vacuum_leave"].replace("{table}", table))

    async def _wait_at_most(self, seconds: float) -> None:
        await self._connection.execute(f"SET LOCAL lock_timeout = {seconds * 1000:.0f}")

    async def _alone(self, statement: str) -> None:
        """MIGRATE-3."""
        index = index_made_by(statement)
        if index is not None and await self._connection.fetchval(self._statements["migrate.has_broken_index"], index):
            await self._waiting(self._statements["migrate.drop_index"].replace("{index}", index))
        await self._waiting(statement)

    async def _waiting(self, statement: str) -> None:
        """Says for whom."""
        said = ""
        running = asyncio.ensure_future(self._execute(statement))
        try:
            while not (await asyncio.wait({running}, timeout=TELL_SECONDS))[0]:
                found = await self._who_is_waited_for()
                if found and found != said:
                    self._say(f"an index waits for the end of what others do: {found}")
                    said = found
        except BaseException:
            running.cancel()
            await asyncio.wait({running})
            raise
        await running

    async def _who_is_waited_for(self) -> str:
        """Asked on a connection for this question alone (MIGRATE-4). Where none can be had, nothing is said."""
        blockers = self._statements["migrate.blockers"]
        with suppress(OSError, asyncpg.PostgresError, HoldfastError):
            async with _connected(self._hosts) as connection:
                return _blockers(await connection.fetch(blockers, self._connection.get_server_pid()))
        return ""

    async def _in_batches(self, statement: str) -> None:
        for _ in range(MAX_BATCHES):
            async with self._connection.transaction():
                await self._wait_at_most(LOCK_SECONDS)
                status = await self._execute(statement)
            if status.endswith(" 0"):
                return
        raise AssertionError(f"a batch that always finds another row: {statement}")

    async def _holders(self) -> str:
        """Who holds a table and did so while we waited, for a person to read."""
        return _blockers(await self._connection.fetch(self._statements["migrate.holders"], LOCK_SECONDS / 2))


def _blockers(rows: Sequence[Any]) -> str:
    return "; ".join(_blocker(**row) for row in rows)


def _blocker(pid: int | None, application_name: str | None, usename: str | None, xact_start: datetime | None) -> str:
    if pid is None:
        return "a prepared transaction (see pg_prepared_xacts)"
    since = f"since {xact_start.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if xact_start is not None else "for a while"
    return f"pid {pid} ({application_name or 'unnamed'}, user {usename}) has a transaction open {since}"


def _missing_right(schema: str, rights: dict[str, Any]) -> str | None:
    database = rights["database"]
    if rights["schema_exists"]:
        if not rights["may_use_schema"]:
            return f"may not use schema {schema!r}; grant it USAGE on that schema"
    elif not rights["may_create_schema"]:
        return (
            f"may not create schema {schema!r}: it has no CREATE privilege on database {database!r}; "
            f"grant it, or create the schema yourself and grant CREATE on that"
        )
    return None


def _missing_right_to_change(schema: str, rights: dict[str, Any]) -> str | None:
    if not rights["may_create_tables"]:
        return f"may not create tables: it has no CREATE privilege on schema {schema!r}; grant it"
    if rights["foreign_table"] is not None:
        return (
            f"may not change {schema}.{rights['foreign_table']}: it is not its owner; "
            f"migrate as {rights['foreign_owner']!r}, or grant it that role"
        )
    return None


def sql(*, schema: str = "holdfast") -> str:
    """The statements that ``upgrade`` would run on an empty database."""
    statements = Statements(schema)
    migrations = version.migrations()
    noted = _filled(_FIRST_NOTE, statements, migrations[-1])
    first = statements["migrate.make_schema_once"]
    texts = ["BEGIN", first, *at_once(migrations, statements), *noted, "COMMIT"]
    return "".join(f"{text.removesuffix(';')};\n\n" for text in texts)


def _filled(names: Sequence[str], statements: Statements, migration: Migration) -> list[str]:
    number, since = version.written(migration.number), version.written(migration.compatible_since)
    return [statements[name].replace("{number}", number).replace("{since}", since) for name in names]


def _nothing(_: str) -> None:
    """Nobody wants to know."""
