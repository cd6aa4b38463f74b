"""One soak on one store: start, load steadily, look at everything now and then, drain, count."""

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.peers.usage import memory_mib
from chaos.processes import Program
from holdfast.wiring import LOGS_VARIABLE, URL_VARIABLE, create_store
from soak.app import DONE_VARIABLE, RETENTION_SECONDS, RETENTION_VARIABLE
from soak.databases import Database, PostgresDatabase, SQLiteDatabase
from soak.judge import Change, Sample, compare
from soak.marks import Marks
from soak.probe import Probe

WORKERS: Final = 2
CONCURRENCY: Final = 50
SAMPLE_SECONDS: Final = 5.0
LEAST_SAMPLES: Final = 30
START_SECONDS: Final = 60.0
DRAIN_SECONDS: Final = 120.0
REMOVAL_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.5
MAX_NAMED: Final = 5
BEHIND_SECONDS: Final = 20.0
"""For how long the jobs may be behind that wait for a worker, at the given rate: else the load was too high."""

Say = Callable[[float, str], None]
"""How far it is, and a line about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    store: str
    seconds: float
    jobs_a_second: float
    retention_seconds: float = RETENTION_SECONDS


@dataclass(slots=True, kw_only=True)
class Outcome:
    settings: Settings
    store: str
    samples: list[Sample] = field(default_factory=list)
    accepted: int = 0
    done: int = 0
    lost: int = 0
    left: int = 0
    """Not ended after draining."""
    kept: int = 0
    """Not removed long after their retention."""
    problems: list[str] = field(default_factory=list)

    @property
    def changes(self) -> list[Change]:
        return compare(self.samples, length_seconds=self.settings.seconds)

    @property
    def holds(self) -> bool:
        return not (self.problems or self.lost or self.left or self.kept) and all(one.holds for one in self.changes)


class Run:
    def __init__(self, settings: Settings, folder: Path, database: Database, say: Say) -> None:
        self._settings = settings
        self._folder = folder
        self._database = database
        self._say = say
        self._accepted = Marks(folder / "accepted")
        self._done = Marks(folder / "done")
        self._workers = [self._program(f"worker-{n}", _worker_command(n)) for n in range(WORKERS)]
        rate = str(settings.jobs_a_second)
        command = [sys.executable, "-m", "soak.submitter", str(folder / "accepted"), rate]
        self._submitter = self._program("submitter", command)
        self.outcome = Outcome(settings=settings, store=database.name)

    def _program(self, name: str, command: list[str]) -> Program:
        environment = {
            URL_VARIABLE: self._database.url,
            LOGS_VARIABLE: str(self._folder / "logs"),
            RETENTION_VARIABLE: str(self._settings.retention_seconds),
            DONE_VARIABLE: str(self._folder / "done"),
        }
        return Program(name, lambda _: command, environment=environment, log=self._folder / f"{name}.log")

    async def go(self) -> Outcome:
        store = create_store(self._database.url)
        await store.open()
        probe = Probe(store, retention_seconds=self._settings.retention_seconds)
        try:
            for program in (*self._workers, self._submitter):
                program.start()
            await self._start()
            await self._load(probe)
            await self._submitter.stop()
            await self._drain()
            await probe.leave()
            await self._count()
        finally:
            for program in (*self._workers, self._submitter):
                await program.stop()
            await store.close()
        self._note_problems()
        return self.outcome

    async def _start(self) -> None:
        """Until the first job is done: what programs take to start is not part of the run."""
        deadline = time.monotonic() + START_SECONDS
        while not self._done.count() and time.monotonic() < deadline:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(POLL_SECONDS)

    async def _load(self, probe: Probe) -> None:
        seconds = self._settings.seconds
        pause = min(SAMPLE_SECONDS, seconds / LEAST_SAMPLES)
        started = time.monotonic()
        while (passed := time.monotonic() - started) < seconds:
            values = await self._look(probe)
            self.outcome.samples.append(Sample(at_seconds=passed, values=values))
            backlog, done = await probe.backlog(), self._done.count()
            self._say(
                passed / seconds, f"{done:,} jobs done, {backlog:,} ready, workers {values[WORKER_MEMORY]:.0f} MiB"
            )
            if backlog > BEHIND_SECONDS * self._settings.jobs_a_second:
                self.outcome.problems.append(f"after {passed:.0f} s {backlog:,} jobs wait: the load is too high")
                return
            await asyncio.sleep(max(0.0, started + pause * len(self.outcome.samples) - time.monotonic()))

    async def _look(self, probe: Probe) -> dict[str, float]:
        pids = [pid for worker in self._workers if (pid := worker.pid) is not None]
        memory = await asyncio.to_thread(memory_mib, pids)
        return {WORKER_MEMORY: memory, **await asyncio.to_thread(self._database.sample), **await probe.look()}

    async def _drain(self) -> None:
        self._say(1.0, "draining")
        await _until_zero(self._database.open_jobs, DRAIN_SECONDS)
        self.outcome.left = await asyncio.to_thread(self._database.open_jobs)

    async def _count(self) -> None:
        self._say(1.0, "waiting for retention")
        await _until_zero(self._database.all_jobs, self._settings.retention_seconds + REMOVAL_SECONDS)
        self.outcome.kept = await asyncio.to_thread(self._database.all_jobs) - self.outcome.left
        lost = self._accepted.missing_from(self._done)
        self.outcome.accepted, self.outcome.done = self._accepted.count(), self._done.count()
        self.outcome.lost = len(lost)
        if lost:
            self.outcome.problems.append(f"lost: the jobs with the numbers {lost[:MAX_NAMED]} and {len(lost)} in all")

    def _note_problems(self) -> None:
        for program in (*self._workers, self._submitter):
            self.outcome.problems += program.deaths
        dropped = (self._folder / "submitter.log").read_text(encoding="utf-8").rpartition("dropped ")[2].split()
        if not dropped or int(dropped[0]) > self._settings.jobs_a_second:
            self.outcome.problems.append(f"the submitter could not keep up: {' '.join(dropped) or 'no word of it'}")


WORKER_MEMORY: Final = "memory of the workers, MiB"


def _worker_command(number: int) -> list[str]:
    command = [sys.executable, "-m", "holdfast", "worker", "soak.app:app", "--name", f"worker-{number}"]
    return [*command, "--concurrency", str(CONCURRENCY)]


async def _until_zero(count: Callable[[], int], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while await asyncio.to_thread(count) and time.monotonic() < deadline:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def opened(store: str) -> AsyncIterator[tuple[Path, Database]]:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-soak-"))
    database: Database | None = None
    try:
        database = await asyncio.to_thread(PostgresDatabase) if store == "postgres" else SQLiteDatabase(folder)
        await database.create()
        yield folder, database
    finally:
        if database is not None:
            await asyncio.to_thread(database.close)
        if "SOAK_KEEP" not in os.environ:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def run(settings: Settings, say: Say) -> Outcome:
    async with opened(settings.store) as (folder, database):
        return await Run(settings, folder, database, say).go()
