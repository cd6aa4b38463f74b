"""Connections to the file, and the lock that every writer takes.

A writer that has begun never finds the file locked again, so its wait stands in one place, ``begin``. It is a loop of
short random sleeps that never grow. SQLite's own grow to 100 ms: of four busy processes one then writes all the time,
and the others starve (4 s, commits: 968, 1, 1, 1; with ours 419, 365, 288, 276). In WAL mode a reader waits for nobody,
except for the moment in which the log is recovered after a crash; for that, SQLite's own wait is good enough.
"""

import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from holdfast.core.errors import ConfigError
from holdfast.stores.sqlite.errors import is_busy

Synchronous = Literal["FULL", "NORMAL"]
_LEVELS: Final[dict[str, Synchronous]] = {"FULL": "FULL", "NORMAL": "NORMAL"}

OLDEST_SQLITE: Final = (3, 37, 0)
"""STRICT tables; RETURNING is older."""
BUSY_SECONDS: Final = 30.0
"""How long a caller may be kept waiting by other writers before it is told."""
LONG_WAIT_SECONDS: Final = 0.25
SHORTEST_SLEEP_SECONDS: Final = 0.0001
LONGEST_SLEEP_SECONDS: Final = 0.0006
CACHE_KIBIBYTES: Final = 32 * 1024
LOG_BYTES: Final = 16 * 1024 * 1024
"""A log that is longer than this is copied into the file (pages written again and again in that time once only), and
cut back to this length when it begins again from its start. So the length says when the next checkpoint is due."""
CACHED_STATEMENTS: Final = 512


def require_supported() -> None:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        wanted = ".".join(str(part) for part in OLDEST_SQLITE)
        raise ConfigError(
            f"this Python has SQLite {sqlite3.sqlite_version}; Holdfast needs {wanted} or newer (STRICT tables)"
        )


def require_file(path: str | Path) -> Path:
    """The absolute path of a real file: what lives in memory has one connection only, and is gone with it."""
    name = str(path)
    if not name or name == "." or name.startswith((":memory:", "file:")):
        raise ConfigError(f"{name!r} is not the path of a file; for a store in memory use memory://")
    return Path(path).absolute()


def require_durability(synchronous: str) -> Synchronous:
    """OFF would lose what was acknowledged, EXTRA adds nothing in WAL mode."""
    if synchronous not in _LEVELS:
        raise ConfigError(f"synchronous is {synchronous!r}; write FULL or NORMAL")
    return _LEVELS[synchronous]


def connect(path: Path, *, synchronous: Synchronous, is_reader: bool = False) -> sqlite3.Connection:
    """A connection of one thread's own (made here, used there)."""
    connection = sqlite3.connect(
        path,
        timeout=BUSY_SECONDS if is_reader else 0.0,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=CACHED_STATEMENTS,
    )
    try:
        _set_up(connection, synchronous)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: sqlite3.Connection, synchronous: Synchronous) -> None:
    (mode,) = patiently(connection, "PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise ConfigError(f"the database stays in journal mode {mode!r}: its file system cannot share memory (WAL)")
    for pragma in (
        f"synchronous = {synchronous}",
        "foreign_keys = OFF",
        "temp_store = MEMORY",
        f"cache_size = -{CACHE_KIBIBYTES}",
        "wal_autocheckpoint = 0",  # the writer's own work: WRITER-5
        f"journal_size_limit = {LOG_BYTES}",
    ):
        patiently(connection, f"PRAGMA {pragma}")


def begin(
    connection: sqlite3.Connection | sqlite3.Cursor,
    statement: str = "BEGIN IMMEDIATE",
    *,
    on_busy: Callable[[sqlite3.Error], None] | None = None,
) -> None:
    """Begin as soon as the file lets us; sqlite3.OperationalError (busy) after BUSY_SECONDS."""
    patiently(connection, statement, on_busy=on_busy)


def patiently(
    connection: sqlite3.Connection | sqlite3.Cursor,
    statement: str,
    *,
    longest_seconds: float | None = None,
    on_busy: Callable[[sqlite3.Error], None] | None = None,
) -> sqlite3.Cursor:
    """``on_busy`` is told a few times a second that it takes longer than neighbours usually keep us waiting."""
    deadline: float | None = None
    told_at = 0.0
    while True:
        try:
            return connection.execute(statement)
        except sqlite3.OperationalError as error:
            now = time.monotonic()
            deadline, told_at = deadline or now + (longest_seconds or BUSY_SECONDS), told_at or now
            if not is_busy(error) or now >= deadline:
                raise
            if on_busy is not None and now - told_at >= LONG_WAIT_SECONDS:
                told_at = now
                on_busy(error)
        time.sleep(random.uniform(SHORTEST_SLEEP_SECONDS, LONGEST_SLEEP_SECONDS))
