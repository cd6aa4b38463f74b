"""submit inside the caller's own transaction, on the caller's own connection.

Nothing is accepted before the caller commits, and nothing stays if the caller rolls back. A savepoint keeps a refused
submit from leaving a part of itself in that transaction.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.core.commands import Submit, SubmitAnswer
from holdfast.core.errors import HoldfastError, UsageError
from holdfast.core.ports import Clock
from holdfast.stores.sqlite.errors import translated
from holdfast.stores.sqlite.submit import submit
from holdfast.stores.sqlite.transaction import SQLiteTransaction
from holdfast.stores.sqlite.writer import time_of


def submit_in(connection: Any, submits: Sequence[Submit], *, path: Path, clock: Clock | None) -> list[SubmitAnswer]:
    """Raises where submit would have answered with an error: the caller's transaction is one thing."""
    if not isinstance(connection, sqlite3.Connection):
        raise UsageError(f"connection= is a {type(connection).__name__}; an SQLite store takes a sqlite3.Connection")
    with translated(), _plain_rows(connection) as cursor:
        _require_same_file(cursor, path)
        _begin(connection, cursor)
        cursor.execute("SAVEPOINT holdfast_submit")
        try:
            tx = SQLiteTransaction(cursor, now=time_of(clock))
            answers = submit(tx, submits)
            for answer in answers:
                if isinstance(answer, HoldfastError):
                    raise answer
            tx.write_tally()
        except BaseException:
            if connection.in_transaction:
                cursor.execute("ROLLBACK TO holdfast_submit")
                cursor.execute("RELEASE holdfast_submit")
            raise
        cursor.execute("RELEASE holdfast_submit")
    return answers


@contextmanager
def _plain_rows(connection: sqlite3.Connection) -> Iterator[sqlite3.Cursor]:
    """A cursor that reads as ours do, whatever factories the caller has set."""
    text_factory = connection.text_factory
    try:
        cursor = connection.cursor()
    except sqlite3.ProgrammingError as error:
        # Closed, or made by another thread.
        raise UsageError(f"connection= cannot be used here: {error}") from error
    cursor.row_factory = None
    connection.text_factory = str
    try:
        yield cursor
    finally:
        connection.text_factory = text_factory
        cursor.close()


def _require_same_file(cursor: sqlite3.Cursor, path: Path) -> None:
    files = {name: file for _, name, file in cursor.execute("PRAGMA database_list")}
    given = files["main"]
    if not given or not Path(given).samefile(path):
        raise UsageError(f"connection= is open on {given or 'memory'}, the store on {path}; both must be one file")


def _begin(connection: sqlite3.Connection, cursor: sqlite3.Cursor) -> None:
    """As sqlite3 does before an INSERT, where the caller left that to it."""
    if connection.in_transaction:
        return
    # ``autocommit`` is known from Python 3.12 on; True there means what isolation_level None means everywhere.
    if connection.isolation_level is None or getattr(connection, "autocommit", None) is True:
        raise UsageError("connection= is in autocommit mode and has no open transaction: BEGIN first, then submit")
    cursor.execute(f"BEGIN {connection.isolation_level}")
