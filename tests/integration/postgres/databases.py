"""Small questions and small changes to a database behind the store's back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from holdfast.stores.postgres import PostgresStore
from holdfast.testing.factories import hears

LONG_SECONDS = 20.0
"""Far more than anything here takes."""
STANDS = ("ready", "waiting", "running", "ended")
"""The four tables that a job can stand in."""
OTHERS = (
    "job",
    "edge",
    "mark",
    "idempotency",
    "tag",
    "attempt",
    "note",
    "worker",
    "pause",
    "tally",
    "beat",
    "cron_slot",
    "api_key",
)
TABLES = (*STANDS, *OTHERS)


@asynccontextmanager
async def connected(url: str, **settings: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url, statement_cache_size=0, server_settings=settings)
    try:
        yield connection
    finally:
        # Not close(): a server that was killed would never answer.
        connection.terminate()


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def empty(url: str) -> None:
    """Delete every row. Sequences go on: no test may count on their values."""
    async with connected(url, lock_timeout="5s") as connection:
        await connection.execute("".join(f"DELETE FROM holdfast.{table};" for table in TABLES))
        await connection.execute("INSERT INTO holdfast.beat DEFAULT VALUES")


async def fetch(url: str, sql: str, *arguments: Any) -> list[Any]:
    async with connected(url) as connection:
        rows: list[Any] = await connection.fetch(sql, *arguments)
        return rows


async def jobs_that_stand_wrongly(url: str) -> list[Any]:
    """Jobs that are not in exactly one of the four tables, and rows there without a job."""
    union = " UNION ALL ".join(f"SELECT job, '{table}' AS place FROM holdfast.{table}" for table in STANDS)
    return await fetch(
        url,
        f"""
        SELECT coalesce(j.seq, s.job) AS seq, array_agg(s.place) AS places
        FROM holdfast.job j FULL JOIN ({union}) s ON s.job = j.seq
        GROUP BY 1 HAVING count(s.job) <> 1 OR count(j.seq) <> 1
        """,
    )


async def listening(store: PostgresStore) -> None:
    """Wait until the store's LISTEN is in place, and the wake-up for everyone that goes with it is over."""
    await hears(store, ["nobody submits here"], within_seconds=0.01)
    await asyncio.wait_for(store._database.listener.is_listening.wait(), LONG_SECONDS)
    await asyncio.sleep(0)


async def somebody_waits_for_a_lock(url: str) -> None:
    async with connected(url) as connection:
        for _ in range(1000):
            if await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                return
            await asyncio.sleep(0.01)
    raise AssertionError("nobody waits for a lock")
