"""A caller's open transaction holds the row of a running job: that job waits for it, and nothing else does."""

import asyncio
from uuid import uuid4

from holdfast.core.commands import NewJob, Submit, Tick
from holdfast.core.states import State
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.factories import after, new_job
from holdfast.worker.context import Context
from tests.integration.postgres.databases import connected
from tests.integration.worker.conftest import on
from tests.integration.worker.world import PATIENCE_SECONDS, World

WORKER_TIMEOUT_SECONDS = 2.0


@on("postgres")
async def test_a_held_job_delays_no_other_and_the_worker_stays_alive(world: World) -> None:
    started, may_end = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    async def held(ctx: Context) -> str:
        ran.append("held")
        started.set()
        await may_end.wait()
        ctx.progress(90)
        return "kept"

    async def other(ctx: Context) -> None:
        ran.append("other")
        ctx.progress(50)
        await ctx.checkpoint("here")

    world.handle(held)
    world.handle(other)
    tick = Tick(worker_timeout_seconds=WORKER_TIMEOUT_SECONDS)
    assert isinstance(world.store, PostgresStore)
    async with world.worker(concurrency=4, tick=tick) as worker, connected(world.url) as connection:
        job_id = await world.submit("held")
        await started.wait()
        async with connection.transaction():
            dependent = new_job(queue="nobody claims here", dependencies=after(job_id))
            await world.store.submit([Submit(jobs=(dependent,))], connection=connection)
            may_end.set()
            # For longer than a silent worker would be believed to live.
            ends_at = asyncio.get_running_loop().time() + 2 * WORKER_TIMEOUT_SECONDS
            others = 0
            while asyncio.get_running_loop().time() < ends_at:
                ids = [uuid4() for _ in range(5)]
                await world.submit_all([NewJob(id=one, type="other") for one in ids])
                async with asyncio.timeout(PATIENCE_SECONDS):
                    for one in ids:
                        assert (await world.until(one)).state is State.COMPLETED
                others += len(ids)
            assert (await world.job(job_id)).state is State.RUNNING
        done = await world.until(job_id)
        assert done.state is State.COMPLETED
        assert done.result == b'"kept"'
        assert [one.is_lost for one in await world.store.read_workers() if one.id == worker.id] == [False]
    assert ran.count("held") == 1
    assert ran.count("other") == others
