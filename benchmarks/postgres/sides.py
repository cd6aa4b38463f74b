"""The floor's sides: raw SQL on one connection, the same batches, columns and history, synchronous commits.

Two layouts, written by hand for exactly this work: one table whose rows are updated, and the store's own split one.
What they leave out is what a queue adds: counts, cursors, paused queues, job types, expiry, repeats after lost answers.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import asyncpg

from benchmarks.workload import DRAIN_BATCH_JOBS, QUEUE, RESULT
from holdfast.core.commands import NewJob
from holdfast.stores.postgres.database import PLANNER
from holdfast.stores.postgres.statements import quoted

SQL: Final = Path(__file__).parent / "sql"


@cache
def statement(name: str, schema: str) -> str:
    return (SQL / f"{name}.sql").read_text(encoding="utf-8").replace("{schema}", quoted(schema))


class FloorSide:
    """``layout`` names the statements: ``split`` or ``one``."""

    def __init__(self, url: str, *, layout: str, schema: str) -> None:
        self._url = url
        self._layout = layout
        self._schema = schema
        self._owner = uuid4()
        self._connection: asyncpg.Connection | None = None

    async def open(self) -> None:
        # The store's planner settings: its tables are empty one moment and large the next, as here.
        self._connection = await asyncpg.connect(self._url, server_settings=PLANNER)

    async def close(self) -> None:
        await self.connection.close()

    @property
    def connection(self) -> asyncpg.Connection:
        assert self._connection is not None, "call open() first"
        return self._connection

    def sql(self, verb: str) -> str:
        return statement(f"{self._layout}_{verb}", self._schema)

    async def submit(self, batches: Sequence[list[list[Any]]]) -> None:
        for columns in batches:
            await self.connection.execute(self.sql("submit"), *columns)

    async def drain(self, jobs: int) -> None:
        claim, settle = self.sql("claim"), self.sql("settle")
        for left in range(jobs, 0, -DRAIN_BATCH_JOBS):
            limit = min(left, DRAIN_BATCH_JOBS)
            token = uuid4()
            rows = await self.connection.fetch(claim, QUEUE, self._owner, limit, token)
            tag = await self.connection.execute(settle, [row["job"] for row in rows], [RESULT] * len(rows), token)
            if not tag.endswith(f" {limit}"):
                raise AssertionError(f"{len(rows)} of {limit} jobs were claimed, and settle said {tag}")


def columns(jobs: Sequence[NewJob]) -> list[list[Any]]:
    """The arrays of ``split_submit.sql`` and ``one_submit.sql``."""
    return [
        [job.id for job in jobs],
        [job.type for job in jobs],
        [job.queue for job in jobs],
        [int(job.priority) for job in jobs],
        [job.payload.data for job in jobs],
        [job.payload.is_json for job in jobs],
        [job.retry.max_attempts for job in jobs],
        [job.timeouts.visibility for job in jobs],
        [job.timeouts.lifetime for job in jobs],
        [None for _ in jobs],
    ]
