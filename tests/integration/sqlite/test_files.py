"""A database file that is deleted, moved or replaced while it is open: noticed, refused, and nothing else is harmed."""

import asyncio
import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.core.commands import Heartbeat, Submit
from holdfast.core.errors import ConfigError
from holdfast.core.states import State
from holdfast.stores.sqlite import SQLiteStore
from holdfast.stores.sqlite.files import LOOKS_AN_INDEX
from holdfast.testing.factories import (
    claim,
    new_job,
    read_counts,
    read_one,
    register,
    submit_jobs,
    submit_one,
)

DELETED = r"jobs\.db was deleted or moved while it was open; stop all processes"
REPLACED = r"jobs\.db was replaced by another file while it was open; stop all processes"
LOSER = """
import asyncio, sys
from holdfast.core.errors import ConfigError
from holdfast.stores.sqlite import SQLiteStore
from holdfast.testing.factories import submit_one


async def main() -> None:
    store = SQLiteStore(sys.argv[1])
    await store.open()
    await submit_one(store)
    print("open", flush=True)
    sys.stdin.readline()
    if sys.argv[2] == "closes":
        await store.close()
    else:
        try:
            await submit_one(store)
        except ConfigError:
            return


asyncio.run(main())
"""
"""Its files are gone when it goes on."""


def remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()


def move(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").rename(f"{path}.away{suffix}")


def move_folder(path: Path) -> None:
    path.parent.rename(f"{path.parent}.away")


def replace(path: Path) -> None:
    other = path.with_name("other.db")
    with contextlib.closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.commit()
    other.rename(path)


async def reads(store: SQLiteStore) -> None:
    await read_counts(store)


async def submits(store: SQLiteStore) -> None:
    await submit_one(store)


async def submits_many(store: SQLiteStore) -> None:
    await submit_jobs(store, *(new_job() for _ in range(100)))


async def beats(store: SQLiteStore) -> None:
    await store.heartbeat(Heartbeat(worker=uuid4(), held=(), claiming=frozenset()))


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Path]:
    folder = tmp_path / "data"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def store(folder: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(folder / "jobs.db")
    await store.open()
    await register(store)
    yield store
    await store.close()


@pytest.mark.parametrize("asks", [submits, submits_many, beats, reads])
@pytest.mark.parametrize(
    ("does", "said"), [(remove, DELETED), (move, DELETED), (move_folder, DELETED), (replace, REPLACED)]
)
async def test_what_is_asked_of_a_file_that_is_gone_is_refused(
    store: SQLiteStore, does: Callable[[Path], None], said: str, asks: Callable[[SQLiteStore], object]
) -> None:
    await submit_one(store)
    does(store.path)
    for _ in range(2):
        with pytest.raises(ConfigError, match=said):
            await asks(store)  # type: ignore[misc]


async def test_a_claim_of_a_file_that_is_gone_is_refused(store: SQLiteStore) -> None:
    worker = await register(store)
    await submit_one(store)
    remove(store.path)
    with pytest.raises(ConfigError, match=DELETED):
        await claim(store, worker)


async def test_a_submit_in_the_callers_transaction_is_refused_too(store: SQLiteStore) -> None:
    with contextlib.closing(sqlite3.connect(store.path)) as connection:
        remove(store.path)
        with pytest.raises(ConfigError, match=DELETED):
            await store.submit([Submit(jobs=(new_job(),))], connection=connection)


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
async def test_a_companion_that_is_gone_is_noticed(store: SQLiteStore, suffix: str) -> None:
    await submit_one(store)
    Path(f"{store.path}{suffix}").unlink()
    answers = await asyncio.gather(*(submits_many(store) for _ in range(LOOKS_AN_INDEX)), return_exceptions=True)
    for _ in range(LOOKS_AN_INDEX):
        answers += await asyncio.gather(submits(store), return_exceptions=True)
    assert f"jobs.db{suffix} was deleted or moved" in str(answers[-1])


async def test_after_the_first_refusal_nothing_more_is_written(store: SQLiteStore) -> None:
    move(store.path)
    with pytest.raises(ConfigError):
        await submit_one(store)
    before = Path(f"{store.path}.away-wal").stat().st_mtime_ns
    with pytest.raises(ConfigError):
        await submits_many(store)
    assert Path(f"{store.path}.away-wal").stat().st_mtime_ns == before


async def test_a_store_opened_again_uses_the_file_that_is_there_now(store: SQLiteStore) -> None:
    await submit_one(store)
    remove(store.path)
    with pytest.raises(ConfigError):
        await submit_one(store)
    await store.close()
    await store.open()
    job_id = await submit_one(store)
    assert (await read_one(store, job_id)).state is State.SCHEDULED
    assert await read_counts(store) == {State.SCHEDULED: 1}


@pytest.mark.parametrize("how", ["closes", "ends without closing"])
def test_a_process_that_lost_its_files_does_not_delete_the_new_ones_log(folder: Path, how: str) -> None:
    """SQLite's last connection to a file deletes the log by its name."""
    path = folder / "jobs.db"
    command = [sys.executable, "-c", LOSER, str(path), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as loser:
        assert loser.stdout is not None
        assert loser.stdout.readline() == "open\n"
        remove(path)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE kept (x)")
            loser.communicate("go on\n", timeout=60)
            assert loser.returncode == 0
            assert Path(f"{path}-wal").exists()


async def test_a_folder_that_may_no_longer_be_looked_into_is_no_reason_to_refuse(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> os.stat_result:
        raise PermissionError(13, "Permission denied", name)

    monkeypatch.setattr("holdfast.stores.sqlite.files.os.stat", refuse)
    await asyncio.wait_for(submit_one(store), 10)
    monkeypatch.undo()


async def test_a_link_that_is_turned_to_another_file_is_noticed(folder: Path) -> None:
    (folder / "one.db").touch()
    (folder / "jobs.db").symlink_to(folder / "one.db")
    store = SQLiteStore(folder / "jobs.db")
    await store.open()
    await submit_one(store)
    (folder / "jobs.db").unlink()
    (folder / "jobs.db").symlink_to(folder / "two.db")
    (folder / "two.db").touch()
    with pytest.raises(ConfigError, match=REPLACED):
        await submit_one(store)
    await store.close()
