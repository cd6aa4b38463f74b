"""Between ticks: with nothing due a worker rests, and news of a job that is due sooner end the rest.

The usual interval is longer than these tests wait, so what happens here happens because of the news.
"""

import asyncio
from uuid import uuid4

from holdfast.core.commands import NewJob, Submit
from holdfast.core.errors import HoldfastError
from holdfast.core.retry import Jitter, Retry, Strategy
from holdfast.core.states import State
from holdfast.testing.factories import read_state
from holdfast.wiring import create_store
from holdfast.worker.context import Context
from tests.integration.worker.awkward import Awkward
from tests.integration.worker.conftest import on
from tests.integration.worker.world import PATIENCE_SECONDS, World

RARELY_SECONDS = 2 * PATIENCE_SECONDS
LOOKS = 100
IN_A_MOMENT = Retry(strategy=Strategy.CONSTANT, initial_delay=0.3, jitter=Jitter.NONE)


@on("postgres")
async def test_a_delayed_job_of_another_process_is_started_when_it_is_due(world: World) -> None:
    async def noop() -> None: ...

    world.handle(noop)
    elsewhere = create_store(world.url)
    await elsewhere.open()
    try:
        async with world.worker(tick_seconds=RARELY_SECONDS, poll_seconds=RARELY_SECONDS):
            await world.until(await world.submit("noop"))
            for given in ({"delay_seconds": 0.5}, {"delay_seconds": 0.5, "key": "once"}):
                job = NewJob(id=uuid4(), type="noop", **given)
                (answer,) = await elsewhere.submit([Submit(jobs=(job,))])
                assert not isinstance(answer, HoldfastError)
                assert (await world.until(job.id)).state is State.COMPLETED
    finally:
        await elsewhere.close()


@on("postgres")
async def test_a_retry_is_started_when_it_is_due(world: World) -> None:
    async def second_time_lucky(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise ValueError("not yet")

    world.handle(second_time_lucky)
    async with world.worker(tick_seconds=RARELY_SECONDS, poll_seconds=RARELY_SECONDS):
        job = await world.until(await world.submit("second_time_lucky", retry=IN_A_MOMENT))
    assert (job.state, job.attempt) == (State.COMPLETED, 2)


@on("postgres")
async def test_news_that_come_while_a_tick_is_under_way_are_not_forgotten(world: World) -> None:
    """The tick has looked before the job was to be retried, and is answered after the worker was told of it."""

    async def second_time_lucky(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise ValueError("not yet")

    async def until_told() -> None:
        pulse_store.after.clear()
        while await read_state(pulse_store, job_id) is not State.RETRYING:
            await asyncio.sleep(0.01)
        # Told before the tick began: then the tick has seen the job itself.
        for _ in range(LOOKS):
            if worker._pulse._has_news:
                break
            await asyncio.sleep(0.01)

    world.handle(second_time_lucky)
    pulse_store = Awkward(create_store(world.url), after={"tick": until_told})
    worker = world.new_worker(
        create_pulse_store=lambda: pulse_store, tick_seconds=RARELY_SECONDS, poll_seconds=RARELY_SECONDS
    )
    job_id = await world.submit("second_time_lucky", retry=IN_A_MOMENT)
    async with worker:
        assert (await world.until(job_id)).state is State.COMPLETED
