"""A worker that cannot start leaves nothing behind: no child process, no thread, no stream of its own. WORKER-3."""

import asyncio
import multiprocessing.spawn
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.core.errors import Unavailable
from holdfast.core.failures import Category
from holdfast.core.retry import Retry
from tests.integration.worker import process_jobs
from tests.integration.worker.awkward import Awkward, raising
from tests.integration.worker.conftest import on
from tests.integration.worker.world import PATIENCE_SECONDS, World


def children() -> set[int]:
    """The processes that this one has started, those that nobody has waited for included."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, parent = stat.read_text().rsplit(")", 1)[1].split()[:2]
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        if int(parent) == os.getpid():
            found.add(int(stat.parent.name))
    return found


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("holdfast")}


@contextmanager
def leaving_nothing() -> Iterator[None]:
    # Not a fixture: pytest changes the streams between a test and its fixtures.
    before = children(), threads(), sys.stdout, sys.stderr
    yield
    assert (children(), threads(), sys.stdout, sys.stderr) == before


@pytest.fixture
def processes(world: World) -> World:
    """With handlers for child processes."""
    for handler in process_jobs.app.registry.values():
        world.registry.add(handler)
    return world


async def test_a_worker_whose_store_is_away_leaves_nothing(processes: World) -> None:
    worker = processes.new_worker(store=Awkward(processes.store, register=raising(Unavailable("away"))))
    with leaving_nothing(), pytest.raises(Unavailable, match="away"):
        await worker.run()
    await asyncio.wait_for(worker.wait_stopped(), PATIENCE_SECONDS)


@on("sqlite", "postgres")
async def test_a_worker_that_gets_no_thread_leaves_nothing(processes: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """By then, its first child process has been started."""
    seen: list[set[int]] = []
    before = children()
    start = threading.Thread.start

    def start_others(thread: threading.Thread) -> None:
        if thread.name == "holdfast-pulse":
            seen.append(children() - before)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_others)
    worker = processes.new_worker()
    with leaving_nothing(), pytest.raises(RuntimeError, match="can't start new thread"):
        await worker.run()
    await asyncio.wait_for(worker.wait_stopped(), PATIENCE_SECONDS)
    (started,) = seen
    assert started
    assert [one for one in await processes.store.read_workers() if not one.is_lost] == []


async def test_a_worker_whose_children_cannot_be_started_says_so_and_leaves_nothing(
    processes: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(multiprocessing.spawn, "_python_exe", os.fsencode(tmp_path / "no-python"))
    job_id = await processes.submit("add", {"first": 1, "second": 2}, retry=Retry(max_attempts=1))
    with leaving_nothing():
        async with processes.worker():
            job = await processes.until(job_id)
    assert job.failure is not None
    assert job.failure.category is Category.SYSTEM
    assert "could not be started" in job.failure.message
