"""Backup and restore as ``docs/how-to/sqlite.md`` says."""

import asyncio
import contextlib
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.core.errors import ConfigError
from holdfast.core.states import State
from holdfast.stores.sqlite import SQLiteStore
from holdfast.testing.factories import read_counts, submit_one
from tests.integration.sqlite.conftest import OpenStore
from tests.integration.sqlite.processes import start

Backup = Callable[[Path, Path], None]


def by_api(path: Path, copy: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as source, contextlib.closing(sqlite3.connect(copy)) as target:
        source.backup(target)


def by_vacuum(path: Path, copy: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as source:
        source.execute("VACUUM INTO ?", (str(copy),))


def move_away(path: Path) -> Path:
    old = path.with_name("old")
    old.mkdir()
    for file in path.parent.glob("jobs.db*"):
        file.rename(old / file.name)
    return old


async def scheduled(path: Path) -> int:
    """How many jobs a store finds in a file that is sound."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    store = SQLiteStore(path)
    await store.open()
    try:
        await submit_one(store)
        return (await read_counts(store))[State.SCHEDULED] - 1
    finally:
        await store.close()


@pytest.mark.parametrize("backup", [by_api, by_vacuum])
async def test_a_backup_can_be_made_while_processes_write(path: Path, tmp_path: Path, backup: Backup) -> None:
    other = start("submit_forever", path)
    try:
        assert other.stdout is not None
        for _ in range(50):
            other.stdout.readline()
        await asyncio.to_thread(backup, path, tmp_path / "backup.db")
    finally:
        other.kill()
        other.communicate()
    assert await scheduled(tmp_path / "backup.db") >= 50


async def test_a_backup_is_restored_after_a_crash_that_left_a_log(path: Path, tmp_path: Path) -> None:
    other = start("submit_forever", path)
    assert other.stdout is not None
    for _ in range(10):
        other.stdout.readline()
    by_api(path, tmp_path / "backup.db")
    other.kill()
    other.communicate()
    assert Path(f"{path}-wal").stat().st_size > 0
    move_away(path)
    shutil.copy(tmp_path / "backup.db", path)
    assert await scheduled(path) >= 10


async def test_a_restore_under_an_open_store_is_noticed_and_damages_nothing(
    path: Path, tmp_path: Path, open_store: OpenStore
) -> None:
    store = await open_store()
    await submit_one(store)
    by_api(path, tmp_path / "backup.db")
    await submit_one(store)
    move_away(path)
    shutil.copy(tmp_path / "backup.db", path)
    with pytest.raises(ConfigError, match="was replaced by another file while it was open"):
        await submit_one(store)
    with pytest.raises(ConfigError, match="was replaced by another file while it was open"):
        await read_counts(store)
    await store.close()
    assert await scheduled(path) == 1
