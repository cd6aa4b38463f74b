"""``kill -9`` at any instant loses nothing: every accepted job ends, and each attempt is one worker's alone."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.core.commands import NewJob
from holdfast.core.dependencies import Dependency, DependencyKind
from holdfast.core.retry import Jitter, Retry, Strategy
from holdfast.core.states import State
from holdfast.testing.invariants import require_consistent
from tests.integration.worker.conftest import on
from tests.integration.worker.world import World

JOBS = 300
KILLS = 5
MANY = Retry(max_attempts=50, strategy=Strategy.CONSTANT, initial_delay=0.0, jitter=Jitter.NONE)


class Fleet:
    """Worker processes; whichever is killed is replaced."""

    def __init__(self, url: str, ledger: Path) -> None:
        self._url = url
        self._ledger = ledger
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.integration.worker.program", self._url],
                env={**os.environ, "LEDGER": str(self._ledger)},
            )
        )

    def kill_one(self, choose: random.Random) -> None:
        victim = self._processes.pop(choose.randrange(len(self._processes)))
        victim.send_signal(signal.SIGKILL)
        victim.wait()

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def lines(ledger: Path) -> list[list[str]]:
    return [line.split() for line in ledger.read_text().splitlines()] if ledger.exists() else []


async def until(ledger: Path, word: str, count: int) -> None:
    async with asyncio.timeout(60):
        while sum(line[0] == word for line in lines(ledger)) < count:
            await asyncio.sleep(0.005)


def some_jobs() -> list[NewJob]:
    """Two in three alone, every third after the one before it; coroutines and threads in turn."""
    jobs: list[NewJob] = []
    for number in range(JOBS):
        waits = (Dependency(job_id=jobs[-1].id, kind=DependencyKind.CHAIN),) if number % 3 == 2 else ()
        name = ("on_loop", "in_thread")[number % 2]
        jobs.append(NewJob(id=uuid4(), type=name, retry=MANY, dependencies=waits))
    return jobs


@pytest.mark.long  # The short form of chaos kills workers, too.
@on("sqlite", "postgres")
async def test_workers_killed_at_random_instants_lose_no_job(world: World, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    choose = random.Random(seed)
    ledger = tmp_path / "ledger"
    jobs = some_jobs()
    await world.submit_all(jobs)
    fleet = Fleet(world.url, ledger)
    try:
        for _ in range(2):
            fleet.start()
        await until(ledger, "ready", 2)
        for number in range(KILLS):
            done = sum(line[0] == "end" for line in lines(ledger))
            await until(ledger, "end", min(done + choose.randrange(40), JOBS))
            fleet.kill_one(choose)
            fleet.start()
            await until(ledger, "ready", number + 3)
        counts = await world.until_all_ended()
    finally:
        fleet.close()
    assert counts == {State.COMPLETED: JOBS}
    seen = lines(ledger)
    assert {line[1] for line in seen if line[0] == "end"} == {str(job.id) for job in jobs}
    # An attempt is executed by one worker, once.
    assert max(Counter(line[2] for line in seen if line[0] == "start").values()) == 1
    await require_consistent(world.store)
