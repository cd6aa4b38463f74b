"""How a store gets a backlog or a history: by SQL on PostgreSQL, by submits elsewhere."""

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import asyncpg

from benchmarks.curves.session import POSTGRES, Point, Session
from benchmarks.peers.programs import PeerFailed
from benchmarks.peers.visits import Visit
from benchmarks.postgres.databases import STORE_SCHEMA, Database
from benchmarks.workload import JOB_TYPE, PAYLOAD, QUEUE, RESULT

SQL: Final = Path(__file__).parents[1] / "sql"
HISTORY_TABLES: Final = ("job", "ended")
BYTES_A_JOB: Final = 2000
"""About 450 in the tables, as much in the log, and room to sort for the indexes; twice that."""
LARGE_WAL: Final = "ALTER SYSTEM SET max_wal_size = '32GB'"
"""While a history is made: a checkpoint for every gigabyte would double the time. The setting is put back."""


@cache
def statement(name: str) -> str:
    return (SQL / f"{name}.sql").read_text(encoding="utf-8").replace("{schema}", STORE_SCHEMA)


def top_up(session: Session, point: Point, visit: Visit, *, jobs: int) -> None:
    """Until so many jobs wait."""
    missing = jobs - visit.place.pending()
    if missing <= 0:
        return
    if point.store == POSTGRES:
        asyncio.run(_fill_ready(session, visit.place.url, missing))
    else:
        visit.producer.tell("fill", jobs=missing, submitted=0)


async def _fill_ready(session: Session, url: str, jobs: int) -> None:
    connection = await asyncpg.connect(url)
    try:
        database = Database(session.stores.postgres, name=url.rpartition("/")[2], connection=connection)
        await database.fill_ready(jobs)
    finally:
        await connection.close()


def fill_history(url: str, jobs: int) -> None:
    """Into tables without jobs."""
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < jobs * BYTES_A_JOB:
        raise PeerFailed(
            f"{jobs:,} ended jobs need {jobs * BYTES_A_JOB / 1e9:.0f} GB of disk, {free / 1e9:.0f} are free"
        )
    if jobs:
        asyncio.run(_fill_history(url, jobs))


async def _fill_history(url: str, jobs: int) -> None:
    """The two tables at the same time, their indexes afterwards: a fifth of the time that it takes row by row."""
    connections = [await asyncpg.connect(url) for _ in HISTORY_TABLES]
    first = connections[0]
    try:
        await first.execute(LARGE_WAL)
        await first.execute("SELECT pg_reload_conf()")
        indexes = [await first.fetch(statement("indexes"), f"{STORE_SCHEMA}.{table}") for table in HISTORY_TABLES]
        for rows in indexes:
            for row in rows:
                await first.execute(row["drop"])
        await asyncio.gather(
            first.execute(statement("history_job"), jobs, JOB_TYPE, QUEUE, PAYLOAD.data),
            connections[1].execute(statement("history_ended"), jobs, RESULT),
        )
        made = [_make(one, [row["make"] for row in rows]) for one, rows in zip(connections, indexes, strict=True)]
        await asyncio.gather(*made)
        await first.execute(statement("history_count"), jobs, QUEUE)
    finally:
        await first.execute("ALTER SYSTEM RESET max_wal_size")
        await first.execute("SELECT pg_reload_conf()")
        await asyncio.gather(*(one.close() for one in connections))


async def _make(connection: asyncpg.Connection, statements: Sequence[str]) -> None:
    await connection.execute("SET maintenance_work_mem = '512MB'")
    for statement in statements:
        await connection.execute(statement)
