"""A disk that is full under a worker on SQLite: jobs wait for space, and none is lost or stuck."""

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.core.commands import NewJob
from holdfast.core.errors import Unavailable
from holdfast.core.payload import Payload
from holdfast.core.states import State
from holdfast.stores.sqlite import SQLiteStore
from tests.integration.sqlite.test_disk_full import DISK_BYTES, small_disk
from tests.integration.worker.world import SOON, World

__all__ = ["small_disk"]


async def test_outcomes_wait_until_there_is_space_again(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(DISK_BYTES // 2))
    path = small_disk / "jobs.db"
    store = SQLiteStore(path)
    await store.open()
    world = World(f"sqlite:///{path}", store)
    started, go_on = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        started.set()
        await go_on.wait()
        return "x" * 200_000

    job_ids = [await world.submit(world.handle(work)) for _ in range(3)]
    async with world.worker():
        await started.wait()
        await fill(world)
        go_on.set()
        await asyncio.sleep(0.5)  # the disk stays full for a while
        assert [(await world.job(job_id)).state for job_id in job_ids] == [State.RUNNING] * 3
        ballast.unlink()
        jobs = [await world.until(job_id) for job_id in job_ids]
    assert [(job.state, job.attempt) for job in jobs] == [(State.COMPLETED, 1)] * 3
    await store.close()


async def fill(world: World) -> None:
    with pytest.raises(Unavailable, match="free space"):
        await submit_for_ever(world)


async def submit_for_ever(world: World) -> None:
    """Jobs nobody serves."""
    large = Payload.of_bytes(bytes(100_000))
    while True:
        await world.submit_all([NewJob(id=uuid4(), type="ballast", queue="ballast", payload=large, retry=SOON)])
