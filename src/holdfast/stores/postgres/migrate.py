"""Bring a database's schema to this version, with Alembic on the same driver the store uses.

Safe to start from many processes at once: a migration runs under an advisory lock that ends with its transaction.
"""

import io
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import asyncpg
from alembic import command, context, op
from alembic.config import Config
from sqlalchemy import text
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from holdfast.stores.postgres.connections import open_connection
from holdfast.stores.postgres.errors import translated
from holdfast.stores.postgres.statements import Statements, quoted
from holdfast.stores.postgres.version import MIGRATIONS, VERSION_TABLE

LOCK_NUMBER: Final = 0x484F4C44


def config(schema: str, *, output: io.StringIO | None = None) -> Config:
    settings = Config(output_buffer=output) if output is not None else Config()
    settings.set_main_option("script_location", str(MIGRATIONS))
    settings.attributes["schema"] = schema
    return settings


async def upgrade(url: str, *, schema: str = "holdfast", revision: str = "head") -> None:
    async def connect(*_: Any, **__: Any) -> asyncpg.Connection:
        return await open_connection(url, statement_cache_size=0)

    # Statement names of our own: behind a pooler a server connection may still know those of another client.
    arguments = {"async_creator_fn": connect, "prepared_statement_name_func": lambda: f"holdfast_{uuid4().hex}"}
    engine = create_async_engine("postgresql+asyncpg://", poolclass=NullPool, connect_args=arguments)
    try:
        with translated():
            async with engine.begin() as connection:
                await connection.run_sync(_upgrade, schema, revision)
    finally:
        await engine.dispose()


def _upgrade(connection: Connection, schema: str, revision: str) -> None:
    connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": LOCK_NUMBER})
    connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}"))
    settings = config(schema)
    settings.attributes["connection"] = connection
    command.upgrade(settings, revision)


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
    for statement in statements.fill(Path(revision).with_suffix(".sql").read_text(encoding="utf-8")).split(";\n"):
        if statement.strip():
            op.execute(statement)
