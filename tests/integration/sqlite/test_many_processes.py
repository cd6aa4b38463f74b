"""Any number of processes on one file."""

import asyncio
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.core.errors import Unavailable
from holdfast.core.states import State
from holdfast.stores.sqlite import SQLiteStore, connection
from holdfast.testing.factories import new_job, read_counts, submit_jobs, submit_one
from holdfast.testing.invariants import require_consistent
from tests.integration.sqlite.conftest import OpenStore
from tests.integration.sqlite.processes import finish, ids, start


async def test_processes_share_the_work_and_every_job_is_done_once(path: Path, open_store: OpenStore) -> None:
    """PORT-1, PORT-6; none of them is ever told that the database is locked."""
    submitters = [start("submit", path, 100) for _ in range(3)]
    workers = [start("work", path, 3 * 300) for _ in range(3)]
    accepted = [job_id for process in submitters for job_id in ids(finish(process))]
    done = [job_id for process in workers for job_id in ids(finish(process))]
    store = await open_store()
    assert len(accepted) == 900
    assert sorted(done) == sorted(accepted)
    assert await read_counts(store) == {State.COMPLETED: 900}
    await require_consistent(store)


async def test_what_was_acknowledged_survives_a_kill(path: Path, open_store: OpenStore) -> None:
    """PORT-1: a submit is durable when it returns, whatever happens to its process then."""
    store = await open_store()
    acknowledged = set()
    for _ in range(3):
        process = start("submit_forever", path)
        lines = [_line(process) for _ in range(100)]
        process.kill()
        output, _ = process.communicate()
        lines += [line for line in output.splitlines(keepends=True) if line.endswith("\n")]
        acknowledged.update(ids([line.strip() for line in lines]))
    found = await store.read(list(acknowledged))
    assert len(acknowledged) >= 300
    assert all(job is not None and job.state is State.SCHEDULED for job in found)
    await require_consistent(store)
    await submit_one(store)


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()
    return line


async def test_a_new_file_may_be_opened_by_many_processes_at_once(path: Path, open_store: OpenStore) -> None:
    processes = [start("opened", path) for _ in range(6)]
    accepted = [job_id for process in processes for job_id in ids(finish(process))]
    store = await open_store()
    assert None not in await store.read(accepted)
    assert await read_counts(store) == {State.SCHEDULED: 6}


async def test_a_write_waits_for_another_connection_that_writes(path: Path, store: SQLiteStore) -> None:
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        task = asyncio.ensure_future(submit_one(store))
        done, _ = await asyncio.wait({task}, timeout=0.2)
        assert not done
        other.execute("COMMIT")
        assert await task is not None


async def test_a_lock_that_is_never_let_go_is_told_as_unavailable(
    path: Path, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PORT-4: nothing was written, and the same call succeeds later."""
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.1)
    job = new_job()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        started = time.monotonic()
        with pytest.raises(Unavailable, match="locked"):
            await submit_jobs(store, job)
        assert time.monotonic() - started < 10
        other.execute("ROLLBACK")
    assert await store.read([job.id]) == [None]
    await submit_jobs(store, job)
    assert await read_counts(store) == {State.SCHEDULED: 1}


async def test_a_reader_waits_for_no_writer(path: Path, store: SQLiteStore) -> None:
    job_id = await submit_one(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("DELETE FROM holdfast_job")
        (job,) = await store.read([job_id])
        assert job is not None
        other.execute("ROLLBACK")


async def test_a_read_sees_what_any_store_committed_before_it_was_asked(open_store: OpenStore) -> None:
    stores = [await open_store() for _ in range(3)]
    for _ in range(20):
        for writer in stores:
            job_id = await submit_one(writer)
            for reader in stores:
                (job,) = await reader.read([job_id])
                assert job is not None
