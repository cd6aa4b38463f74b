"""The file's tables: made when it is opened, by whoever opens it first.

``migrations/NNNN_name.sql`` are applied in order, all that are missing in one transaction under the write lock, so
any number of processes may open a new file at once. The version stands in a table of its own, not in
``PRAGMA user_version``: the file may be the caller's own database, and that number the caller's.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from holdfast.core.errors import SchemaMismatch, SchemaMissing
from holdfast.stores.migrations import Migration, Schema, migrations_of, newest
from holdfast.stores.sqlite.connection import patiently
from holdfast.stores.sqlite.errors import is_busy
from holdfast.stores.sqlite.statements import SQL, fill

LOCKED_SECONDS: Final = 5.0
"""Others who make the tables at the same moment are done sooner. Whoever takes longer holds a transaction open: perhaps
our caller itself, who would wait for us for ever."""


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Beside programs at work: what is added holds them up for as long as it takes to write it down."""
    found, own = _found(connection), newest(_migrations())
    if found.number < own.number:
        _migrate(connection, path)
        found = _found(connection)  # of somebody else, who may have been first
    if not found.suits(own.number):
        raise _too_new(path, found, own)


def require_current(path: Path) -> None:
    """For whoever must not change the file: SchemaMissing or SchemaMismatch say what to run."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        found, own = _found(connection), newest(_migrations())
    finally:
        connection.close()
    if found.suits(own.number):
        return
    advice = f"run: holdfast migrate --url sqlite:///{path}"
    if not found.number:
        raise SchemaMissing(f"{path} has no tables of Holdfast's; {advice}")
    if found.number > own.number:
        raise _too_new(path, found, own)
    raise SchemaMismatch(f"{path} has schema {found.number}, this program speaks {own.number}; {advice}")


def _too_new(path: Path, found: Schema, own: Schema) -> SchemaMismatch:
    return SchemaMismatch(
        f"{path} has schema {found.number} of a newer Holdfast, this program speaks {own.number}; upgrade Holdfast"
    )


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    try:
        patiently(connection, "BEGIN IMMEDIATE", longest_seconds=LOCKED_SECONDS)
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
        raise SchemaMissing(
            f"{path} has no tables of this version yet, and another connection keeps it locked; end that transaction, "
            f"or run beforehand: holdfast migrate --url sqlite:///{path}"
        ) from error
    try:
        # Read again: another process may have been first.
        found = _found(connection)
        missing = [migration for migration in _migrations() if migration.number > found.number]
        for migration in missing:
            for statement in _statements(fill(migration.text)):
                connection.execute(statement)
        if missing:
            _note(connection, newest(missing))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _note(connection: sqlite3.Connection, reached: Schema) -> None:
    connection.execute(SQL["migrate.make_version"])
    if connection.execute(SQL["migrate.is_extended"]).fetchone() is None:
        connection.execute(SQL["migrate.extend_version"])
    connection.execute(SQL["migrate.forget_version"])
    connection.execute(SQL["migrate.next_version"], (reached.number, reached.compatible_since))


def _found(connection: sqlite3.Connection) -> Schema:
    """A file that does not say which programs go on beside it takes those of its own number."""
    exists = patiently(connection, SQL["migrate.has_version"]).fetchone()
    if exists is None:
        return Schema(0, 0)
    row = patiently(connection, SQL["migrate.version"]).fetchone()
    number, *since = row or (0,)
    return Schema(number, number if since in ([], [None]) else since[0])


def _migrations() -> tuple[Migration, ...]:
    assert __package__ is not None
    return migrations_of(__package__)


def _statements(text: str) -> Iterator[str]:
    """``executescript`` would commit first."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
