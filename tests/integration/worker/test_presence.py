"""A worker whose process has died is noticed by its proof of life, long before its silence would count.

PRESENCE-1, PRESENCE-2, PULSE-2.

Ticks here know a worker timeout of an hour: what is reclaimed was reclaimed because a process was seen to be gone.
"""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from holdfast.core import presence as core_presence
from holdfast.core.commands import Tick
from holdfast.core.errors import HoldfastError, Unavailable
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.stores.postgres import PostgresStore, presence
from holdfast.testing.factories import claim_one, read_state, register, submit_one
from holdfast.wiring import create_store
from holdfast.worker.context import Context
from tests.integration.postgres.databases import fetch
from tests.integration.worker.conftest import on
from tests.integration.worker.world import World, eventually

ROOT = Path(__file__).parents[3]
TIMEOUT_SECONDS = 1.5
SHORT = Tick(worker_timeout_seconds=TIMEOUT_SECONDS)
SESSIONS = """
    SELECT l.pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database
    WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND d.datname = current_database()
        AND ((l.classid::bigint << 32) | l.objid::bigint) = $1
"""


# another process


async def hold_a_job(url: str, does_fork: str) -> None:
    """Claims a job, proves itself alive, and goes on for ever."""
    store = create_store(url)
    await store.open()
    worker = await register(store)
    await claim_one(store, worker)
    attending = asyncio.create_task(attend(store, worker, tick=None))
    while not await is_attended(url, worker):
        await asyncio.sleep(0.01)
    if does_fork == "forks" and os.fork() == 0:
        signal.pause()
    print(worker, flush=True)  # noqa: T201 - this is what the test waits for
    await attending


async def is_attended(url: str, worker: UUID) -> bool:
    if url.startswith("sqlite"):
        return lock_file(url, worker).exists()
    rows = await fetch(url, "SELECT session_key FROM holdfast.worker WHERE id = $1", worker)
    return rows[0]["session_key"] is not None


def lock_file(url: str, worker: UUID) -> Path:
    return Path(f"{url.removeprefix('sqlite:///')}-workers", f"{worker}.lock")


def start(url: str, does_fork: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", __name__, url, does_fork]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)


@asynccontextmanager
async def another_process(url: str, does_fork: str = "") -> AsyncIterator[tuple[subprocess.Popen[str], UUID]]:
    process = start(url, does_fork)
    try:
        assert process.stdout is not None
        line = await asyncio.to_thread(process.stdout.readline)
        yield process, UUID(line.strip())
    finally:
        # Its forked child, too.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def attend(store: Store, worker: UUID, *, tick: Tick | None = SHORT) -> Any:
    return store.attend(worker, worker_timeout_seconds=TIMEOUT_SECONDS, tick=tick)


@asynccontextmanager
async def attending(store: Store, *, tick: Tick | None = SHORT) -> AsyncIterator[UUID]:
    worker = await register(store)
    tasks = [asyncio.create_task(attend(store, worker, tick=tick)), asyncio.create_task(keep_ticking(store))]
    try:
        yield worker
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError | HoldfastError) for end in ends), ends


async def keep_ticking(store: Store) -> None:
    while True:
        await store.tick(Tick(worker_timeout_seconds=3600.0))
        await asyncio.sleep(0.1)


async def until_state(world: World, job_id: UUID, state: State) -> None:
    while await read_state(world.store, job_id) is not state:
        await asyncio.sleep(0.02)


async def is_lost(world: World, worker: UUID) -> bool:
    return next(one.is_lost for one in await world.store.read_workers() if one.id == worker)


@on("sqlite", "postgres")
@pytest.mark.parametrize("does_fork", ["", "forks"], ids=["alone", "forks"])
async def test_the_jobs_of_a_process_that_was_killed_are_reclaimed(world: World, does_fork: str) -> None:
    job_id = await submit_one(world.store)
    async with attending(world.store), another_process(world.url, does_fork) as (process, worker):
        assert await read_state(world.store, job_id) is State.RUNNING
        os.kill(process.pid, signal.SIGKILL)
        await until_state(world, job_id, State.SCHEDULED)
        assert await is_lost(world, worker)


@on("sqlite", "postgres")
async def test_they_are_reclaimed_by_a_process_that_started_after_the_death(world: World) -> None:
    job_id = await submit_one(world.store)
    async with another_process(world.url) as (process, _):
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        async with attending(world.store):
            await until_state(world, job_id, State.SCHEDULED)


@on("postgres")
async def test_a_worker_that_was_alone_looks_as_soon_as_another_has_come(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_presence, "LONE_PART", 3600.0)
    async with attending(world.store) as worker:
        while not await is_attended(world.url, worker):
            await asyncio.sleep(0.01)
        job_id = await submit_one(world.store)
        async with another_process(world.url) as (process, _):
            os.kill(process.pid, signal.SIGKILL)
            await until_state(world, job_id, State.SCHEDULED)


@on("sqlite", "postgres")
async def test_a_process_that_is_stopped_is_not_dead(world: World) -> None:
    stopped, killed = await submit_one(world.store), await submit_one(world.store)
    async with attending(world.store), another_process(world.url) as (first, _), another_process(world.url) as (two, _):
        os.kill(first.pid, signal.SIGSTOP)
        os.kill(two.pid, signal.SIGKILL)
        await until_state(world, killed, State.SCHEDULED)
        assert await read_state(world.store, stopped) is State.RUNNING


@on("sqlite", "postgres")
async def test_whoever_signs_off_is_not_looked_for(world: World) -> None:
    async with attending(world.store) as worker:
        while not await is_attended(world.url, worker):
            await asyncio.sleep(0.01)
        await world.store.leave(worker)
    if world.url.startswith("sqlite"):
        assert not lock_file(world.url, worker).exists()
    assert await world.store.read_workers() == []


@on("sqlite")
@pytest.mark.parametrize("what", ["removed", "replaced", "folder"])
async def test_a_proof_that_somebody_takes_away_is_given_again(world: World, what: str) -> None:
    async with attending(world.store) as worker:
        file = lock_file(world.url, worker)
        while not file.exists():
            await asyncio.sleep(0.01)
        inode = file.stat().st_ino
        if what == "replaced":
            copy = file.with_name("copy")
            copy.touch()
            copy.rename(file)
            inode = file.stat().st_ino
        else:
            file.unlink()
        if what == "folder":
            file.parent.rmdir()
        while not file.exists() or is_free(file):
            await asyncio.sleep(0.01)
        assert what != "replaced" or file.stat().st_ino != inode
        assert not await is_lost(world, worker)


def is_free(file: Path) -> bool:
    with file.open() as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@on("sqlite")
async def test_strange_files_among_the_locks_hold_nobody_up(world: World) -> None:
    job_id = await submit_one(world.store)
    async with attending(world.store), another_process(world.url) as (process, _):
        folder = Path(f"{world.url.removeprefix('sqlite:///')}-workers")
        os.mkfifo(folder / f"{uuid4()}.lock")
        (folder / f"{uuid4()}.lock").mkdir()
        (folder / "notes.lock").touch()
        os.kill(process.pid, signal.SIGKILL)
        await until_state(world, job_id, State.SCHEDULED)


@on("sqlite")
async def test_without_a_folder_for_the_locks_silence_is_the_rule(world: World) -> None:
    Path(f"{world.url.removeprefix('sqlite:///')}-workers").write_text("in the way")
    await attend(world.store, await register(world.store))


@on("postgres")
async def test_behind_a_pooler_silence_is_the_rule(world: World) -> None:
    store = create_store(f"{world.url}?listen=off&prepared=off")
    await store.open()
    worker = await register(store)
    await attend(store, worker)
    assert not await is_attended(world.url, worker)
    await store.close()


# a session that is lost


async def session_of(world: World, worker: UUID, *, but: Sequence[int] = ()) -> int:
    key = worker.int & presence.MAX_LOCK_KEY
    while True:
        for row in await fetch(world.url, SESSIONS, key):
            if row["pid"] not in but:
                return int(row["pid"])
        await asyncio.sleep(0.02)


async def end_session(world: World, worker: UUID) -> int:
    while not await is_attended(world.url, worker):
        await asyncio.sleep(0.01)
    pid = await session_of(world, worker)
    await fetch(world.url, "SELECT pg_terminate_backend($1, 5000)", pid)
    return pid


@on("postgres")
async def test_a_worker_whose_session_is_terminated_opens_another_and_is_alive(world: World) -> None:
    other = create_store(world.url)
    await other.open()
    async with attending(world.store), attending(other) as worker:
        ended = await end_session(world, worker)
        await session_of(world, worker, but=[ended])
        job_id = await submit_one(world.store)
        async with another_process(world.url) as (process, _):
            os.kill(process.pid, signal.SIGKILL)
            # Whoever was away for as long as that one has been noticed by then.
            await until_state(world, job_id, State.SCHEDULED)
        assert not await is_lost(world, worker)
        assert other.absent_since is None
    await other.close()


@on("postgres")
async def test_a_worker_that_cannot_open_another_session_takes_its_proof_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(world.store, PostgresStore)
    async with attending(world.store) as worker:
        while not await is_attended(world.url, worker):
            await asyncio.sleep(0.01)
        monkeypatch.setattr(world.store._database, "connect", no_connection(OSError("no route to host")))
        await end_session(world, worker)
        while await is_attended(world.url, worker):
            await asyncio.sleep(0.01)
        assert world.store.absent_since is None


def no_connection(error: Exception) -> Any:
    async def refuse(*_arguments: object) -> None:
        raise error

    return refuse


def all_but(refused: str, error: Exception, fetch: Any) -> Any:
    async def fetch_others(sql: str, *arguments: Any) -> Any:
        if sql == refused:
            raise error
        return await fetch(sql, *arguments)

    return fetch_others


@on("postgres")
@pytest.mark.parametrize("cause", [None, ConnectionRefusedError(), asyncpg.AdminShutdownError()], ids=type)
async def test_a_worker_that_can_do_nothing_about_it_stops_its_handlers(
    world: World, monkeypatch: pytest.MonkeyPatch, cause: Exception | None
) -> None:
    """Though its heartbeats arrive. Also where nobody listens: that may be so for it alone, whose proxy is down."""
    story: list[str] = []

    async def work(ctx: Context) -> None:
        story.append("started")
        try:
            await asyncio.sleep(3600)
        finally:
            story.append("stopped")

    world.handle(work)
    await world.submit("work")
    pulse_store = create_store(world.url)
    assert isinstance(pulse_store, PostgresStore)
    worker = world.new_worker(create_pulse_store=lambda: pulse_store, heartbeat_seconds=0.1, tick=SHORT)
    async with worker:
        await eventually(lambda: bool(story))
        while not await is_attended(world.url, worker.id):
            await asyncio.sleep(0.01)
        error = Unavailable("no answer")
        error.__cause__ = cause
        monkeypatch.setattr(pulse_store._database, "connect", no_connection(error))
        take_back = pulse_store._database.sql["presence.say"]
        monkeypatch.setattr(pulse_store._database, "fetch", all_but(take_back, error, pulse_store._database.fetch))
        await end_session(world, worker.id)
        await eventually(lambda: story == ["started", "stopped"])


@on("postgres")
async def test_a_server_that_restarts_keeps_nobody_from_working(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so once, and then nobody is there to say it. Nobody can look at anybody meanwhile."""
    assert isinstance(world.store, PostgresStore)
    tries = asyncio.Semaphore(0)

    said: list[Exception] = [asyncpg.CannotConnectNowError("the database system is shutting down")]

    async def refuse(*_arguments: object) -> None:
        tries.release()
        raise Unavailable("PostgreSQL does not answer") from (said.pop() if said else ConnectionRefusedError())

    async def refuse_questions(*_arguments: object) -> None:
        # A look at other workers may be under way: what the server says goes to the one who opens a session.
        raise Unavailable("PostgreSQL does not answer") from ConnectionRefusedError()

    async with attending(world.store) as worker:
        while not await is_attended(world.url, worker):
            await asyncio.sleep(0.01)
        monkeypatch.setattr(world.store._database, "connect", refuse)
        monkeypatch.setattr(world.store._database, "fetch", refuse_questions)
        await end_session(world, worker)
        for _ in range(3):
            await tries.acquire()
        assert world.store.absent_since is None


if __name__ == "__main__":
    asyncio.run(hold_a_job(*sys.argv[1:]))
