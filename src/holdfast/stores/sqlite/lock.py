"""The beginning of every transaction: what it knows, and how it runs a statement.

It never suspends, and it has the only write lock there is: whatever it reads stays true until it ends. Every
statement's rows are fetched before the next one runs, so one cursor serves a whole transaction. Counts are gathered in
``tally`` and written once, by whoever commits: so many operations that share a commit write one row.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from sqlite3 import Cursor
from typing import Any
from uuid import UUID

from holdfast.core.job import Record
from holdfast.stores.sqlite.rows import (
    Row,
    duration_microseconds,
    from_microseconds,
    json_array,
    named,
    record_from,
)
from holdfast.stores.sqlite.statements import SQL, bound, execute, rows_of_bytes

Tally = defaultdict[tuple[str, str], int]
"""Jobs that came (or went, where negative), by queue and state."""
Sweeps = dict[str, tuple[int, int]]
"""How far retention has looked, kept by whoever opens the transactions: (completed_at, seq) by the find's name."""


class Locking:
    def __init__(self, cursor: Cursor, *, now: int, sweeps: Sweeps | None = None, is_late: bool = False) -> None:
        self.cursor = cursor
        self._is_late = is_late
        """Others kept it waiting, and heartbeats with it: silence proves nothing (WRITER-8)."""
        self.sweeps: Sweeps = {} if sweeps is None else sweeps
        self.now_microseconds = now
        self.now: datetime = from_microseconds(now)
        self.tally: Tally = defaultdict(int)
        self.awakened: set[str] = set()
        """Queues in which jobs became claimable."""
        self.marked: set[int] = set()

    def rows(self, name: str, *values: Any) -> list[Row]:
        return execute(self.cursor, name, *values).fetchall()

    def run(self, name: str, *values: Any) -> int:
        """Returns how many rows were changed."""
        return execute(self.cursor, name, *values).rowcount

    def run_many(self, name: str, rows: Iterable[Row]) -> int:
        sql = SQL[name]
        return self.cursor.executemany(sql, [bound(sql, row) for row in rows] if "?1" in sql else rows).rowcount

    def rows_of_bytes(self, name: str, values: Collection[bytes], *first: Any) -> list[Row]:
        return rows_of_bytes(self.cursor, name, values, *first)

    async def lock(self, seqs: Collection[int]) -> dict[int, Record]:
        return {record.seq: record for record in self._records(seqs)} if seqs else {}

    async def lock_free(self, seqs: Collection[int]) -> tuple[dict[int, Record], set[int]]:
        """The transaction has the only write lock there is."""
        return await self.lock(seqs), set()

    def _records(self, seqs: Collection[int]) -> list[Record]:
        return [record_from(row) for row in named(execute(self.cursor, "lock", json_array(seqs)))]

    def _records_in_order(self, rows: Sequence[Row]) -> list[Record]:
        """Of rows that begin with a seq; a find's order is the order in which jobs become claimable."""
        seqs = [row[0] for row in rows]
        records = {record.seq: record for record in self._records(seqs)} if seqs else {}
        return [records[seq] for seq in seqs]

    async def lock_ids(self, ids: Collection[UUID]) -> dict[UUID, Record]:
        seqs = [seq for _, seq in self.rows_of_bytes("read.seqs", [job_id.bytes for job_id in ids])]
        return {record.id: record for record in self._records(seqs)} if seqs else {}

    async def existing_ids(self, ids: Collection[UUID]) -> set[UUID]:
        return {UUID(bytes=row[0]) for row in self.rows_of_bytes("read.seqs", [job_id.bytes for job_id in ids])}

    def _ago(self, seconds: float) -> int:
        return self.now_microseconds - duration_microseconds(seconds)
