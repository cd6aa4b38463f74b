"""What the verbs write: jobs that come, move from table to table, and change where they stand."""

from collections.abc import Callable, Collection, Mapping, Sequence
from sqlite3 import Cursor
from typing import Final
from uuid import UUID

from holdfast.core.commands import NewJob
from holdfast.core.job import Attempt, Progress, Record
from holdfast.core.states import State
from holdfast.stores.sqlite.lock import Locking
from holdfast.stores.sqlite.rows import (
    Row,
    attempt_row,
    encode_failure,
    ended_row,
    job_row,
    json_array,
    ready_row,
    running_row,
    waiting_row,
)
from holdfast.stores.sqlite.statements import execute
from holdfast.stores.transaction import Change

_TABLES: Final = {
    State.PENDING: "waiting",
    State.DELAYED: "waiting",
    State.RETRYING: "waiting",
    State.SCHEDULED: "ready",
    State.RUNNING: "running",
    State.COMPLETED: "ended",
    State.FAILED: "ended",
    State.DEAD_LETTER: "ended",
    State.CANCELLED: "ended",
}
_ROWS: Final[dict[str, Callable[[Record], Row]]] = {
    "waiting": waiting_row,
    "running": running_row,
    "ended": ended_row,
}


class Writing(Locking):
    def reserve(self, count: int) -> int:
        """The first of ``count`` numbers in a row."""
        ((last,),) = self.rows("write.reserve", count)
        return int(last) - count + 1

    async def reserve_seqs(self, count: int) -> list[int]:
        first = self.reserve(count)
        return list(range(first, first + count))

    async def insert(self, jobs: Sequence[tuple[Record, NewJob]]) -> None:
        self.run_many("write.job", [job_row(record, job) for record, job in jobs])
        tags = [(record.seq, name, value) for record, job in jobs for name, value in job.tags.items()]
        if tags:
            self.run_many("write.tag", tags)
        self._enter([record for record, _ in jobs])

    async def write(self, changes: Sequence[Change]) -> None:
        leaving: dict[str, list[int]] = {}
        entering: list[Record] = []
        changed: dict[str, list[Row]] = {}
        for change in changes:
            before, after = change.before, change.after
            table = _TABLES[before.state]
            if before.state is after.state and table in ("ready", "ended"):
                row: Row = (after.seq, after.is_fragile, after.has_dependents)
                changed.setdefault(table, []).append(
                    row if table == "ready" else (*row, after.ended_by, encode_failure(after.failure))
                )
                continue
            self.tally[before.queue, before.state] -= 1
            entering.append(after)
            if table != _TABLES[after.state]:
                leaving.setdefault(table, []).append(before.seq)
        for table, rows in changed.items():
            self.run_many(f"write.change_{table}", rows)
        for table, seqs in leaving.items():
            self.run(f"write.leave_{table}", json_array(seqs))
        self._enter(entering)

    def _enter(self, records: Sequence[Record]) -> None:
        """In the order given, which is the order of places."""
        entering: dict[str, list[Row]] = {}
        for record in records:
            self.tally[record.queue, record.state] += 1
            if record.state is not State.SCHEDULED:
                table = _TABLES[record.state]
                entering.setdefault(table, []).append(_ROWS[table](record))
        ready = [record for record in records if record.state is State.SCHEDULED]
        if ready:
            self.awakened.update(record.queue for record in ready)
            first = self.reserve(len(ready))
            entering["ready"] = [ready_row(record, place) for place, record in enumerate(ready, start=first)]
        for table, rows in entering.items():
            self.run_many(f"write.{table}", rows)

    async def place_again(self, records: Sequence[Record]) -> None:
        first = self.reserve(len(records))
        rows = [(r.seq, place, self.now_microseconds) for place, r in enumerate(records, start=first)]
        self.run_many("write.place_again", rows)
        self.awakened.update(record.queue for record in records)

    async def keep_attempts(self, attempts: Sequence[tuple[int, Attempt]]) -> None:
        self.run_many("write.attempt", [attempt_row(seq, attempt) for seq, attempt in attempts])

    async def ended_by_holder(self, leases: Collection[tuple[int, UUID]]) -> set[tuple[int, UUID]]:
        rows = self.rows("write.ended_by_holder", json_array([seq for seq, _ in leases]))
        return {(job, UUID(bytes=token)) for job, token in rows} & set(leases)

    async def save_notes(self, notes: Sequence[tuple[int, Progress | None, bytes | None]]) -> None:
        self.run_many(
            "write.note",
            [
                (seq, progress.percent if progress else None, progress.message if progress else None, checkpoint)
                for seq, progress, checkpoint in notes
            ],
        )

    def write_tally(self) -> None:
        write_tally(self.cursor, self.tally)
        self.tally.clear()


def write_tally(cursor: Cursor, tally: Mapping[tuple[str, str], int]) -> None:
    for (queue, state), jobs in tally.items():
        if jobs:
            execute(cursor, "write.tally", queue, str(state), jobs)
