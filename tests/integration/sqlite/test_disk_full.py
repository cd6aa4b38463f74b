"""A disk that is full: nothing is half written, the caller is told what to do, and afterwards everything goes on.

As root on a small tmpfs of the test's own; otherwise under a limit on the size of files, which the system reports as an
I/O error. Both run in a process of their own, because neither can be had for one store only.
"""

import asyncio
import ctypes
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.errors import HoldfastError, Unavailable
from holdfast.core.payload import Payload
from holdfast.core.states import State
from holdfast.stores.sqlite import SQLiteStore
from holdfast.testing.factories import (
    claim,
    new_job,
    read_all,
    read_counts,
    register,
    settle,
    submit_answer,
    submit_one,
)
from holdfast.testing.invariants import require_consistent

ROOT = Path(__file__).parents[3]
DISK_BYTES = 4_000_000
LARGE = Payload.of_bytes(bytes(100_000))
FILL_JOBS = 200


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with little space; skips where it may not be made."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder = tmp_path / "disk"
    folder.mkdir()
    options = f"size={DISK_BYTES}".encode()
    if os.geteuid() != 0 or libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, options) != 0:
        pytest.skip("only root may mount a tmpfs; the limit on file sizes is tested instead")
    yield folder
    libc.umount2(os.fsencode(folder), 2)


async def test_a_full_disk_is_told_and_survived(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(DISK_BYTES // 2))
    store = SQLiteStore(small_disk / "jobs.db")
    await store.open()
    error = await fill(store)
    assert isinstance(error, Unavailable)
    assert "free space" in str(error)
    await require_whole(store)
    ballast.unlink()
    await go_on(store)
    await store.close()


def test_a_limit_on_file_sizes_is_told_and_survived(path: Path) -> None:
    command = [sys.executable, "-m", __name__, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 0, done.stderr


async def fill(store: SQLiteStore) -> HoldfastError:
    """Submit until there is no space left, several at once, so that one commit carries some that still fit."""
    for _ in range(FILL_JOBS):
        submits = (submit_answer(store, new_job(payload=payload)) for payload in (LARGE, Payload.of(1), LARGE))
        answers = await asyncio.gather(*submits, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, HoldfastError):
                return answer
    raise AssertionError("the disk is larger than it should be")


async def require_whole(store: SQLiteStore) -> None:
    """What was accepted is there and whole; what was refused has left nothing."""
    await require_consistent(store)
    jobs = await read_all(store)
    assert await read_counts(store) == {State.SCHEDULED: len(jobs)}
    (check,) = await store._read(lambda cursor: cursor.execute("PRAGMA integrity_check").fetchone())
    assert check == "ok"


async def go_on(store: SQLiteStore) -> None:
    accepted = await submit_one(store, queue="after")
    worker = await register(store)
    (job,) = await claim(store, worker, queues=("after",))
    assert job.id == accepted
    assert await settle(store, job) is State.COMPLETED
    await require_consistent(store)


async def main(path: str) -> None:
    store = SQLiteStore(path)
    await store.open()
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (DISK_BYTES, hard))
    assert isinstance(await fill(store), Unavailable)
    await require_whole(store)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await go_on(store)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
