"""A busy, healthy database is found healthy at every moment."""

import asyncio
import contextlib
import random
import time

from holdfast import Context, Holdfast, Retry, TemporaryError, fan_in
from holdfast.core.examination import Examination, Severity, finding_of
from holdfast.engine.doctor import Doctor
from holdfast.wiring import create_store
from tests.integration.doctor.world import Database

BUSY_SECONDS = 8.0


class Busy:
    """An app, and a load of everything that changes two rows at once."""

    def __init__(self, url: str) -> None:
        self.app = app = Holdfast(url, logs="off")

        @app.job(queue="quick")
        async def quick(number: int) -> int:
            return number

        @app.job(queue="shaky", retry=Retry(max_attempts=3, initial_delay=0.05))
        async def shaky(ctx: Context, number: int) -> int:
            if ctx.attempt == 1 or number % 5 == 0:
                raise TemporaryError("again")
            return number

        @app.job(queue="slow")
        async def slow(number: int) -> int:
            await asyncio.sleep(0.2)
            return number

        @app.job(queue="quick")
        async def total() -> int:
            return 0

        self.quick, self.shaky, self.slow, self.total = quick, shaky, slow, total

    async def submit_until(self, ends_at: float, *, seed: int) -> None:
        chance = random.Random(seed)
        while time.monotonic() < ends_at:
            await self.app.submit_many([self.quick.call(n) for n in range(20)])
            await self.shaky.options(delay=chance.random()).submit(chance.randrange(100))
            await fan_in(*(self.quick.call(n) for n in range(10)), into=self.total.call()).submit()
            handle = await self.slow.options(key=f"slow-{chance.random()}", tags={"n": "1"}).submit(1)
            waiting = await self.quick.options(after=[handle]).submit(2)
            await chance.choice([handle, waiting]).cancel()


async def examine_until(url: str, ends_at: float) -> int:
    store = create_store(url)
    await store.open()
    looks = 0
    try:
        while time.monotonic() < ends_at:
            examined = await store.examine(Examination(is_deep=True))
            wrong = [one for one in examined.found if finding_of(one).severity is Severity.WRONG]
            assert not wrong, wrong
            assert (await store.find_overdue()).overdue == ()
            looks += 1
            await asyncio.sleep(0.01)
        assert (await Doctor(store=store, patience_seconds=0.0).repair()).is_healthy
    finally:
        await store.close()
    return looks


async def test_nothing_is_found_wrong_while_workers_submits_cancels_and_fan_ins_run(database: Database) -> None:
    busy = Busy(database.url)
    ends_at = time.monotonic() + BUSY_SECONDS
    async with busy.app, contextlib.AsyncExitStack() as workers:
        for _ in range(2):
            await workers.enter_async_context(busy.app.worker(concurrency=10))
        async with asyncio.TaskGroup() as group:
            for seed in range(2):
                group.create_task(busy.submit_until(ends_at, seed=seed))
            looks = group.create_task(examine_until(database.url, ends_at))
    assert looks.result() > 3
