"""Jobs whose worker was lost: any of them may be the one that killed it."""

import asyncio
from uuid import uuid4

from holdfast.core.commands import Claim, Tick
from holdfast.core.job import Timeouts
from holdfast.core.retry import Retry
from holdfast.core.states import State
from holdfast.testing.factories import register
from tests.integration.worker.world import World


async def test_the_last_chances_of_reclaimed_jobs_are_never_side_by_side(world: World) -> None:
    """SLOT-5: one that kills its worker cannot make the others dead letters."""
    running = most = 0

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.3)  # longer than the next claim waits for its end
        running -= 1

    name = world.handle(work)
    ids = [await world.submit(name, retry=Retry(max_attempts=2), timeouts=Timeouts(visibility=0.5)) for _ in range(3)]
    lost = await register(world.store)
    claim = Claim(owner=lost, queues=("default",), limit=3, nonce=uuid4())
    assert len(await world.store.claim(claim)) == 3
    for job_id in ids:
        while (await world.job(job_id)).state is State.RUNNING:
            await asyncio.sleep(0.05)
            await world.store.tick(Tick())
    async with world.worker(concurrency=3):
        jobs = [await world.until(job_id) for job_id in ids]
    assert [(job.state, job.attempt) for job in jobs] == [(State.COMPLETED, 2)] * 3
    assert most == 1
