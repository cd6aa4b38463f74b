"""SQLite's errors, and what they mean for the caller: one table, by primary result code.

An extended code (SQLITE_IOERR_FSYNC) is looked up whole, then by its low byte (SQLITE_IOERR).
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from holdfast.core.errors import ConfigError, HoldfastError, Unavailable, UsageError

_BUG: Final = (HoldfastError, "SQLite refused a statement of Holdfast's own; please report this")
_DAMAGED: Final = (ConfigError, "the database file is damaged; restore it from a backup, or run sqlite3's .recover")
_RIGHTS: Final = (ConfigError, "the database may not be written; check the rights of the file and of its folder")

MEANINGS: Final[dict[int, tuple[type[HoldfastError], str]]] = {
    sqlite3.SQLITE_ERROR: _BUG,
    sqlite3.SQLITE_INTERNAL: _BUG,
    sqlite3.SQLITE_PERM: _RIGHTS,
    sqlite3.SQLITE_ABORT: (Unavailable, "SQLite ended the statement; repeat the call"),
    sqlite3.SQLITE_BUSY: (
        Unavailable,
        "another connection keeps the database locked; end its open transaction, then repeat the call",
    ),
    sqlite3.SQLITE_LOCKED: (Unavailable, "another statement keeps a table locked; repeat the call"),
    sqlite3.SQLITE_NOMEM: (Unavailable, "SQLite is out of memory; free some and repeat the call"),
    sqlite3.SQLITE_READONLY: _RIGHTS,
    sqlite3.SQLITE_INTERRUPT: (Unavailable, "the statement was interrupted; repeat the call"),
    sqlite3.SQLITE_IOERR: (Unavailable, "the disk refused to read or write; check it, then repeat the call"),
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTFOUND: _BUG,
    sqlite3.SQLITE_FULL: (
        Unavailable,
        "the disk is full and nothing was written; free space where the database file lies, then repeat the call",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        ConfigError,
        "the database file cannot be opened; check that its folder exists and may be written",
    ),
    sqlite3.SQLITE_PROTOCOL: (Unavailable, "SQLite could not get its file locks; repeat the call"),
    sqlite3.SQLITE_EMPTY: _BUG,
    sqlite3.SQLITE_SCHEMA: (Unavailable, "the tables were changed at the same time; repeat the call"),
    sqlite3.SQLITE_TOOBIG: (UsageError, "a value is larger than SQLite can store; keep it elsewhere, pass a reference"),
    sqlite3.SQLITE_CONSTRAINT: _BUG,
    sqlite3.SQLITE_MISMATCH: _BUG,
    sqlite3.SQLITE_MISUSE: _BUG,
    sqlite3.SQLITE_NOLFS: (ConfigError, "the file system cannot hold a file this large; move the database"),
    sqlite3.SQLITE_AUTH: _RIGHTS,
    sqlite3.SQLITE_FORMAT: _DAMAGED,
    sqlite3.SQLITE_RANGE: _BUG,
    sqlite3.SQLITE_NOTADB: (ConfigError, "the file is not an SQLite database; check the path"),
    # extended codes that mean something else than their family
    sqlite3.SQLITE_BUSY_SNAPSHOT: (
        Unavailable,
        "your transaction has read before somebody else wrote; roll it back and begin it with BEGIN IMMEDIATE",
    ),
    sqlite3.SQLITE_READONLY_DBMOVED: (ConfigError, "the database file was moved or removed while it was open"),
}

_PRIMARY: Final = 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """Somebody else is at work in the file; trying again may succeed."""
    code = _code(error) & _PRIMARY
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


def translate(error: sqlite3.Error) -> HoldfastError:
    kind, advice = meaning(_code(error))
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return kind(f"{advice} ({name}: {error})")


def meaning(code: int) -> tuple[type[HoldfastError], str]:
    return MEANINGS.get(code) or MEANINGS.get(code & _PRIMARY) or _BUG


def _code(error: sqlite3.Error) -> int:
    # Errors of Python's module itself (a closed connection, a wrong number of values) carry none.
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE)
    return code


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error) from error
