"""Databases as an earlier version left them, restored from the files that ``make.py`` made."""

import base64
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import psycopg

from holdfast.core.job import Lease
from holdfast.core.ports import Store
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SQLiteStore
from holdfast.testing import ManualClock

HERE = Path(__file__).parent
COMMIT = "d49fba9"


class Earlier:
    """What was said of the database by the code that wrote it."""

    def __init__(self, dialect: str) -> None:
        self._folder = HERE / COMMIT
        self.dialect = dialect
        self.said: dict[str, Any] = json.loads((self._folder / f"{dialect}.json").read_text(encoding="utf-8"))
        self.now = datetime.fromisoformat(self.said["now"])

    def id(self, name: str) -> UUID:
        return UUID(self.said["jobs"][name]["id"])

    def payload(self, name: str) -> bytes:
        return base64.b64decode(self.said["jobs"][name]["payload"]["data"])

    @property
    def leases(self) -> dict[str, Lease]:
        return msgspec.convert(self.said["leases"], dict[str, Lease])

    def in_states(self, *states: str) -> set[UUID]:
        return {UUID(job["id"]) for job in self.said["jobs"].values() if job["state"] in states}

    def restore(self, target: str) -> None:
        """Into a new file, or an empty database."""
        text = (self._folder / f"{self.dialect}.sql").read_text(encoding="utf-8")
        if self.dialect == "sqlite":
            with closing(sqlite3.connect(target)) as connection:
                connection.executescript(text)
        else:
            with psycopg.connect(target, autocommit=True) as connection:
                connection.execute(text.encode())

    @asynccontextmanager
    async def opened(self, target: str) -> AsyncIterator[tuple[Store, ManualClock]]:
        """By today's code, at the time when the database was written."""
        clock = ManualClock(self.now)
        store: Store = (
            SQLiteStore(target, clock=clock) if self.dialect == "sqlite" else PostgresStore(target, clock=clock)
        )
        await store.open()
        try:
            yield store, clock
        finally:
            await store.close()


async def said_by(store: Store, ids: dict[str, UUID]) -> dict[str, Any]:
    """The same by today's code, as JSON has it."""
    jobs = await store.read(list(ids.values()))
    return json.loads(  # type: ignore[no-any-return]
        msgspec.json.encode(
            {
                "jobs": dict(zip(ids, jobs, strict=True)),
                "attempts": {name: await store.read_attempts(job) for name, job in ids.items()},
                "upstream": {name: await store.read_upstream(job) for name, job in ids.items()},
                "queues": await store.read_queues(),
                "workers": await store.read_workers(),
                "keys": await store.read_keys(),
                "slots": (await store.read_cron()).slots,
            },
            order="sorted",
        )
    )


def as_then(now: Any, then: Any) -> Any:
    """What is said now, without the fields that nobody knew then."""
    if isinstance(now, dict) and isinstance(then, dict):
        return {name: as_then(now[name], value) for name, value in then.items() if name in now}
    if isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        return [as_then(one, other) for one, other in zip(now, then, strict=True)]
    return now
