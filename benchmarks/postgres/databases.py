"""The databases that are measured in: made by the store's own migration, on a private server at its stock settings."""

from collections.abc import Sequence
from typing import Any, Final

import asyncpg

from benchmarks.postgres.sides import FloorSide, statement
from benchmarks.store_side import StoreSide
from benchmarks.workload import JOB_TYPE, PAYLOAD, QUEUE, RESULT
from holdfast.stores.postgres import PostgresStore, migrate
from tests.servers import PostgresServer

STORE_SCHEMA: Final = "holdfast"
FLOOR_SCHEMA: Final = "floor"
SETTINGS: Final = (
    *("server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "wal_level"),
    *("shared_buffers", "max_wal_size", "checkpoint_timeout", "autovacuum", "wal_compression"),
)
FILL_JOBS: Final = 250_000
"""Jobs a filling statement: what it returns is kept in memory or spilled, so not all at once."""


class Database:
    """One database with the store's tables, the floor's, and a connection to fill them and to ask."""

    def __init__(self, server: PostgresServer, *, name: str, connection: asyncpg.Connection) -> None:
        self._server = server
        self._name = name
        self.connection = connection

    @classmethod
    async def create(cls, server: PostgresServer) -> "Database":
        name = server.create_database()
        url = server.url(name)
        for schema in (STORE_SCHEMA, FLOOR_SCHEMA):
            await migrate.upgrade(url, schema=schema)
        connection = await asyncpg.connect(url)
        await connection.execute(statement("one_table", FLOOR_SCHEMA))
        return cls(server, name=name, connection=connection)

    async def drop(self) -> None:
        await self.connection.close()
        self._server.drop_database(self._name)

    @property
    def url(self) -> str:
        return self._server.url(self._name)

    def store(self, *, queues: Sequence[str] = (QUEUE,)) -> StoreSide:
        return StoreSide(PostgresStore(self.url, schema=STORE_SCHEMA, listen=False), queues=queues)

    def floor(self, layout: str) -> FloorSide:
        return FloorSide(self.url, layout=layout, schema=FLOOR_SCHEMA)

    async def fill_ready(
        self, jobs: int, *, queues: int = 1, job_type: str = JOB_TYPE, schema: str = STORE_SCHEMA
    ) -> None:
        await self._fill("fill_ready", jobs, queues, job_type, PAYLOAD.data, schema=schema)

    async def fill_ended(self, jobs: int) -> None:
        await self._fill("fill_ended", jobs, JOB_TYPE, PAYLOAD.data, RESULT, schema=STORE_SCHEMA)

    async def _fill(self, name: str, jobs: int, *arguments: Any, schema: str) -> None:
        for left in range(jobs, 0, -FILL_JOBS):
            await self.connection.execute(statement(name, schema), min(left, FILL_JOBS), *arguments)

    async def settle_down(self) -> None:
        """As a database is that has been running for a while: statistics, hint bits, nothing left to be written."""
        await self.connection.execute("VACUUM ANALYZE")
        await self.connection.execute("CHECKPOINT")


async def settings(server: PostgresServer) -> dict[str, str]:
    connection = await asyncpg.connect(server.url())
    try:
        return {name: await connection.fetchval("SELECT current_setting($1)", name) for name in SETTINGS}
    finally:
        await connection.close()
