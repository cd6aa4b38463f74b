"""What a handler logs and prints is kept with its attempt. REPORTER-3."""

import asyncio
import logging
import sys
from datetime import date
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from holdfast.core.errors import Unavailable
from holdfast.core.job import AttemptLog, LogKey
from holdfast.core.states import State
from holdfast.wiring import create_log_store
from holdfast.worker.context import Context
from tests.integration.worker.conftest import on
from tests.integration.worker.world import PATIENCE_SECONDS, World


def messages(log: AttemptLog) -> list[tuple[str, str]]:
    return [(line["stream"], line["message"]) for line in map(msgspec.json.decode, log.data.splitlines())]


@pytest.fixture
async def logging_world(world: World, tmp_path: Path) -> Any:
    logs = create_log_store(str(tmp_path / "logs"))
    await logs.open()
    world.logs = logs
    yield world
    await logs.close()


@pytest.mark.parametrize("is_async", [True, False])
async def test_every_attempt_has_its_own_log(logging_world: World, is_async: bool) -> None:
    world = logging_world

    def speak(ctx: Context) -> None:
        print("printed", ctx.attempt)  # noqa: T201
        print("an error", file=sys.stderr)  # noqa: T201
        logging.getLogger("mine").warning("logged %s", ctx.attempt)
        if ctx.attempt == 1:
            raise ConnectionError

    async def speak_async(ctx: Context) -> None:
        speak(ctx)

    job_id = await world.submit(world.handle(speak_async if is_async else speak))
    async with world.worker():
        job = await world.until(job_id)
    assert job.state is State.COMPLETED
    assert world.logs is not None
    first, second = await world.logs.read(job_id, created_at=job.created_at)
    assert (first.attempt, second.attempt) == (1, 2)
    for log in (first, second):
        said = messages(log)
        assert ("stdout", f"printed {log.attempt}") in said
        assert ("stderr", "an error") in said
        assert ("log", f"logged {log.attempt}") in said


@on("memory")
async def test_neighbours_do_not_read_each_others_words(logging_world: World) -> None:
    world = logging_world
    turn = asyncio.Barrier(2)

    async def speak(word: str) -> None:
        for _ in range(3):
            await turn.wait()
            print(word)  # noqa: T201

    world.handle(speak)
    ids = {word: await world.submit("speak", {"word": word}) for word in ("left", "right")}
    async with world.worker():
        for word, job_id in ids.items():
            job = await world.until(job_id)
            assert world.logs is not None
            (log,) = await world.logs.read(job_id, created_at=job.created_at)
            assert messages(log) == [("stdout", word)] * 3


@on("memory")
async def test_a_running_jobs_log_can_be_read(logging_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.worker.worker.LOOK_SECONDS", 0.02)
    monkeypatch.setattr("holdfast.worker.worker.LOG_FLUSH_SECONDS", 0.02)
    world = logging_world
    go_on = asyncio.Event()

    async def speak() -> None:
        print("so far")  # noqa: T201
        await go_on.wait()

    job_id = await world.submit(world.handle(speak))
    async with world.worker():
        job = await world.until(job_id, State.RUNNING)
        assert world.logs is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (found := await world.logs.read(job_id, created_at=job.created_at)):
                await asyncio.sleep(0.01)
        assert messages(found[0]) == [("stdout", "so far")]
        go_on.set()
        await world.until(job_id)


@pytest.mark.parametrize("error", [Unavailable("the bucket is gone"), RuntimeError("a bug in the log store")])
async def test_a_log_that_could_not_be_written_is_written_later(
    logging_world: World, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The only line was printed before the first try failed: it is not taken for written."""
    monkeypatch.setattr("holdfast.worker.worker.LOOK_SECONDS", 0.02)
    monkeypatch.setattr("holdfast.worker.worker.LOG_FLUSH_SECONDS", 0.02)
    world = logging_world
    assert world.logs is not None
    real, failed, go_on = world.logs, asyncio.Event(), asyncio.Event()

    async def fail_once(entry: LogKey, data: bytes) -> None:
        monkeypatch.undo()  # no more looks: the end of the attempt has to try again
        failed.set()
        raise error

    monkeypatch.setattr(real, "write", fail_once)

    async def speak() -> None:
        print("the only line")  # noqa: T201
        await go_on.wait()

    job_id = await world.submit(world.handle(speak))
    async with world.worker():
        await failed.wait()
        go_on.set()
        job = await world.until(job_id)
    assert job.state is State.COMPLETED
    (log,) = await real.read(job_id, created_at=job.created_at)
    assert messages(log) == [("stdout", "the only line")]


class BrokenLogs:
    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def write(self, entry: LogKey, data: bytes) -> None:
        raise Unavailable("the bucket is gone")

    async def read(self, job_id: Any, *, created_at: Any) -> list[AttemptLog]:
        return []

    async def remove_before(self, day: date) -> int:
        raise Unavailable("the bucket is gone")


async def test_a_log_store_that_does_not_answer_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.worker.reporter.LOG_WRITE_SECONDS", 0.05)
    tries: list[UUID] = []

    class SilentLogs(BrokenLogs):
        async def write(self, entry: LogKey, data: bytes) -> None:
            tries.append(entry.job_id)
            await asyncio.Event().wait()

    world.logs = SilentLogs()

    async def speak() -> None:
        print("into the void")  # noqa: T201

    job_id = await world.submit(world.handle(speak))
    async with world.worker(concurrency=1):
        job = await world.until(job_id)
    assert (job.state, tries) == (State.COMPLETED, [job_id])


async def test_a_log_store_that_fails_fails_no_job(world: World) -> None:
    world.logs = BrokenLogs()

    async def speak() -> None:
        print("into the void")  # noqa: T201

    job_id = await world.submit(world.handle(speak))
    async with world.worker():
        assert (await world.until(job_id)).state is State.COMPLETED
