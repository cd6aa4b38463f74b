"""The file's tables: made when it is opened, by whoever opens it first.

``migrations/NNNN_name.sql`` are applied in order, all that are missing in one transaction under the write lock, so
any number of processes may open a new file at once. The version stands in a table of its own, not in
``PRAGMA user_version``: the file may be the caller's own database, and that number the caller's.
"""

import sqlite3
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from holdfast.core.errors import SchemaMismatch, SchemaMissing
from holdfast.stores.sqlite.connection import patiently
from holdfast.stores.sqlite.errors import is_busy
from holdfast.stores.sqlite.statements import fill, sql_files

LOCKED_SECONDS: Final = 5.0
"""Others who make the tables at the same moment are done sooner. Whoever takes longer holds a transaction open: perhaps
our caller itself, who would wait for us for ever."""
_VERSION_TABLE: Final = "CREATE TABLE IF NOT EXISTS holdfast_meta (version INTEGER NOT NULL) STRICT"


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    version = _version(connection)
    latest = len(_migrations())
    if version > latest:
        raise SchemaMismatch(
            f"{path} was written by a newer Holdfast (schema {version}, this one knows {latest}); upgrade Holdfast"
        )
    if version < latest:
        _migrate(connection, path)


def require_current(path: Path) -> None:
    """For whoever must not change the file: SchemaMissing or SchemaMismatch say what to run."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        version, latest = _version(connection), len(_migrations())
    finally:
        connection.close()
    if version == latest:
        return
    if version == 0:
        raise SchemaMissing(f"{path} has no tables of Holdfast's; run: holdfast migrate --url sqlite:///{path}")
    advice = "upgrade Holdfast" if version > latest else f"run: holdfast migrate --url sqlite:///{path}"
    raise SchemaMismatch(f"{path} has schema {version}, this program speaks {latest}; {advice}")


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
        version = _version(connection)
        for text in _migrations()[version:]:
            for statement in _statements(text):
                connection.execute(statement)
        connection.execute(_VERSION_TABLE)
        connection.execute("DELETE FROM holdfast_meta")
        connection.execute("INSERT INTO holdfast_meta (version) VALUES (?)", (max(version, len(_migrations())),))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    exists = patiently(connection, "SELECT 1 FROM sqlite_master WHERE name = 'holdfast_meta'").fetchone()
    if exists is None:
        return 0
    (version,) = patiently(connection, "SELECT max(version) FROM holdfast_meta").fetchone()
    return int(version or 0)


@cache
def _migrations() -> tuple[str, ...]:
    return tuple(fill(file.read_text(encoding="utf-8")) for file in sql_files("migrations"))


def _statements(text: str) -> Iterator[str]:
    """``executescript`` would commit first."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
