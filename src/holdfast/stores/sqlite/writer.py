"""The one connection of this process that writes: group commit.

How it works: operations that are queued when the writer gets to them run in one ``BEGIN IMMEDIATE … COMMIT``, one after
the other, each in a savepoint of its own; their callers are told after the commit. So ten callers at once pay for one
fsync, and a lone caller waits for nobody.

W1. An operation is answered only after the commit that holds it.
W2. An operation that is refused (HoldfastError, or any error of ours) leaves nothing, and its neighbours go on.
W3. If SQLite itself fails (disk full, I/O), the whole group is rolled back and each operation tried alone, so that one
    which cannot be written does not take the others with it.
W4. The clock is read once an operation, inside the transaction.
"""

import sqlite3
import time
from collections import Counter
from collections.abc import Callable


from holdfast.core.ports import Clock
from holdfast.stores.sqlite.connection import begin
from holdfast.stores.sqlite.errors import translate
from holdfast.stores.sqlite.lane import Lane, Operation
from holdfast.stores.sqlite.rows import to_microseconds
from holdfast.stores.sqlite.transaction import SQLiteTransaction, Sweeps, write_tally

Wake = Callable[[set[str]], None]


class Writer(Lane):
    """Runs ``work(transaction)``."""

    def __init__(self, connection: sqlite3.Connection, *, clock: Clock | None, wake: Wake) -> None:
        self._clock = clock
        self._wake = wake
        self._sweeps: Sweeps = {}
        super().__init__("holdfast-sqlite-writer", connection)

    def serve(self, group: list[Operation]) -> None:
        try:
            awakened = self._commit(group)
        except Exception as error:
            self._roll_back()
            if len(group) > 1:
                for operation in group:
                    self.serve([operation])
            else:
                group[0].error = translate(error) if isinstance(error, sqlite3.Error) else error
                group[0].error.__cause__ = error if isinstance(error, sqlite3.Error) else None
        else:
            if awakened:
                self._wake(awakened)

    def _commit(self, group: list[Operation]) -> set[str]:
        tally: Counter[tuple[str, str]] = Counter()
        awakened: set[str] = set()
        begin(self.connection)
        for operation in group:
            transaction = self._operate(operation, is_alone=len(group) == 1)
            if transaction is not None:
                tally.update(transaction.tally)
                awakened |= transaction.awakened
        write_tally(self.cursor, tally)
        self.cursor.execute("COMMIT")
        return awakened

    def _operate(self, operation: Operation, *, is_alone: bool) -> SQLiteTransaction | None:
        operation.answer = operation.error = None
        if not is_alone:
            self.cursor.execute("SAVEPOINT operation")
        transaction = SQLiteTransaction(self.cursor, now=self._now(), sweeps=self._sweeps)
        try:
            operation.answer = operation.work(transaction)
        except sqlite3.Error:
            raise
        except Exception as refusal:
            if is_alone:
                raise
            operation.error = refusal
            self.cursor.execute("ROLLBACK TO operation")
        if not is_alone:
            self.cursor.execute("RELEASE operation")
        return transaction if operation.error is None else None

    def _now(self) -> int:
        return time.time_ns() // 1000 if self._clock is None else to_microseconds(self._clock.now())

    def _roll_back(self) -> None:
        # Some of SQLite's errors end the transaction on their own.
        if self.connection.in_transaction:
            try:
                self.cursor.execute("ROLLBACK")
            except sqlite3.Error:
                # Already ended; a transaction that were still open would make the next BEGIN say so.
                return


