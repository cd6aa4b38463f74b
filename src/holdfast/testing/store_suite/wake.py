"""Wake: whoever waits for work is told soon, and always in time to look for itself. A hint, never a promise."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from holdfast.core.commands import Fire
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.testing.factories import (
    HANDED_BACK,
    after,
    cancel_one,
    claim,
    hears,
    job_in_state,
    new_job,
    register,
    replay_one,
    running_job,
    settle,
    submit_one,
    tick,
)
from holdfast.testing.harness import StoreHarness

ROUNDS: Final = 50
ROUND_SECONDS: Final = 0.1
LONG_SECONDS: Final = 30.0
Cause = Callable[[StoreHarness], Awaitable[object]]


async def be_quiet(store: Store) -> None:
    """Until nobody wakes for nothing any more, as a store may that has just begun to listen."""
    for _ in range(ROUNDS):
        if not await hears(store, ["q"], within_seconds=ROUND_SECONDS):
            return


async def is_woken(store: Store, harness: StoreHarness, cause: Cause) -> bool:
    """Whether a waiter is told. The cause is repeated: the first may come before the waiter is there."""
    await be_quiet(store)
    waiter = asyncio.create_task(hears(store, ["q"], within_seconds=LONG_SECONDS))
    try:
        for _ in range(ROUNDS):
            await asyncio.sleep(0)
            await cause(harness)
            done, _ = await asyncio.wait({waiter}, timeout=ROUND_SECONDS)
            if done:
                return waiter.result()
        return False
    finally:
        waiter.cancel()


async def submitting(harness: StoreHarness) -> None:
    await submit_one(harness.store, queue="q")


async def submitting_with_a_key(harness: StoreHarness) -> None:
    await submit_one(harness.store, queue="q", key="k", key_window_seconds=0.0)


async def firing(harness: StoreHarness) -> None:
    harness.clock.advance(1)
    await harness.store.fire([Fire(name="cron", slot=harness.clock.now(), job=new_job(queue="q"))])


async def becoming_due(harness: StoreHarness) -> None:
    await submit_one(harness.store, queue="q", delay_seconds=5.0)
    harness.clock.advance(5)
    await tick(harness.store)


async def being_released(harness: StoreHarness) -> None:
    job = await running_job(harness.store)
    await submit_one(harness.store, queue="q", dependencies=after(job.id))
    await settle(harness.store, job)


async def being_handed_back(harness: StoreHarness) -> None:
    job = await running_job(harness.store, queue="q")
    await settle(harness.store, job, HANDED_BACK)
    await cancel_one(harness.store, job.id)


async def being_replayed(harness: StoreHarness) -> None:
    job_id = await job_in_state(harness.store, State.FAILED, queue="q")
    await replay_one(harness.store, job_id)
    await cancel_one(harness.store, job_id)


async def resuming(harness: StoreHarness) -> None:
    await harness.store.resume("q")


@pytest.mark.parametrize(
    "cause",
    [
        submitting,
        submitting_with_a_key,
        firing,
        becoming_due,
        being_released,
        being_handed_back,
        being_replayed,
        resuming,
    ],
    ids=lambda cause: cause.__name__,
)
async def test_a_waiter_is_woken(harness: StoreHarness, cause: Cause) -> None:
    """It is woken at once; polling is only the fallback."""
    assert await is_woken(harness.store, harness, cause)


async def test_a_waiter_of_another_store_is_woken(harness: StoreHarness) -> None:
    """By NOTIFY, or whatever carries it between processes."""
    assert await is_woken(await harness.second_store(), harness, submitting)


async def test_a_waiter_comes_back_in_time(harness: StoreHarness) -> None:
    """Store.wait: a hint may be missed, so that it never waits longer than it was told."""
    await asyncio.wait_for(hears(harness.store, ["q"], within_seconds=0.05), LONG_SECONDS)


async def test_many_wait_at_once(harness: StoreHarness) -> None:
    waiters = [asyncio.create_task(hears(harness.store, ["q", "r"], within_seconds=0.2)) for _ in range(5)]
    await submitting(harness)
    await asyncio.wait_for(asyncio.gather(*waiters), LONG_SECONDS)


async def test_a_waiter_may_give_up(harness: StoreHarness) -> None:
    """Store.wait: cancelled, it leaves the store as it was."""
    waiter = asyncio.create_task(hears(harness.store, ["q"], within_seconds=LONG_SECONDS))
    await asyncio.sleep(0.01)
    waiter.cancel()
    await asyncio.wait({waiter}, timeout=LONG_SECONDS)
    assert waiter.done()
    await submitting(harness)
    assert len(await claim(harness.store, await register(harness.store), queues=("q",))) == 1
