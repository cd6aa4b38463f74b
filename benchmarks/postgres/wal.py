"""Bytes of write-ahead log a job costs over its whole life: submit, claim, settle.

Counted from the log itself, by pg_walinspect where the server has it: the records without the full-page images, which
depend on when the last checkpoint was and not on the work. Autovacuum is off for the tables while it lasts, so that
none of its records falls on somebody else's account; what a VACUUM of each side then writes is given beside it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import asyncpg

from benchmarks.bench import Bench
from benchmarks.figures import Figure
from benchmarks.postgres.databases import FLOOR_SCHEMA, STORE_SCHEMA, Database
from benchmarks.postgres.sides import columns
from benchmarks.rounds import ratio
from benchmarks.workload import batches

ROUNDS: Final = 3
TABLES: Final = {
    "store": (STORE_SCHEMA, ("job", "ready", "running", "ended", "tally")),
    "split": (FLOOR_SCHEMA, ("job", "ready", "running", "ended")),
    "one table": (FLOOR_SCHEMA, ("one",)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    records: int
    images: int
    total: int


async def measure_wal(bench: Bench) -> Sequence[Figure]:
    jobs = bench.sizes.wal_jobs
    database = await Database.create(bench.server)
    store, split, one = database.store(), database.floor("split"), database.floor("one")
    await asyncio.gather(store.open(), split.open(), one.open())
    lives: dict[str, list[Written]] = {name: [] for name in TABLES}
    vacuums: dict[str, list[Written]] = {name: [] for name in TABLES}
    try:
        log = Log(database.connection)
        await log.prepare()
        for number in range(ROUNDS):
            for name in TABLES:
                bench.say(f"write-ahead log: round {number + 1} of {ROUNDS}, {name}, {jobs} jobs")
                given = batches(jobs)
                await log.begin()
                if name == "store":
                    await store.submit(given)
                    await store.drain(jobs)
                else:
                    floor = split if name == "split" else one
                    await floor.submit([columns(batch) for batch in given])
                    await floor.drain(jobs)
                lives[name].append(await log.end())
                await log.begin()
                await vacuum(database.connection, name)
                vacuums[name].append(await log.end())
    finally:
        await asyncio.gather(store.close(), split.close(), one.close())
        await database.drop()
    return [_figure(jobs, lives, vacuums)]


def _figure(jobs: int, lives: dict[str, list[Written]], vacuums: dict[str, list[Written]]) -> Figure:
    records = {name: [float(written.records) for written in lives[name]] for name in lives}
    floor = min(("split", "one table"), key=lambda name: sum(records[name]))
    details: dict[str, object] = {"floor": floor, "jobs": jobs}
    for name, written in lives.items():
        details[f"{name} bytes/job"] = round(written[-1].records / jobs)
        details[f"{name} with full-page images"] = round(written[-1].total / jobs)
        details[f"{name} to vacuum"] = round(vacuums[name][-1].records / jobs)
    return Figure(
        measured="PostgreSQL: WAL bytes a job over its whole life, against the floor",
        value=ratio(records["store"], records[floor]),
        at_most=1.25,
        details=details,
    )


async def vacuum(connection: asyncpg.Connection, name: str) -> None:
    schema, tables = TABLES[name]
    await connection.execute("VACUUM " + ", ".join(f"{schema}.{table}" for table in tables))


class Log:
    """What was written between ``begin`` and ``end``. Nothing else may be running on the server."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._start = ""
        self._can_inspect = False

    async def prepare(self) -> None:
        for schema, tables in TABLES.values():
            for table in tables:
                await self._connection.execute(f"ALTER TABLE {schema}.{table} SET (autovacuum_enabled = false)")
        known = "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_walinspect'"
        if await self._connection.fetchval(known):
            await self._connection.execute("CREATE EXTENSION pg_walinspect")
            self._can_inspect = True

    async def begin(self) -> None:
        await self._connection.execute("CHECKPOINT")
        self._start = await self._connection.fetchval("SELECT pg_current_wal_flush_lsn()::text")

    async def end(self) -> Written:
        # A commit that is waited for: the log can be read only as far as it has reached the disk.
        await self._connection.execute("SELECT pg_logical_emit_message(true, 'benchmark', 'end')")
        end = await self._connection.fetchval("SELECT pg_current_wal_flush_lsn()::text")
        distance = "SELECT ($1::text::pg_lsn - $2::text::pg_lsn)::bigint"
        total = await self._connection.fetchval(distance, end, self._start)
        if not self._can_inspect:
            return Written(records=total, images=0, total=total)
        sums = """
            SELECT sum(record_size)::bigint, sum(fpi_size)::bigint
            FROM pg_get_wal_stats($1::text::pg_lsn, $2::text::pg_lsn)
        """
        records, images = await self._connection.fetchrow(sums, self._start, end) or (total, 0)
        return Written(records=records, images=images, total=total)
