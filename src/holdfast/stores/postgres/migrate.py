"""Bring a database's schema to this version, with Alembic on the same driver the store uses.

Safe to start from many processes at once: a migration runs under an advisory lock that ends with its transaction.
A role needs no more rights than what is to be done needs: none to change anything where nothing is to be changed.

A table that is changed is locked against everybody, and while that lock is waited for, every other statement waits
behind it. So a try waits briefly. Where somebody's transaction holds a table, the try is rolled back as a whole and
made again after a pause, in which the others go on.
"""

import asyncio
import io
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import asyncpg
from alembic import command, context, op
from alembic.config import Config
from sqlalchemy import text as sql_text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from holdfast.core.errors import ConfigError, Unavailable
from holdfast.stores.postgres import version
from holdfast.stores.postgres.errors import LOCK_NOT_AVAILABLE, sqlstate_of, translated
from holdfast.stores.postgres.hosts import Hosts
from holdfast.stores.postgres.statements import Statements, quoted
from holdfast.stores.postgres.version import MIGRATIONS, VERSION_TABLE

LOCK_NUMBER: Final = 0x484F4C44
LOCK_SECONDS: Final = 2.0
"""How long a try waits for a table, and everybody else behind it."""
PAUSE_SECONDS: Final = 3.0
PATIENCE_SECONDS: Final = 60.0
BLOCKERS: Final = """
    SELECT l.pid, a.application_name, a.usename, a.xact_start
    FROM pg_locks l
    LEFT JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'relation' AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        AND l.relation IN (SELECT c.oid FROM pg_class c WHERE c.relnamespace = to_regnamespace(:schema))
        AND coalesce(a.xact_start < clock_timestamp() - make_interval(secs => :seconds), true)
    GROUP BY l.pid, a.application_name, a.usename, a.xact_start
    ORDER BY a.xact_start NULLS LAST
    LIMIT 3
"""
RIGHTS: Final = """
    SELECT
        current_user AS role, current_database() AS database, n.oid IS NOT NULL AS schema_exists,
        has_database_privilege(current_database(), 'CREATE') AS may_create_schema,
        has_schema_privilege(n.oid, 'USAGE') AS may_use_schema,
        has_schema_privilege(n.oid, 'CREATE') AS may_create_tables,
        foreign_one.relname AS foreign_table, pg_get_userbyid(foreign_one.relowner) AS foreign_owner
    FROM (SELECT) AS one_row
    LEFT JOIN pg_namespace n ON n.nspname = :schema
    LEFT JOIN LATERAL (
        SELECT c.relname, c.relowner FROM pg_class c
        WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'S') AND NOT pg_has_role(c.relowner, 'USAGE')
        ORDER BY c.relname LIMIT 1
    ) AS foreign_one ON true
"""
STATEMENT_END: Final = re.compile(r";\n(?=(?:[^$]*\$\$[^$]*\$\$)*[^$]*\Z)")
"""Not within the body of a function, which stands between two $$."""


def config(schema: str, *, output: io.StringIO | None = None) -> Config:
    settings = Config(output_buffer=output) if output is not None else Config()
    settings.set_main_option("script_location", str(MIGRATIONS))
    settings.attributes["schema"] = schema
    return settings


async def upgrade(
    url: str,
    *,
    schema: str = "holdfast",
    revision: str = "head",
    say: Callable[[str], None] | None = None,
) -> None:
    """Tries again for PATIENCE_SECONDS while somebody's transaction holds a table; ``say`` is told whose."""
    quoted(schema)  # refuses what is no name
    hosts = Hosts(url)

    async def connect(*_: Any, **__: Any) -> asyncpg.Connection:
        return await hosts.connect(statement_cache_size=0)

    # Statement names of our own: behind a pooler a server connection may still know those of another client.
    arguments = {"async_creator_fn": connect, "prepared_statement_name_func": lambda: f"holdfast_{uuid4().hex}"}
    engine = create_async_engine("postgresql+asyncpg://", poolclass=NullPool, connect_args=arguments)
    try:
        with translated():
            await _upgrade_patiently(engine, schema, revision, say)
    finally:
        await engine.dispose()


async def _upgrade_patiently(
    engine: AsyncEngine, schema: str, revision: str, say: Callable[[str], None] | None
) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    said = ""
    while True:
        try:
            async with engine.begin() as connection:
                await connection.run_sync(_upgrade, schema, revision)
                return
        except DBAPIError as error:
            if sqlstate_of(error) != LOCK_NOT_AVAILABLE:
                raise
            async with engine.begin() as connection:
                blockers = await connection.run_sync(_blockers, schema)
            if time.monotonic() + PAUSE_SECONDS > deadline:
                raise Unavailable(
                    f"nothing was changed, because the tables are in use: {blockers}; end that transaction "
                    f"(SELECT pg_terminate_backend(pid) ends its connection) and run: holdfast migrate"
                ) from error
        if say is not None and blockers != said:
            say(f"the tables are in use: {blockers}; trying again for {max(0, deadline - time.monotonic()):.0f} s")
            said = blockers
        await asyncio.sleep(PAUSE_SECONDS)


def _blockers(connection: Connection, schema: str) -> str:
    """Who holds a table and did so while we waited, for a person to read."""
    found = connection.execute(sql_text(BLOCKERS), {"schema": quoted(schema), "seconds": LOCK_SECONDS / 2})
    return "; ".join(_blocker(**row) for row in found.mappings()) or "somebody held one for a moment"


def _blocker(pid: int | None, application_name: str | None, usename: str | None, xact_start: datetime | None) -> str:
    if pid is None:
        return "a prepared transaction (see pg_prepared_xacts)"
    since = f"since {xact_start.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if xact_start is not None else "for a while"
    return f"pid {pid} ({application_name or 'unnamed'}, user {usename}) has a transaction open {since}"


def _upgrade(connection: Connection, schema: str, revision: str) -> None:
    connection.execute(sql_text("SELECT pg_advisory_xact_lock(:number)"), {"number": LOCK_NUMBER})
    connection.execute(
        sql_text("SELECT set_config('lock_timeout', :timeout, true)"), {"timeout": f"{LOCK_SECONDS * 1000:.0f}ms"}
    )
    rights = dict(connection.execute(sql_text(RIGHTS), {"schema": schema}).mappings().one())
    missing = _missing_right(schema, rights)
    if missing is not None:
        raise ConfigError(f"role {rights['role']!r} {missing}")
    if not rights["schema_exists"]:
        connection.execute(sql_text(f"CREATE SCHEMA {quoted(schema)}"))
    elif revision == "head" and _found_version(connection, schema) == version.head():
        return
    elif (missing := _missing_right_to_change(schema, rights)) is not None:
        raise ConfigError(f"role {rights['role']!r} {missing}")
    settings = config(schema)
    settings.attributes["connection"] = connection
    command.upgrade(settings, revision)


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


def _found_version(connection: Connection, schema: str) -> str | None:
    table = f"{quoted(schema)}.{VERSION_TABLE}"
    may_read = sql_text("SELECT has_table_privilege(to_regclass(:table)::oid, 'SELECT')")
    match connection.execute(may_read, {"table": table}).scalar():
        case None:
            return None
        case False:
            raise ConfigError(f"the role may not read {schema}.{VERSION_TABLE}; grant it SELECT on Holdfast's tables")
    found: str | None = connection.execute(sql_text(f"SELECT version_num FROM {table}")).scalar()
    return found


def sql(*, schema: str = "holdfast") -> str:
    """The statements that ``upgrade`` would run on an empty database."""
    output = io.StringIO()
    print(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)};\n", file=output)
    command.upgrade(config(schema, output=output), "head", sql=True)
    return output.getvalue()


def configure(settings: Config) -> None:
    """Called by ``migrations/env.py``."""
    shared = {"version_table": VERSION_TABLE, "version_table_schema": settings.attributes["schema"]}
    connection = settings.attributes.get("connection")
    if connection is None:
        context.configure(dialect_name="postgresql", output_buffer=settings.output_buffer, **shared)
    else:
        context.configure(connection=connection, **shared)
    with context.begin_transaction():
        context.run_migrations()


def run_sql_beside(revision: str) -> None:
    """Called by the files in ``migrations/versions``: run the statements in the file of the same name."""
    statements = Statements(context.config.attributes["schema"])
    text = statements.fill(Path(revision).with_suffix(".sql").read_text(encoding="utf-8"))
    for statement in STATEMENT_END.split(text):
        if statement.strip():
            op.execute(statement)
