"""Opening a file: its tables are made, an unfit one is refused with the fix."""

import asyncio
import os
import pwd
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.core.errors import ConfigError, SchemaMismatch, UsageError
from holdfast.core.states import State
from holdfast.stores.sqlite import SQLiteStore, migrate
from holdfast.testing.factories import read_state, submit_one
from tests.integration.sqlite.conftest import OpenStore


async def refusal(path: Path) -> ConfigError:
    store = SQLiteStore(path)
    with pytest.raises(ConfigError) as refused:
        await store.open()
    return refused.value


async def test_a_file_of_a_newer_holdfast_is_refused(path: Path, store: SQLiteStore) -> None:
    await store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE holdfast_meta SET version = 99, compatible_since = 98")
    error = await refusal(path)
    assert isinstance(error, SchemaMismatch)
    assert "upgrade Holdfast" in str(error)


async def test_a_newer_file_takes_programs_that_it_is_compatible_with(path: Path, store: SQLiteStore) -> None:
    await store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE holdfast_meta SET version = 99, compatible_since = ?", (len(migrate._migrations()),))
    for migrates in (True, False):
        store = SQLiteStore(path, migrates=migrates)
        await store.open()
        await submit_one(store)
        await store.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT version FROM holdfast_meta").fetchall() == [(99,)]


async def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    content = b"Dear diary, " * 1000
    path.write_bytes(content)
    assert "not an SQLite database" in str(await refusal(path))
    assert path.read_bytes() == content


async def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    assert "folder exists" in str(await refusal(tmp_path / "nowhere" / "jobs.db"))


def test_a_file_that_may_not_be_written_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:  # not pytest's, where nobody but its user may look
        Path(folder).chmod(0o755)
        path = Path(folder) / "jobs.db"
        assert _opened_without_rights(path.parent / "new.db").startswith("ConfigError: ")
        asyncio.run(_make(path))
        path.chmod(0o444)
        written = _opened_without_rights(path)
    assert written.startswith("ConfigError: ")
    assert "rights" in written


async def _make(path: Path) -> None:
    store = SQLiteStore(path)
    await store.open()
    await store.close()


def _opened_without_rights(path: Path) -> str:
    """The error that a process of its own meets; root may write everywhere, so it is nobody."""
    nobody = pwd.getpwnam("nobody")
    drop_rights = f"os.setgroups([]); os.setgid({nobody.pw_gid}); os.setuid({nobody.pw_uid})"
    program = f"""
import asyncio, concurrent.futures.thread, os  # imported while it may still read them
from holdfast.core.errors import HoldfastError
from holdfast.stores.sqlite import SQLiteStore, migrate
store = SQLiteStore({str(path)!r})
migrate._migrations()
{drop_rights if os.geteuid() == 0 else ""}
try:
    asyncio.run(store.open())
except HoldfastError as error:
    print(f"{{type(error).__name__}}: {{error}}")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("path", ["", ":memory:", "file:jobs.db?mode=memory"])
def test_memory_is_no_file(path: str) -> None:
    with pytest.raises(ConfigError, match="memory://"):
        SQLiteStore(path)


def test_an_old_sqlite_is_named(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    with pytest.raises(ConfigError, match=r"3\.37\.0 or newer"):
        SQLiteStore(path)


async def test_a_database_with_tables_of_its_own_can_be_used(path: Path, open_store: OpenStore) -> None:
    """Our tables share the file with the caller's: names and version are prefixed, the caller's stay as they are."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE job (title TEXT)")
        connection.execute("INSERT INTO job VALUES ('carpenter')")
        connection.execute("PRAGMA user_version = 42")
    await submit_one(await open_store())
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT title FROM job").fetchall() == [("carpenter",)]
        assert connection.execute("PRAGMA user_version").fetchone() == (42,)
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert all(name.startswith("holdfast_") for name in names if name not in ("job", "sqlite_sequence"))


async def test_a_migration_that_fails_leaves_the_file_as_it_was(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE holdfast_tally (mine)")
    store = SQLiteStore(path)
    with pytest.raises(Exception, match="holdfast_tally already exists"):
        await store.open()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("holdfast_tally",)]


async def test_opening_and_closing_twice_is_harmless(path: Path, store: SQLiteStore) -> None:
    await store.open()
    await store.close()
    await store.close()
    await store.open()
    assert await read_state(store, await submit_one(store)) is State.SCHEDULED


async def test_a_closed_store_says_so(path: Path) -> None:
    with pytest.raises(UsageError, match="not open"):
        await SQLiteStore(path).read_queues()


@pytest.mark.parametrize(("synchronous", "value"), [("FULL", 2), ("NORMAL", 1)])
async def test_durability_is_a_setting(open_store: OpenStore, synchronous: str, value: int) -> None:
    store = await open_store(synchronous=synchronous)

    def setting(cursor: sqlite3.Cursor) -> tuple[str, int]:
        (mode,) = cursor.execute("PRAGMA journal_mode").fetchone()
        (level,) = cursor.execute("PRAGMA synchronous").fetchone()
        return mode, level

    assert await store._write(lambda tx: setting(tx.cursor)) == ("wal", value)


async def test_an_unknown_durability_is_refused(path: Path) -> None:
    with pytest.raises(ConfigError, match="FULL or NORMAL"):
        SQLiteStore(path, synchronous="OFF")  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
async def test_a_forked_child_is_told_to_open_its_own(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads and locks do not survive a fork: without the check, the child would wait for ever."""
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(UsageError, match="forked"):
        await submit_one(store)
