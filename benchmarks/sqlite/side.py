"""The floor on SQLite: sqlite3 in the calling thread, on the store's own tables, file settings and durability."""

import sqlite3
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from benchmarks.workload import DRAIN_BATCH_JOBS, QUEUE, RESULT
from holdfast.core.commands import NewJob
from holdfast.stores.sqlite.connection import connect
from holdfast.stores.sqlite.migrate import migrate

SQL: Final = Path(__file__).parent / "sql"


@cache
def statement(name: str) -> str:
    return (SQL / f"{name}.sql").read_text(encoding="utf-8")


class RawSide:
    def __init__(self, path: Path) -> None:
        self._connection = connect(path, synchronous="FULL")
        migrate(self._connection, path)
        self._owner = uuid4().bytes

    def close(self) -> None:
        self._connection.close()

    def setting(self, pragma: str) -> Any:
        return self._connection.execute(f"PRAGMA {pragma}").fetchone()[0]

    def submit_each(self, jobs: Sequence[NewJob]) -> None:
        for job in jobs:
            self._submit((job,))

    def submit(self, batches: Sequence[tuple[NewJob, ...]]) -> None:
        for batch in batches:
            self._submit(batch)

    def _submit(self, jobs: Sequence[NewJob]) -> None:
        now = _now()
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        for job in jobs:
            seq = run(statement("submit_job"), _facts(job, now)).lastrowid
            ends_at = now + int(job.timeouts.lifetime * 1e6)
            run(statement("submit_ready"), (seq, job.queue, int(job.priority), now, ends_at, job.type))
        run("COMMIT")

    def drain(self, jobs: int) -> None:
        for left in range(jobs, 0, -DRAIN_BATCH_JOBS):
            limit = min(left, DRAIN_BATCH_JOBS)
            token = uuid4().bytes
            rows = self._claim(limit, token)
            settled = self._settle([row[0] for row in rows], token)
            if settled != limit:
                raise AssertionError(f"{len(rows)} of {limit} jobs were claimed, and {settled} settled")

    def _claim(self, limit: int, token: bytes) -> list[tuple[Any, ...]]:
        now = _now()
        cursor: sqlite3.Cursor = self._connection.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        rows = cursor.execute(statement("claim_find"), (QUEUE, limit)).fetchall()
        cursor.executemany("DELETE FROM holdfast_ready WHERE job = ?", [(row[0],) for row in rows])
        cursor.executemany(
            statement("claim_lease"),
            [(row[0], token, self._owner, QUEUE, *row[1:8], now, now + int(row[8] * 1e6), row[8]) for row in rows],
        )
        cursor.execute("COMMIT")
        return rows

    def _settle(self, seqs: Sequence[int], token: bytes) -> int:
        now = _now()
        cursor = self._connection.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        cursor.executemany(statement("settle_end"), [(now, RESULT, seq, token) for seq in seqs])
        cursor.executemany("DELETE FROM holdfast_running WHERE job = ? AND token = ?", [(seq, token) for seq in seqs])
        settled = cursor.rowcount
        cursor.execute("COMMIT")
        return settled


def _facts(job: NewJob, now: int) -> tuple[Any, ...]:
    first = (job.id.bytes, job.type, job.queue, int(job.priority), now, job.retry.max_attempts)
    return (*first, job.timeouts.visibility, job.timeouts.lifetime, job.payload.is_json, job.payload.data)


def _now() -> int:
    return time.time_ns() // 1000
