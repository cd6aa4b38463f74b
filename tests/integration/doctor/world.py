"""A database with something of everything in it, and ways to break it behind the store's back."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

import psycopg

from holdfast.core.job import Timeouts
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.testing.factories import RETRY, after, job_in_state, register, running_job, settle, submit_one
from holdfast.wiring import create_store, sqlite_path

Answer = TypeVar("Answer")
LONG_AGO = {"postgresql": "now() - interval '1 hour'", "sqlite": "(strftime('%s', 'now') - 3600) * 1000000"}
LATER = {"postgresql": "now() + interval '1 day'", "sqlite": "(strftime('%s', 'now') + 86400) * 1000000"}


@dataclass(frozen=True)
class Database:
    """``{ready}`` in a statement is the table of that name, ``{long_ago}`` a time, ``{plain}`` the seq of a job."""

    url: str

    @property
    def dialect(self) -> str:
        return self.url.partition(":")[0]

    def run(self, *statements: str, **names: object) -> list[Sequence[Any]]:
        """The rows of the last one."""
        prefix = "holdfast." if self.dialect == "postgresql" else "holdfast_"
        filled = [
            statement.format_map(
                {
                    **{table: f"{prefix}{table}" for table in TABLES},
                    "long_ago": LONG_AGO[self.dialect],
                    "later": LATER[self.dialect],
                    "true": "true" if self.dialect == "postgresql" else "1",
                    "false": "false" if self.dialect == "postgresql" else "0",
                    **names,
                }
            )
            for statement in statements
        ]
        rows: list[Sequence[Any]] = []
        if self.dialect == "postgresql":
            with psycopg.connect(self.url, autocommit=True) as connection:
                for statement in filled:
                    cursor = connection.execute(statement.encode())
                    rows = list(cursor.fetchall()) if cursor.description else []
        else:
            with closing(sqlite3.connect(sqlite_path(self.url))) as file, file:
                for statement in filled:
                    rows = list(file.execute(statement).fetchall())
        return rows

    def use(self, work: Callable[[Store], Awaitable[Answer]]) -> Answer:
        async def run() -> Answer:
            store = create_store(self.url)
            await store.open()
            try:
                return await work(store)
            finally:
                await store.close()

        return asyncio.run(run())

    def seq(self, job_id: UUID) -> int:
        shown = f"'{job_id}'" if self.dialect == "postgresql" else f"x'{job_id.hex}'"
        ((seq,),) = self.run(f"SELECT seq FROM {{job}} WHERE id = {shown}")
        return int(seq)


TABLES = (
    "job",
    "ready",
    "waiting",
    "running",
    "ended",
    "edge",
    "mark",
    "idempotency",
    "tag",
    "attempt",
    "note",
    "worker",
    "tally",
)


async def fill(store: Store) -> dict[str, UUID]:
    """By the names that statements use for their seqs."""
    worker = await register(store, queues=["busy"], types=["busy"])
    long = Timeouts(visibility=3600.0)
    parent = await submit_one(store, queue="parents")
    retried = await running_job(store, worker=worker, timeouts=long)
    await settle(store, retried, RETRY)
    return {
        "parent": parent,
        "child": await submit_one(store, queue="children", dependencies=after(parent)),
        "plain": await submit_one(store, queue="plain", key="order-7", tags={"customer": "7"}),
        "delayed": await submit_one(store, delay_seconds=3600.0),
        "retrying": retried.id,
        "running": (await running_job(store, worker=worker, timeouts=long)).id,
        "completed": await job_in_state(store, State.COMPLETED),
        "dead": await job_in_state(store, State.DEAD_LETTER),
        "cancelled": await job_in_state(store, State.CANCELLED),
    }
