"""What a delivery says, asked without a worker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from holdfast.core.commands import Hint, Release
from holdfast.core.ports import Delivery
from holdfast.testing.factories import submit_one
from holdfast.testing.harness import DeliveryHarness

ROUNDS: Final = 50
ROUND_SECONDS: Final = 0.1
LONG_SECONDS: Final = 30.0
ROOM: Final = {"q": 2, "r": 2}


@asynccontextmanager
async def opened(harness: DeliveryHarness) -> AsyncIterator[Delivery]:
    delivery = harness.new_delivery()
    await delivery.open()
    try:
        yield delivery
    finally:
        await delivery.close()


async def hear(delivery: Delivery, *, within_seconds: float = ROUND_SECONDS) -> list[Hint]:
    async with asyncio.timeout(LONG_SECONDS):
        return list(await delivery.receive(ROOM, limit=2, timeout_seconds=within_seconds))


async def until_quiet(delivery: Delivery) -> None:
    """One that has just begun to listen may speak for nothing."""
    for _ in range(ROUNDS):
        hints = await hear(delivery)
        if not hints:
            return
        await delivery.finish(hints)


async def test_a_job_that_becomes_claimable_is_heard_of(delivery_harness: DeliveryHarness) -> None:
    """Submitted again and again: a hint may be lost (DELIVERY-1)."""
    async with opened(delivery_harness) as delivery:
        await until_quiet(delivery)
        hearing = asyncio.create_task(hear(delivery, within_seconds=LONG_SECONDS))
        for _ in range(ROUNDS):
            await asyncio.sleep(0)
            await submit_one(delivery_harness.store, queue="q")
            if (await asyncio.wait({hearing}, timeout=ROUND_SECONDS))[0]:
                break
        hints = await hearing
        assert hints
        assert all(hint.queue in ("q", None) for hint in hints)


async def test_with_nothing_to_say_a_delivery_comes_back_in_time(delivery_harness: DeliveryHarness) -> None:
    """DELIVERY-2."""
    async with opened(delivery_harness) as delivery:
        await until_quiet(delivery)
        assert await hear(delivery, within_seconds=0.05) == []


async def test_no_more_is_given_out_than_there_is_room_for(delivery_harness: DeliveryHarness) -> None:
    """DELIVERY-2."""
    async with opened(delivery_harness) as delivery:
        for queue in ("q", "q", "q", "r"):
            await submit_one(delivery_harness.store, queue=queue)
        named = [job_id for hint in await hear(delivery) for job_id in hint.ids]
        assert len(named) <= 2


async def test_whoever_gives_up_listening_takes_nothing_along(delivery_harness: DeliveryHarness) -> None:
    """DELIVERY-2: the next one hears of the job."""
    async with opened(delivery_harness) as delivery:
        await until_quiet(delivery)
        for _ in range(3):
            hearing = asyncio.create_task(hear(delivery, within_seconds=LONG_SECONDS))
            await asyncio.sleep(0.01)
            hearing.cancel()
            await asyncio.wait({hearing}, timeout=LONG_SECONDS)
            assert hearing.cancelled()


async def test_what_was_said_may_be_finished_and_released_again_and_late(delivery_harness: DeliveryHarness) -> None:
    """DELIVERY-4."""
    async with opened(delivery_harness) as delivery:
        await submit_one(delivery_harness.store, queue="q")
        hints = await hear(delivery)
        for _ in range(2):
            await delivery.finish(hints)
            await delivery.release([Release(hint) for hint in hints])
        await delivery.finish([])
        await delivery.release([])


async def test_a_delivery_may_be_closed_while_somebody_listens(delivery_harness: DeliveryHarness) -> None:
    async with opened(delivery_harness) as delivery:
        hearing = asyncio.create_task(hear(delivery, within_seconds=0.1))
        await asyncio.sleep(0.01)
        await delivery.close()
        await asyncio.wait({hearing}, timeout=LONG_SECONDS)
        assert hearing.done()
