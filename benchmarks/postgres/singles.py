"""Single submits on PostgreSQL, against one statement by hand that inserts the same two rows."""

import asyncio
from collections.abc import Sequence

from benchmarks.bench import Bench
from benchmarks.figures import Figure
from benchmarks.postgres.databases import FLOOR_SCHEMA, Database
from benchmarks.postgres.sides import statement
from benchmarks.singles import compare_singles
from holdfast.core.commands import NewJob


async def measure_singles(bench: Bench) -> Sequence[Figure]:
    database = await Database.create(bench.server)
    store, floor = database.store(), database.floor("split")
    await asyncio.gather(store.open(), floor.open())
    sql = statement("split_submit_one", FLOOR_SCHEMA)

    async def insert(jobs: Sequence[NewJob]) -> None:
        for job in jobs:
            await floor.connection.execute(
                sql,
                job.id,
                job.type,
                job.queue,
                int(job.priority),
                job.payload.data,
                job.payload.is_json,
                job.retry.max_attempts,
                job.timeouts.visibility,
                job.timeouts.lifetime,
            )

    try:
        return await compare_singles(bench, name="PostgreSQL", store=store.store, insert=insert)
    finally:
        await asyncio.gather(store.close(), floor.close())
        await database.drop()
