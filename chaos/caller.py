"""A caller with a transaction of its own: it submits and cancels in it, and nothing of that counts before the commit.

Submits go through the API that callers have. There is none for a cancel in one's own transaction: that is the engine's
verb on this connection, with the same statements and the same locks.
"""

import asyncio
import itertools
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self
from uuid import UUID

import asyncpg

from chaos import ledger
from chaos.databases import CALLERS
from holdfast.core.commands import CancelOutcome, NewJob, Submit, Submitted
from holdfast.core.errors import HoldfastError
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.connections import AsyncpgExecutor
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.locks import Waiting
from holdfast.stores.sqlite import SQLiteStore
from holdfast.stores.verbs.cancel import cancel

BROKEN: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, sqlite3.Error, OSError, HoldfastError)
"""What another fault may do to a caller's transaction: then nobody knows what became of it."""
LOCK_MILLISECONDS: Final = 3000
BUSY_SECONDS: Final = 2.0


class CallerLog:
    """What callers were told, in the lines that the submitter writes."""

    def __init__(self, path: Path) -> None:
        self._file = ledger.open_to_append(path)
        self._numbers = itertools.count(1)

    def begin(self, word: str, ids: Sequence[UUID], key: str | None = None) -> int:
        """``word``: try or cancel."""
        number = next(self._numbers)
        words = (word, str(number), ",".join(map(str, ids)), key)
        ledger.write_line(self._file, " ".join(part for part in words if part is not None))
        return number

    def end(self, number: int, *, is_committed: bool, answered: Sequence[UUID] = ()) -> None:
        ledger.write_answer(self._file, "yes" if is_committed else "no", number, answered)


class PostgresCaller:
    """A connection with an open transaction; it ends with the connection unless it was committed."""

    def __init__(self, connection: asyncpg.Connection, store: PostgresStore) -> None:
        self._connection = connection
        self._store = store

    @classmethod
    @asynccontextmanager
    async def opened(cls, url: str) -> AsyncIterator[Self]:
        settings = {"application_name": CALLERS, "lock_timeout": str(LOCK_MILLISECONDS)}
        connection = await asyncpg.connect(url, server_settings=settings)
        store = PostgresStore(url)
        try:
            await store.open()
            await connection.execute("BEGIN")
            yield cls(connection, store)
        finally:
            connection.terminate()
            await store.close()

    async def submit(self, jobs: Sequence[NewJob]) -> list[UUID]:
        return _ids(await self._store.submit([Submit(jobs=jobs)], connection=self._connection))

    async def cancel(self, job_id: UUID) -> bool:
        """Whether there was anything to cancel."""
        database: Database = self._store._database  # noqa: SLF001 - see above
        now = await self._connection.fetchval("SELECT clock_timestamp()")
        tx = database.transaction(AsyncpgExecutor(self._connection), now, Waiting(is_callers=True))
        (answer,) = await cancel(tx, [job_id])
        return answer.outcome in (CancelOutcome.CANCELLED, CancelOutcome.REQUESTED)

    async def end(self, *, is_committed: bool) -> None:
        await self._connection.execute("COMMIT" if is_committed else "ROLLBACK")


class SQLiteCaller:
    """While its transaction is open nobody else can write."""

    def __init__(self, connection: sqlite3.Connection, store: SQLiteStore) -> None:
        self._connection = connection
        self._store = store

    @classmethod
    @asynccontextmanager
    async def opened(cls, path: Path, *, now: Callable[[], float]) -> AsyncIterator[Self]:
        store = SQLiteStore(path, clock=_Clock(now))
        await store.open()
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            await asyncio.to_thread(connection.execute, "BEGIN IMMEDIATE")
            yield cls(connection, store)
        finally:
            connection.close()
            await store.close()

    async def submit(self, jobs: Sequence[NewJob]) -> list[UUID]:
        return _ids(await self._store.submit([Submit(jobs=jobs)], connection=self._connection))

    async def end(self, *, is_committed: bool) -> None:
        self._connection.execute("COMMIT" if is_committed else "ROLLBACK")


class _Clock:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._now(), UTC)


def _ids(answers: Sequence[Any]) -> list[UUID]:
    (answer,) = answers
    items: Sequence[Submitted] = answer
    return [item.job_id for item in items]
