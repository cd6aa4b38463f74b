"""Where the store's time goes: ``python -m benchmarks.profile_drain``, or ``--profile`` of the bench.

First the CPU time a job of this process and of the server's, without the profiler, which makes calls look dearer than
they are: these hold on a busy machine, too. Then Python by cProfile, and the plans of claim.sql and settle.sql as they
were executed.
"""

import asyncio
import cProfile
import pstats
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import asyncpg

from benchmarks.postgres.databases import STORE_SCHEMA, Database
from benchmarks.postgres.sides import columns
from benchmarks.workload import DRAIN_BATCH_JOBS, QUEUE, RESULT, batches
from holdfast.core.priority import Priority
from holdfast.stores.postgres.database import PLANNER
from holdfast.stores.postgres.statements import Statements
from tests.servers import PostgresServer

JOBS: Final = 20_000
ENTRIES: Final = 25
EXPLAIN: Final = "EXPLAIN (ANALYZE, BUFFERS, WAL) "

Work = Callable[[], Awaitable[None]]


async def profile() -> None:
    with PostgresServer() as server:
        database = await Database.create(server)
        await _profile(database)
        await database.drop()


async def _profile(database: Database) -> None:
    store, floor = database.store(), database.floor("split")
    await asyncio.gather(store.open(), floor.open())
    try:
        await store.submit(batches(3 * JOBS))
        await floor.submit([columns(batch) for batch in batches(2 * JOBS)])
        await database.settle_down()
        await store.drain(JOBS // 10)
        await floor.drain(JOBS // 10)
        await _shares(database, "store, claim and settle", lambda: store.drain(JOBS))
        await _shares(database, "floor, claim and settle", lambda: floor.drain(JOBS))
        await _widest("claim and settle", lambda: store.drain(JOBS))
        given, raw = batches(JOBS), [columns(batch) for batch in batches(JOBS)]
        await _shares(database, "store, submit", lambda: store.submit(given))
        await _shares(database, "floor, submit", lambda: floor.submit(raw))
        given = batches(JOBS)
        await _widest("submit", lambda: store.submit(given))
        await _plans(database)
    finally:
        await asyncio.gather(store.close(), floor.close())


async def _shares(database: Database, what: str, work: Work) -> None:
    server, here, wall = await _server_seconds(database), time.process_time(), time.perf_counter()
    await work()
    wall, here = time.perf_counter() - wall, time.process_time() - here
    server = await _server_seconds(database) - server
    parts = [f"{seconds / JOBS * 1e6:.1f}" for seconds in (wall, here, server)]
    print("{}: {} µs a job; CPU: {} µs in this process, {} µs in the server".format(what, *parts))


async def _server_seconds(database: Database) -> float:
    """CPU time of the server's sessions, where the system tells."""
    rows = await database.connection.fetch("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'")
    paths = [Path(f"/proc/{row['pid']}/schedstat") for row in rows]
    return sum(int(path.read_text().split()[0]) / 1e9 for path in paths if path.exists())


async def _widest(what: str, work: Work) -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    await work()
    profiler.disable()
    print(f"\n{what}, {JOBS} jobs: the {ENTRIES} widest entries")
    pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(ENTRIES)


async def _plans(database: Database) -> None:
    sql = Statements(STORE_SCHEMA)
    connection = await asyncpg.connect(database.url, server_settings=PLANNER)
    try:
        worker: UUID = await connection.fetchval(f"SELECT id FROM {STORE_SCHEMA}.worker")
        await _explain(connection, sql["claim.lease"], *await _claim_arguments(connection, worker))  # to warm up
        claim = await _explain(connection, sql["claim.lease"], *await _claim_arguments(connection, worker))
        jobs = f"SELECT job, token FROM {STORE_SCHEMA}.running LIMIT $1"
        rows = await connection.fetch(jobs, DRAIN_BATCH_JOBS)
        seqs, tokens = [row["job"] for row in rows], [row["token"] for row in rows]
        settle = await _explain(connection, sql["settle"], None, seqs, tokens, [RESULT] * len(rows))
    finally:
        await connection.close()
    print(f"claim.sql\n{claim}\n\nsettle.sql\n{settle}")


async def _claim_arguments(connection: asyncpg.Connection, worker: UUID) -> list[Any]:
    first: int = await connection.fetchval(f"SELECT min(place) FROM {STORE_SCHEMA}.ready")
    lanes = [[QUEUE] * len(Priority), [int(priority) for priority in Priority], [first - 1] * len(Priority)]
    return [None, worker, *lanes, DRAIN_BATCH_JOBS, None, str(uuid4())[:-4], False]


async def _explain(connection: asyncpg.Connection, sql: str, *arguments: Any) -> str:
    return "\n".join(row[0] for row in await connection.fetch(EXPLAIN + sql, *arguments))


if __name__ == "__main__":
    asyncio.run(profile())
