"""The sync twins: the same jobs for programs without an event loop (PORTAL-1 to PORTAL-3, RUNTIME-2)."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    ConfigError,
    Holdfast,
    InvalidInput,
    JobCancelled,
    JobFailed,
    JobNotFound,
    Middleware,
    State,
    UsageError,
    chain,
    fan_in,
)
from holdfast.core.commands import CancelOutcome, NewJob, Submitted
from holdfast.worker.middleware import Submit
from tests.integration.app.conftest import Jobs

PATIENCE = timedelta(seconds=60)
PORTAL = "holdfast-portal"

PROGRAM = """
import os, sys
from holdfast import Holdfast

app = Holdfast(sys.argv[1], logs="off")


@app.job
def add(a: int, b: int) -> int:
    return a + b


"""


def portals() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == PORTAL]


def run_program(text: str, url: str) -> str:
    # From Python 3.12 on, a fork beside threads is warned of: here it is what is tested.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM + text, url]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


# a program without a loop


def test_jobs_are_submitted_and_read_without_a_loop(jobs: Jobs) -> None:
    handle = jobs.add.submit_sync(1, b=2)
    later = jobs.add.options(delay=60, key="order-7").submit_sync(3)
    assert handle.job_sync().payload.value() == {"a": 1, "b": 2}
    assert later.job_sync().state is State.DELAYED
    assert jobs.add.options(key="order-7").submit_sync(3).is_duplicate
    many = jobs.app.submit_many_sync([jobs.add.call(n) for n in range(3)], key="batch")
    named = jobs.app.submit_sync("elsewhere", {"x": 1}, queue="q")
    flow = chain(jobs.add.call(1), jobs.total.call()).submit_sync()
    assert [jobs.app.get_sync(one).key for one in many] == ["batch#0", "batch#1", "batch#2"]
    assert jobs.app.get_sync(named.id).queue == "q"
    assert len(flow.handles) == 2
    assert len(jobs.app.list_sync().jobs) == 8
    assert jobs.app.submit_many_sync([]) == []


def test_jobs_are_cancelled_and_replayed_without_a_loop(jobs: Jobs) -> None:
    handle = jobs.add.submit_sync(1)
    assert handle.cancel_sync().outcome is CancelOutcome.CANCELLED
    (answer,) = jobs.app.cancel_sync(handle)
    assert answer.outcome is CancelOutcome.ALREADY_ENDED
    assert len(jobs.app.replay_sync(handle)) == 1
    with pytest.raises(JobCancelled):
        handle.result_sync(timeout=PATIENCE)
    flow = chain(jobs.add.call(1), jobs.add.call(2)).submit_sync()
    assert len(flow.cancel_sync()) == 2


def test_errors_are_those_of_the_async_side(jobs: Jobs) -> None:
    with pytest.raises(InvalidInput):
        jobs.add.options(queue="").submit_sync(1)
    with pytest.raises(JobNotFound):
        jobs.app.get_sync("6f1f3fd4-3f2c-4d2f-8b6e-0d5c0d6f9f1e")
    handle = jobs.add.submit_sync(1)
    with pytest.raises(TimeoutError, match=f"job {handle.id} has not ended within 0.02 s"):
        handle.result_sync(timeout=0.02)


def test_threads_may_submit_at_the_same_time(jobs: Jobs) -> None:
    with ThreadPoolExecutor(8) as threads:
        ids = {handle.id for handle in threads.map(jobs.add.submit_sync, range(100))}
    assert len(ids) == len(jobs.app.list_sync(limit=1000).jobs) == 100


# beside a loop


async def test_the_sync_twins_and_the_async_side_see_the_same_jobs(opened: Jobs) -> None:
    """RUNTIME-2"""
    here = await opened.add.submit(1)
    there = await asyncio.to_thread(opened.add.submit_sync, 2)
    assert (await asyncio.to_thread(opened.app.get_sync, here)).id == here.id
    assert (await there.job()).id == there.id


def test_what_was_submitted_without_a_loop_is_there_when_the_app_opens(jobs: Jobs) -> None:
    handle = jobs.add.submit_sync(1, 2)

    async def run() -> int:
        async with jobs.app, jobs.app.worker():
            return await handle.result(timeout=PATIENCE)

    assert asyncio.run(run()) == 3
    assert handle.result_sync(timeout=PATIENCE) == 3


async def test_a_thread_waits_for_what_the_worker_of_this_loop_does(opened: Jobs) -> None:
    def program() -> list[Any]:
        added = opened.add.submit_sync(1, 2)
        flow = fan_in(opened.add.call(1), opened.add.call(2), into=opened.total.call()).submit_sync()
        with pytest.raises(JobFailed, match="no such customer"):
            opened.fail.submit_sync("no such customer").result_sync(timeout=PATIENCE)
        return [added.result_sync(timeout=PATIENCE), flow.result_sync(timeout=PATIENCE)]

    async with opened.app.worker():
        assert await asyncio.to_thread(program) == [3, 3]


async def test_a_thread_that_waits_when_the_app_opens_is_answered(jobs: Jobs) -> None:
    """In memory the place changes under it."""
    handle = await asyncio.to_thread(jobs.add.submit_sync, 1, 2)
    waiting = asyncio.create_task(asyncio.to_thread(handle.result_sync, PATIENCE))
    await asyncio.sleep(0)
    async with jobs.app, jobs.app.worker():
        assert await waiting == 3


async def test_a_plain_handler_submits_from_its_thread(opened: Jobs) -> None:
    @opened.app.job
    def outer() -> int:
        return opened.add.submit_sync(20, 22).result_sync(timeout=PATIENCE)

    async with opened.app.worker():
        assert await (await outer.submit()).result(timeout=PATIENCE) == 42


async def test_a_sync_twin_inside_a_loop_is_refused_with_the_remedy(jobs: Jobs) -> None:
    """PORTAL-3"""
    handle = jobs.add.handle(jobs.add.call(1).id)
    refused: list[tuple[Any, str]] = [
        (lambda: jobs.add.submit_sync(1), r"submit_sync would block.*write: await add\.submit\(…\)"),
        (handle.result_sync, r"result_sync would block.*write: await handle\.result\(\)"),
        (handle.job_sync, r"await handle\.job\(\)"),
        (handle.cancel_sync, r"await handle\.cancel\(\)"),
        (lambda: jobs.app.submit_many_sync([jobs.add.call(1)]), r"await app\.submit_many\(…\)"),
        (lambda: jobs.app.submit_sync("elsewhere"), r"await app\.submit\(…\)"),
        (lambda: jobs.app.get_sync(handle), r"await app\.get\(…\)"),
        (jobs.app.list_sync, r"await app\.list\(…\)"),
        (lambda: chain(jobs.add.call(1)).submit_sync(), r"await workflow\.submit\(\)"),
    ]
    for twin, says in refused:
        with pytest.raises(UsageError, match=says):
            twin()
    assert portals() == []


# in memory there is one place only


async def test_a_store_in_memory_is_used_by_no_second_thread_of_ours() -> None:
    jobs = Jobs("memory://")
    handle = await asyncio.to_thread(jobs.add.submit_sync, 1)
    async with jobs.app, jobs.app.worker():
        await asyncio.to_thread(handle.result_sync, PATIENCE)
        assert portals() == []


class Slow(Middleware):
    """A submit that has begun, and ends when it may."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.may_end = threading.Event()

    async def submit(self, jobs: Sequence[NewJob], proceed: Submit) -> tuple[Submitted, ...]:
        self.has_begun.set()
        self.may_end.wait()
        return await proceed()


async def test_opening_waits_for_a_sync_twin_that_is_under_way() -> None:
    slow = Slow()
    app = Holdfast("memory://", middleware=[slow])
    nothing = app.job(name="nothing")(lambda: None)
    submitting = asyncio.create_task(asyncio.to_thread(nothing.submit_sync))
    await asyncio.to_thread(slow.has_begun.wait)
    threading.Timer(0.1, slow.may_end.set).start()
    async with app:
        assert slow.may_end.is_set()
        handle = await submitting
        assert (await handle.job()).state is State.SCHEDULED


# the thread behind them


def test_the_thread_starts_with_the_first_call_and_ends_with_close(sqlite_app_url: str) -> None:
    """PORTAL-1"""
    jobs = Jobs(sqlite_app_url)
    before = portals()
    for _ in range(2):
        assert portals() == before
        jobs.add.submit_sync(1)
        jobs.add.submit_sync(1)
        assert len(portals()) == len(before) + 1
        jobs.app.close_sync()
        jobs.app.close_sync()
    assert portals() == before


def test_a_store_that_cannot_be_opened_is_tried_again_by_the_next_call(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    jobs = Jobs(f"sqlite:///{folder / 'jobs.db'}")
    with pytest.raises(ConfigError):
        jobs.add.submit_sync(1)
    assert portals() == []
    folder.mkdir()
    jobs.add.submit_sync(1)
    jobs.app.close_sync()


def test_the_end_of_a_program_closes_the_store(sqlite_app_url: str) -> None:
    """PORTAL-1: SQLite's last connection leaves nothing but the file."""
    assert run_program("print(add.submit_sync(1, 2).job_sync().state)", sqlite_app_url) == "SCHEDULED\n"
    path = Path(sqlite_app_url.removeprefix("sqlite:///"))
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_the_end_of_a_program_closes_connections_to_postgres(postgres_app_url: str) -> None:
    assert run_program("print(add.submit_sync(1, 2).job_sync().state)", postgres_app_url) == "SCHEDULED\n"


FORK = """
import threading
first = add.submit_sync(1, 2)
pid = os.fork()
assert not [one for one in threading.enumerate() if one.name == "holdfast-portal"]
handle = add.submit_sync(3, 4)
assert handle.job_sync().id == handle.id
if pid == 0:
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
print(sorted(job.payload.value()["a"] for job in app.list_sync().jobs))
"""


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_parent_and_child_go_on_after_a_fork(store: str, request: pytest.FixtureRequest) -> None:
    """PORTAL-2"""
    url: str = request.getfixturevalue(f"{store}_app_url")
    assert run_program(FORK, url) == "[1, 3, 3]\n"


FORK_UNDER_WAY = """
import threading, time
handle = add.submit_sync(1, 2)

def wait() -> None:
    try:
        handle.result_sync()
    except BaseException:
        pass  # the program ends, and the wait with it

threading.Thread(target=wait, daemon=True).start()
while not app._runtime._portals._calls:
    time.sleep(0.001)
pid = os.fork()
if pid == 0:
    assert add.submit_sync(3, 4).job_sync()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print(handle.job_sync().state)
"""


def test_a_fork_does_not_wait_for_a_call_that_is_under_way(postgres_app_url: str) -> None:
    """PORTAL-2"""
    assert run_program(FORK_UNDER_WAY, postgres_app_url) == "SCHEDULED\n"


def test_multiprocessing_s_children_submit_as_their_parent(sqlite_app_url: str) -> None:
    text = """
import multiprocessing

def child(number: int) -> None:
    add.submit_sync(number, 0)

context = multiprocessing.get_context("fork")
add.submit_sync(100, 0)
children = [context.Process(target=child, args=(n,)) for n in range(4)]
for one in children:
    one.start()
for one in children:
    one.join()
print(sorted(job.payload.value()["a"] for job in app.list_sync().jobs), [one.exitcode for one in children])
"""
    assert run_program(text, sqlite_app_url) == "[0, 1, 2, 3, 100] [0, 0, 0, 0]\n"


def test_ctrl_c_ends_a_wait(sqlite_app_url: str) -> None:
    text = """
import signal, threading
handle = add.submit_sync(1, 2)
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    handle.result_sync()
except KeyboardInterrupt:
    print(handle.job_sync().state)
while app._runtime._portals._portal.client.engine._results._awaited:
    pass
print("nobody waits")
"""
    assert run_program(text, sqlite_app_url) == "SCHEDULED\nnobody waits\n"
