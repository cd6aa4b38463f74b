"""How to speak to a connection: one of our own, or a caller's of any driver we know.

A caller's connection is used inside the transaction it is in; nothing here commits it. Statements are written for
asyncpg (``$1``); for psycopg they are rewritten once.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

from holdfast.core.errors import UsageError
from holdfast.stores.postgres.rows import Row

SUPPORTED = "an asyncpg, psycopg or SQLAlchemy (asyncpg or psycopg) connection, or a SQLAlchemy session"


class Executor(Protocol):
    """A connection in a transaction, of whichever driver."""

    async def fetch(self, sql: str, *arguments: Any) -> Sequence[Row]: ...


class AsyncpgExecutor:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, sql: str, *arguments: Any) -> Sequence[Row]:
        rows: Sequence[Row] = await self._connection.fetch(sql, *arguments)
        return rows


class AsyncPsycopgExecutor:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, sql: str, *arguments: Any) -> Sequence[Row]:
        from psycopg.rows import dict_row

        async with self._connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(_for_psycopg(sql), _named(arguments))
            rows: Sequence[Row] = await cursor.fetchall() if cursor.description else []
            return rows


class PsycopgExecutor:
    """A synchronous connection: the statement runs at once, inside the caller's own blocking transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, sql: str, *arguments: Any) -> Sequence[Row]:
        from psycopg.rows import dict_row

        with self._connection.cursor(row_factory=dict_row) as cursor:
            cursor.execute(_for_psycopg(sql), _named(arguments))
            rows: Sequence[Row] = cursor.fetchall() if cursor.description else []
            return rows


@cache
def _for_psycopg(sql: str) -> str:
    return re.sub(r"\$(\d+)", r"%(p\1)s", sql.replace("%", "%%"))


def _named(arguments: Sequence[Any]) -> dict[str, Any]:
    return {f"p{n}": value for n, value in enumerate(arguments, start=1)}


async def executor_of(connection: Any) -> Executor:
    """How to speak to a caller's connection; UsageError says what is missing."""
    names = {f"{base.__module__}.{base.__qualname__}" for base in type(connection).__mro__}
    if any(name.startswith("sqlalchemy.") for name in names):
        connection = await _driver_connection(connection)
        names = {f"{base.__module__}.{base.__qualname__}" for base in type(connection).__mro__}
    if any(name.startswith("asyncpg.") for name in names):
        if not connection.is_in_transaction():
            raise UsageError("connection= wants a connection inside a transaction: async with connection.transaction()")
        return AsyncpgExecutor(connection)
    if "psycopg.AsyncConnection" in names or "psycopg.connection_async.AsyncConnection" in names:
        _require_psycopg_transaction(connection)
        return AsyncPsycopgExecutor(connection)
    if "psycopg.Connection" in names or "psycopg.connection.Connection" in names:
        _require_psycopg_transaction(connection)
        return PsycopgExecutor(connection)
    raise UsageError(f"connection= is {type(connection).__qualname__}; give {SUPPORTED}")


def _require_psycopg_transaction(connection: Any) -> None:
    from psycopg.pq import TransactionStatus

    is_open = connection.info.transaction_status == TransactionStatus.INTRANS
    if connection.autocommit and not is_open:
        raise UsageError("connection= is in autocommit: open a transaction with connection.transaction()")


async def _driver_connection(connection: Any) -> Any:
    """The driver's connection behind a SQLAlchemy session or connection, with its transaction begun."""
    from sqlalchemy import Connection, text
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
    from sqlalchemy.orm import Session

    begin = text("SELECT 1")
    if isinstance(connection, AsyncSession):
        connection = await connection.connection()
    if isinstance(connection, AsyncConnection):
        await connection.execute(begin)
        return (await connection.get_raw_connection()).driver_connection
    if isinstance(connection, Session):
        connection = connection.connection()
    if isinstance(connection, Connection):
        connection.execute(begin)
        return connection.connection.driver_connection
    raise UsageError(f"connection= is SQLAlchemy's {type(connection).__qualname__}; give {SUPPORTED}")
