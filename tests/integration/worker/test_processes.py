"""Handlers in child processes, through the whole worker (EXECUTOR-2): a child's death is one job's SYSTEM failure."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from holdfast.core.dependencies import Dependency, DependencyKind
from holdfast.core.failures import Category
from holdfast.core.job import Timeouts
from holdfast.core.retry import Retry
from holdfast.core.states import State
from tests.integration.worker import process_jobs
from tests.integration.worker.world import PATIENCE_SECONDS, World


@pytest.fixture
def processes(world: World) -> World:
    for handler in process_jobs.app.registry.values():
        world.registry.add(handler)
    return world


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


async def pid_in(path: Path) -> int:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not path.exists() or not path.read_text():
            await asyncio.sleep(0.01)
    return int(path.read_text())


async def test_it_runs_elsewhere_and_its_result_comes_back(processes: World) -> None:
    first = await processes.submit("add", {"first": 1, "second": 2})
    second = await processes.submit(
        "say_who", dependencies=(Dependency(job_id=first, kind=DependencyKind.CHAIN),), timeouts=Timeouts(execution=60)
    )
    async with processes.worker():
        job = await processes.until(second)
    assert job.result is not None
    said = msgspec.json.decode(job.result)
    assert said["pid"] != os.getpid()
    assert (said["attempt"], said["results"]) == (1, [3])
    assert job.progress is not None
    assert job.progress.percent == 40


@pytest.mark.parametrize(("ask", "state"), [("timeout", State.DEAD_LETTER), ("cancel", State.CANCELLED)])
async def test_it_is_killed_at_its_timeout_and_when_it_is_cancelled(
    processes: World, tmp_path: Path, ask: str, state: State
) -> None:
    path = tmp_path / "pid"
    seconds = 2.0 if ask == "timeout" else 3600.0
    warm = await processes.submit("add", {"first": 1, "second": 1})
    job_id = await processes.submit(
        "loop_for_ever", {"path": str(path)}, timeouts=Timeouts(execution=seconds), retry=Retry(max_attempts=1)
    )
    async with processes.worker(concurrency=1):
        # The child's start counts, too: it is there already when the job's time begins.
        await processes.until(warm)
        pid = await pid_in(path)
        if ask == "cancel":
            await processes.store.cancel([job_id])
        job = await processes.until(job_id)
        assert not is_alive(pid)
        # And a new child takes its place.
        assert (await processes.until(await processes.submit("add", {"first": 1, "second": 1}))).result == b"2"
    assert job.state is state
    if ask == "timeout":
        assert job.failure is not None
        assert job.failure.category is Category.TIMEOUT


@pytest.mark.parametrize(("how", "words"), [("exit", "code 3"), ("segfault", "SIGSEGV")])
async def test_a_child_that_dies_fails_its_own_job_only(processes: World, how: str, words: str) -> None:
    bad = await processes.submit("crash", {"how": how}, retry=Retry(max_attempts=1))
    good = await processes.submit("add", {"first": 2, "second": 3})
    async with processes.worker(concurrency=1):
        job = await processes.until(bad)
        assert (await processes.until(good)).result == b"5"
    assert job.state is State.DEAD_LETTER
    assert job.failure is not None
    assert job.failure.category is Category.SYSTEM
    assert words in job.failure.message


async def test_what_a_dead_child_had_stored_is_given_to_the_next_attempt(processes: World) -> None:
    job_id = await processes.submit("crash_once")
    async with processes.worker():
        job = await processes.until(job_id)
    assert (job.state, job.attempt, job.result) == (State.COMPLETED, 2, b'"been here"')


async def test_its_errors_are_classified_as_anywhere(processes: World) -> None:
    permanent = await processes.submit("fail", {"kind": "permanent"})
    temporary = await processes.submit("fail", {"kind": "temporary"})
    async with processes.worker():
        job = await processes.until(permanent)
        later = await processes.until(temporary, State.RETRYING)
    assert job.state is State.FAILED
    assert job.failure is not None
    assert (job.failure.message, job.failure.code) == ("no", "never")
    assert later.due_at is not None
    assert (later.due_at - later.updated_at).total_seconds() > 3500


async def test_its_children_are_jobs_when_it_succeeds(processes: World) -> None:
    await processes.submit("spawn")
    async with processes.worker():
        assert await processes.until_all_ended() == {State.COMPLETED: 2}


async def test_a_shutdown_hands_back_what_a_child_was_doing(processes: World, tmp_path: Path) -> None:
    path = tmp_path / "pid"
    job_id = await processes.submit("loop_for_ever", {"path": str(path)})
    async with processes.worker(grace_seconds=0.0):
        pid = await pid_in(path)
    job = await processes.job(job_id)
    assert (job.state, job.attempt) == (State.SCHEDULED, 0)
    assert not is_alive(pid)
