"""The one connection of this process that writes: group commit.

How it works: operations that are queued when the writer gets to them run in one ``BEGIN IMMEDIATE … COMMIT``, one after
the other, each in a savepoint of its own; their callers are told after the commit. So ten callers at once pay for one
fsync, and a lone caller waits for nobody. Neighbours of a kind that can be served at once (plain submits) share their
statements, too.

WRITER-1. An operation is answered only after the commit that holds it.
WRITER-2. An operation that is refused (HoldfastError, or any error of ours) leaves nothing, and its neighbours go on.
WRITER-3. If SQLite itself fails (disk full, I/O), the whole group is rolled back and each operation tried alone, so
    that one which cannot be written does not take the others with it.
WRITER-4. The clock is read once an operation, inside the transaction.
WRITER-5. The log is copied into the file (a checkpoint, tens of milliseconds) by the writer's thread, after its callers
    have their answers: never inside anybody's commit. It is due when the log is longer than ``LOG_BYTES``.
WRITER-6. An operation whose caller has given up by the time the file lets us write is not done. What its caller asks
    for next may go another way (a worker's heartbeat and its claims do) and must not be overtaken by it.
WRITER-7. A group of which every operation may be forgotten (claims) is committed without waiting for the disk; no other
    is.
WRITER-8. A transaction that was kept waiting by others for a second finds nobody lost and no lease expired: the
    heartbeats that say otherwise were kept waiting, too, and come first.
"""

import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from holdfast.core.ports import Clock, Standstill
from holdfast.stores.sqlite.connection import LOG_BYTES, SHORTEST_SLEEP_SECONDS, Synchronous, begin
from holdfast.stores.sqlite.connection_thread import ConnectionThread, Operation, fail
from holdfast.stores.sqlite.files import OpenFiles
from holdfast.stores.sqlite.lock import Sweeps, Tally
from holdfast.stores.sqlite.rows import to_microseconds
from holdfast.stores.sqlite.standstill import Watchman
from holdfast.stores.sqlite.transaction import SQLiteTransaction
from holdfast.stores.sqlite.write import write_tally

Wake = Callable[[set[str]], None]
CHECKPOINT_STEP_BYTES: Final = LOG_BYTES // 4
CHECKPOINT_REST_SECONDS: Final = 1.0
"""A log that stays too long, because somebody still reads what is in it, is copied again when it has grown by so much,
or after so long."""
RESTART_BYTES: Final = 2 * LOG_BYTES
MAX_RESTARTS: Final = 20
"""From this length on, the next commit is not left to find a moment at which all is copied and nobody reads."""
LATE_SECONDS: Final = 1.0
MAX_LATE_TURNS: Final = 3


class Writer(ConnectionThread):
    """Runs ``work(transaction)``."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        files: OpenFiles,
        *,
        synchronous: Synchronous,
        clock: Clock | None,
        wake: Wake,
    ) -> None:
        self._synchronous = synchronous
        self._clock = clock
        self._wake = wake
        self._sweeps: Sweeps = {}
        self._checkpoint_bytes = 0
        self._checkpoint_time = 0.0
        self._watchman = Watchman(connection)
        self._late_turns = 0
        super().__init__("holdfast-sqlite-writer", connection, files)

    def serve(self, group: list[Operation]) -> None:
        if not all(operation.may_be_forgotten for operation in group):
            self._serve(group)
            return
        self.cursor.execute("PRAGMA synchronous = NORMAL")
        try:
            self._serve(group)
        finally:
            self.cursor.execute(f"PRAGMA synchronous = {self._synchronous}")

    def _serve(self, group: list[Operation]) -> None:
        try:
            begin(self.cursor, on_busy=self._watchman.note_refusal)
        except sqlite3.Error as error:
            self._watchman.note_refusal(error)
            fail(group, error)
            return
        # Those that came while another group was kept waiting were kept waiting, too.
        self._note_wait(time.monotonic() - min(operation.asked_at for operation in group))
        wanted = [operation for operation in group if not operation.future.cancelled()]
        if not wanted:
            self._roll_back()
            return
        try:
            awakened = self._commit(wanted)
        except Exception as error:
            self._roll_back()
            if len(wanted) == 1:
                if isinstance(error, sqlite3.Error):
                    self._watchman.note_refusal(error)
                fail(wanted, error)
                return
            for operation in wanted:
                self._serve([operation])
        else:
            self._watchman.note_commit()
            if awakened:
                self._wake(awakened)

    @property
    def standstill(self) -> Standstill | None:
        return self._watchman.standstill

    def _note_wait(self, seconds: float) -> None:
        self._late_turns = self._late_turns + 1 if seconds > LATE_SECONDS else 0

    @property
    def _is_late(self) -> bool:
        """WRITER-8. Not for ever: on a file that is never free, those that are really gone must be found."""
        return 0 < self._late_turns <= MAX_LATE_TURNS

    def serve_at_once(self, group: list[Operation]) -> bool:
        if self._is_checkpoint_due:
            return False
        try:
            self.cursor.execute("BEGIN IMMEDIATE")
            awakened = self._commit(group)
        except Exception:
            # Somebody else is writing, or worse: the thread waits, tries each alone, and says what is wrong.
            self._roll_back()
            return False
        self._watchman.note_commit()
        if awakened:
            self._wake(awakened)
        return True

    @property
    def _is_checkpoint_due(self) -> bool:
        log_bytes = self.files.log_bytes
        if log_bytes <= LOG_BYTES:
            self._checkpoint_bytes = 0
            return False
        return log_bytes >= self._checkpoint_bytes or time.monotonic() >= self._checkpoint_time

    def after_service(self) -> None:
        if self._is_checkpoint_due:
            self._checkpoint()

    def _checkpoint(self) -> None:
        """Once all of the log is copied and nobody reads it, the next commit begins it again from its start."""
        self._checkpoint_bytes = self.files.log_bytes + CHECKPOINT_STEP_BYTES
        self._checkpoint_time = time.monotonic() + CHECKPOINT_REST_SECONDS
        try:
            self.cursor.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if self.files.log_bytes > RESTART_BYTES:
                self._begin_log_again()
        except sqlite3.Error:
            # Nothing is lost with it: the log stays, and the next one copies more.
            return

    def _begin_log_again(self) -> None:
        """Where other processes write and read all the time, there is always something left to copy.

        What little that is by now is copied under the write lock. Nobody is waited for: it is tried a few times.
        """
        for _ in range(MAX_RESTARTS):
            (is_busy, _, _) = self.cursor.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
            if not is_busy:
                return
            time.sleep(SHORTEST_SLEEP_SECONDS)

    def _commit(self, group: list[Operation]) -> set[str]:
        runs = _in_runs(group) if len(group) > 1 else [group]
        if len(runs) == 1:
            return self._commit_one(runs[0])
        tally: Tally = defaultdict(int)
        awakened: set[str] = set()
        for together in runs:
            transaction = self._operate(together)
            if transaction is not None:
                for name, jobs in transaction.tally.items():
                    tally[name] += jobs
                awakened |= transaction.awakened
        write_tally(self.cursor, tally)
        self.cursor.execute("COMMIT")
        return awakened

    def _commit_one(self, together: list[Operation]) -> set[str]:
        """Nobody has to be kept apart from anybody."""
        transaction = SQLiteTransaction(
            self.cursor, now=time_of(self._clock), sweeps=self._sweeps, is_late=self._is_late
        )
        _answer(together, transaction)
        write_tally(self.cursor, transaction.tally)
        self.cursor.execute("COMMIT")
        return transaction.awakened

    def _operate(self, together: list[Operation]) -> SQLiteTransaction | None:
        """One operation, or several that are served at once. None: it was refused, and left nothing."""
        self.cursor.execute("SAVEPOINT operation")
        transaction = SQLiteTransaction(
            self.cursor, now=time_of(self._clock), sweeps=self._sweeps, is_late=self._is_late
        )
        try:
            _answer(together, transaction)
        except Exception as refusal:
            if len(together) > 1 or isinstance(refusal, sqlite3.Error):
                raise
            fail(together, refusal)
            self.cursor.execute("ROLLBACK TO operation")
            self.cursor.execute("RELEASE operation")
            return None
        self.cursor.execute("RELEASE operation")
        return transaction

    def _roll_back(self) -> None:
        # Some of SQLite's errors end the transaction on their own.
        if self.connection.in_transaction:
            try:
                self.cursor.execute("ROLLBACK")
            except sqlite3.Error:
                # Already ended; a transaction that were still open would make the next BEGIN say so.
                return


def time_of(clock: Clock | None) -> int:
    """The machine's clock, unless a test has its own."""
    return time.time_ns() // 1000 if clock is None else to_microseconds(clock.now())


def _in_runs(group: list[Operation]) -> list[list[Operation]]:
    """Neighbours that one call can serve come together."""
    runs: list[list[Operation]] = []
    for operation in group:
        last = runs[-1][-1] if runs else None
        if last is not None and operation.item is not None and operation.work is last.work:
            runs[-1].append(operation)
        else:
            runs.append([operation])
    return runs


def _answer(together: list[Operation], transaction: SQLiteTransaction) -> None:
    first = together[0]
    if first.item is None:
        first.answer, first.error = first.work(transaction), None
        return
    answers = first.work(transaction, [operation.item for operation in together])
    for operation, answer in zip(together, answers, strict=True):
        operation.answer, operation.error = answer, None
