"""Callers with a transaction of their own, one a driver: what ``submit(connection=…)`` may be given."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import psycopg
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

Step = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A transaction that has begun. It belongs to the test, which ends it."""

    connection: Any
    commit: Step
    rollback: Step
    execute: Callable[[str], Awaitable[None]]


OpenCaller = Callable[[str], AbstractAsyncContextManager[Caller]]


@asynccontextmanager
async def with_asyncpg(url: str) -> AsyncIterator[Caller]:
    connection = await asyncpg.connect(url)
    try:
        yield await asyncpg_caller(connection)
    finally:
        await connection.close()


@asynccontextmanager
async def with_asyncpg_pool(url: str) -> AsyncIterator[Caller]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        yield await asyncpg_caller(connection)


async def asyncpg_caller(connection: Any) -> Caller:
    transaction = connection.transaction()
    await transaction.start()

    async def execute(sql: str) -> None:
        await connection.execute(sql)

    return Caller(connection=connection, commit=transaction.commit, rollback=transaction.rollback, execute=execute)


@asynccontextmanager
async def with_psycopg(url: str) -> AsyncIterator[Caller]:
    with psycopg.connect(url) as connection:
        yield synchronous_caller(connection, connection, lambda sql: connection.execute(sql.encode()))


@asynccontextmanager
async def with_psycopg_async(url: str) -> AsyncIterator[Caller]:
    connection = await psycopg.AsyncConnection.connect(url)

    async def execute(sql: str) -> None:
        await connection.execute(sql.encode())

    try:
        yield Caller(connection=connection, commit=connection.commit, rollback=connection.rollback, execute=execute)
    finally:
        await connection.close()


@asynccontextmanager
async def with_sqlalchemy_connection(url: str) -> AsyncIterator[Caller]:
    engine = create_engine(dialect(url, "psycopg"))
    with engine.connect() as connection:
        yield synchronous_caller(connection, connection, lambda sql: connection.execute(text(sql)))
    engine.dispose()


@asynccontextmanager
async def with_sqlalchemy_session(url: str) -> AsyncIterator[Caller]:
    engine = create_engine(dialect(url, "psycopg"))
    with Session(engine) as session:
        yield synchronous_caller(session, session, lambda sql: session.execute(text(sql)))
    engine.dispose()


def synchronous_caller(connection: Any, transaction: Any, run: Callable[[str], Any]) -> Caller:
    async def execute(sql: str) -> None:
        run(sql)

    async def commit() -> None:
        transaction.commit()

    async def rollback() -> None:
        transaction.rollback()

    return Caller(connection=connection, commit=commit, rollback=rollback, execute=execute)


def with_sqlalchemy_async_connection(driver: str) -> OpenCaller:
    @asynccontextmanager
    async def open_caller(url: str) -> AsyncIterator[Caller]:
        engine = create_async_engine(dialect(url, driver))
        async with engine.connect() as connection:
            yield asynchronous_caller(connection)
        await engine.dispose()

    return open_caller


def with_sqlalchemy_async_session(driver: str) -> OpenCaller:
    @asynccontextmanager
    async def open_caller(url: str) -> AsyncIterator[Caller]:
        engine = create_async_engine(dialect(url, driver))
        async with AsyncSession(engine) as session:
            yield asynchronous_caller(session)
        await engine.dispose()

    return open_caller


def asynchronous_caller(connection: Any) -> Caller:
    async def execute(sql: str) -> None:
        await connection.execute(text(sql))

    return Caller(connection=connection, commit=connection.commit, rollback=connection.rollback, execute=execute)


def dialect(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://", 1)


CALLERS: dict[str, OpenCaller] = {
    "asyncpg": with_asyncpg,
    "asyncpg pool": with_asyncpg_pool,
    "psycopg": with_psycopg,
    "psycopg async": with_psycopg_async,
    "sqlalchemy connection": with_sqlalchemy_connection,
    "sqlalchemy session": with_sqlalchemy_session,
    "sqlalchemy async connection, asyncpg": with_sqlalchemy_async_connection("asyncpg"),
    "sqlalchemy async connection, psycopg": with_sqlalchemy_async_connection("psycopg"),
    "sqlalchemy async session, asyncpg": with_sqlalchemy_async_session("asyncpg"),
    "sqlalchemy async session, psycopg": with_sqlalchemy_async_session("psycopg"),
}
