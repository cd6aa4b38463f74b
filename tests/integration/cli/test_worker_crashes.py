"""``holdfast worker --processes``: jobs that kill their process, and processes that never start."""

import os
import signal
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.core.commands import NewJob, Submit
from holdfast.core.errors import HoldfastError
from holdfast.core.failures import Category
from holdfast.core.job import Job
from holdfast.core.payload import Payload
from holdfast.core.ports import Store
from holdfast.core.retry import Retry
from holdfast.core.states import State
from tests.integration.cli.conftest import with_store
from tests.integration.cli.programs import DONE, NOT_DONE, Program, eventually
from tests.servers.postgres import children_of

QUEUE = """
import asyncio, os, time
from dataclasses import replace
from holdfast import Holdfast
from holdfast.core.commands import Tick


class Quick(Holdfast):
    # A dead worker is noticed after two seconds.
    def worker(self, **given):
        worker = super().worker(**given)
        tick = Tick(worker_timeout_seconds=2.0)
        worker.options = replace(worker.options, tick=tick, heartbeat_seconds=0.3, tick_seconds=0.3)
        return worker


app = Quick()


@app.job
async def poison(seconds: float = 0.0, code: int = 9) -> None:
    await asyncio.sleep(seconds)
    os._exit(code)


@app.job(timeout=0.2)
def stuck() -> None:
    time.sleep(3600)


@app.job
async def good(seconds: float = 0.0) -> int:
    await asyncio.sleep(seconds)
    return os.getpid()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    (made / "queue_app.py").write_text(QUEUE)
    return made


@pytest.fixture(params=["sqlite", "postgres"])
def any_url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("url" if request.param == "sqlite" else "migrated_url"))


def new(type_: str, **payload: float) -> NewJob:
    # A process that is killed may have claimed good ones that it has not started, and that is an attempt, too.
    retry = Retry(max_attempts=3 if type_ == "poison" else 30)
    return NewJob(id=uuid4(), type=type_, payload=Payload.of(payload), retry=retry)


def submit_all(url: str, jobs: list[NewJob]) -> None:
    async def work(store: Store) -> None:
        (answer,) = await store.submit([Submit(jobs=tuple(jobs))])
        assert not isinstance(answer, HoldfastError)

    with_store(url, work)


def ended(url: str, jobs: list[NewJob]) -> dict[str, list[Job]]:
    """Once all have ended, by type."""

    def look() -> list[Job] | None:
        read = [job for job in with_store(url, lambda store: store.read([one.id for one in jobs])) if job is not None]
        return read if all(job.state.is_terminal for job in read) else None

    by_type: dict[str, list[Job]] = {}
    for job in eventually(look):
        by_type.setdefault(job.type, []).append(job)
    return by_type


def test_jobs_that_kill_their_worker_end_as_dead_letters_and_the_others_complete(any_url: str, folder: Path) -> None:
    # One of them with the exit code that says "wrong set-up", which is not theirs to say.
    jobs = [new("poison", code=2) if number == 20 else new("good") for number in range(60)]
    jobs[10] = new("poison")
    jobs[40] = new("poison", seconds=0.2)
    submit_all(any_url, jobs)
    with Program("worker", "queue_app:app", "--processes", "2", "--url", any_url, cwd=folder) as worker:
        by_type = ended(any_url, jobs)
        # The service lives.
        last = [new("good")]
        submit_all(any_url, last)
        assert ended(any_url, last)["good"][0].state is State.COMPLETED
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == DONE
    assert {job.state for job in by_type["good"]} == {State.COMPLETED}
    assert {job.state for job in by_type["poison"]} == {State.DEAD_LETTER}
    assert [job.attempt for job in by_type["poison"]] == [3, 3, 3]
    for job in by_type["poison"]:
        assert job.failure is not None
        assert job.failure.category is Category.SYSTEM
    assert "giving up" not in worker.text


def test_a_process_that_is_killed_again_and_again_is_the_only_one_replaced(url: str, folder: Path) -> None:
    with Program("worker", "queue_app:app", "--processes", "3", "--url", url, cwd=folder) as worker:
        worker.wait_for("serves", times=3)
        first, *others = sorted(children_of(worker.pid))
        for killed in range(1, 7):
            os.kill(first, signal.SIGKILL)
            worker.wait_for("was killed by SIGKILL; starting another", times=killed)
            (first,) = eventually(lambda: set(children_of(worker.pid)) - set(others))
        assert set(others) <= set(children_of(worker.pid))
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == DONE
    assert "giving up" not in worker.text


def test_a_process_that_gives_up_because_of_stuck_threads_is_replaced(url: str, folder: Path) -> None:
    options = ("--processes", "2", "--concurrency", "2", "--grace", "0")
    with Program("worker", "queue_app:app", *options, "--url", url, cwd=folder) as worker:
        worker.wait_for("serves", times=2)
        submit_all(url, [new("stuck")])
        worker.wait_for("ended with exit code 1; starting another")
        worker.wait_for("serves", times=3)


def test_processes_that_all_fail_at_their_start_are_given_up(url: str, folder: Path) -> None:
    (folder / "dying.py").write_text("import os\nos._exit(3)")
    with Program("worker", "dying:app", "--processes", "2", "--url", url, cwd=folder) as worker:
        assert worker.exit_code() == NOT_DONE
    assert "ended with exit code 3 at its start, 6 times in a row; giving up" in worker.text
