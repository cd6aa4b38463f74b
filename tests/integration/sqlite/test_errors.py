"""One table says what SQLite's errors mean for the caller."""

import sqlite3

import pytest

from holdfast.core.errors import ConfigError, HoldfastError, Unavailable
from holdfast.stores.sqlite.errors import MEANINGS, meaning, translate

NO_ERRORS = {"SQLITE_OK", "SQLITE_NOTICE", "SQLITE_WARNING", "SQLITE_ROW", "SQLITE_DONE"}
PRIMARY_CODES = {
    name: getattr(sqlite3, name)
    for name in (
        *("SQLITE_ERROR", "SQLITE_INTERNAL", "SQLITE_PERM", "SQLITE_ABORT", "SQLITE_BUSY", "SQLITE_LOCKED"),
        *("SQLITE_NOMEM", "SQLITE_READONLY", "SQLITE_INTERRUPT", "SQLITE_IOERR", "SQLITE_CORRUPT", "SQLITE_NOTFOUND"),
        *("SQLITE_FULL", "SQLITE_CANTOPEN", "SQLITE_PROTOCOL", "SQLITE_EMPTY", "SQLITE_SCHEMA", "SQLITE_TOOBIG"),
        *("SQLITE_CONSTRAINT", "SQLITE_MISMATCH", "SQLITE_MISUSE", "SQLITE_NOLFS", "SQLITE_AUTH", "SQLITE_FORMAT"),
        *("SQLITE_RANGE", "SQLITE_NOTADB"),
    )
}


def test_every_primary_code_has_a_meaning() -> None:
    # SQLite numbers its errors from 1 without a gap.
    assert sorted(PRIMARY_CODES.values()) == list(range(1, len(PRIMARY_CODES) + 1))
    assert set(PRIMARY_CODES.values()) <= MEANINGS.keys()


@pytest.mark.parametrize("name", sorted(name for name in dir(sqlite3) if name.startswith("SQLITE_IOERR_")))
def test_an_extended_code_means_what_its_family_means(name: str) -> None:
    assert meaning(getattr(sqlite3, name)) == MEANINGS[sqlite3.SQLITE_IOERR]


def test_an_error_keeps_sqlites_own_words() -> None:
    with pytest.raises(sqlite3.OperationalError) as raised:
        sqlite3.connect(":memory:").execute("SELECT * FROM missing")
    error = translate(raised.value)
    assert type(error) is HoldfastError
    assert "SQLITE_ERROR: no such table: missing" in str(error)


def test_an_error_of_pythons_module_is_translated_too() -> None:
    assert type(translate(sqlite3.ProgrammingError("Cannot operate on a closed database."))) is HoldfastError


@pytest.mark.parametrize(
    ("code", "kind", "advice"),
    [
        (sqlite3.SQLITE_FULL, Unavailable, "free space"),
        (sqlite3.SQLITE_BUSY, Unavailable, "repeat the call"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, Unavailable, "BEGIN IMMEDIATE"),
        (sqlite3.SQLITE_NOTADB, ConfigError, "check the path"),
        (sqlite3.SQLITE_READONLY_DBMOVED, ConfigError, "moved or removed"),
    ],
)
def test_a_meaning_names_the_fix(code: int, kind: type[HoldfastError], advice: str) -> None:
    found, words = meaning(code)
    assert found is kind
    assert advice in words
