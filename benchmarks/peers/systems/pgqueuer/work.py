"""The worker's factory, for ``pgq run``: asyncpg, one connection, as its documentation shows it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job

from benchmarks.peers import peer


@asynccontextmanager
async def main() -> AsyncIterator[PgQueuer]:
    connection = await asyncpg.connect(peer.URL)
    queuer = PgQueuer(AsyncpgDriver(connection))

    @queuer.entrypoint("noop")
    async def noop(job: Job) -> None:
        assert job.payload is not None
        peer.record(json.loads(job.payload))

    try:
        yield queuer
    finally:
        await connection.close()
