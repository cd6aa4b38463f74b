"""A clock that ran ahead and was put right keeps nothing from happening: jobs become due, periodic ones fire (CRON-3).

Beside the suite because the harness's clock, like time, never goes back.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from holdfast.core import limits
from holdfast.core.commands import AlreadyFired, Fire, FireAnswer, Fired, Heartbeat
from holdfast.core.states import State
from holdfast.testing import StoreHarness
from holdfast.testing.factories import (
    new_job,
    pass_time,
    read_all,
    read_state,
    register,
    running_job,
    submit_one,
    tick,
)

DAY = timedelta(days=1)


@contextmanager
def put_back(harness: StoreHarness, by: timedelta) -> Iterator[None]:
    harness.clock._now -= by
    yield
    harness.clock._now += by


async def fire_now(harness: StoreHarness) -> FireAnswer:
    (answer,) = await harness.store.fire([Fire(name="nightly", slot=harness.clock.now(), job=new_job())])
    return answer


async def test_a_slot_that_lies_in_the_future_keeps_none_before_it_from_firing(harness: StoreHarness) -> None:
    wrong = await fire_now(harness)
    with put_back(harness, 100 * DAY):
        assert (await harness.store.read_cron()).slots == ()
        assert isinstance(await fire_now(harness), Fired)
        harness.clock.advance(1)
        right = await fire_now(harness)
        assert isinstance(right, Fired)
        (slot,) = (await harness.store.read_cron()).slots
        assert (slot.slot, slot.job_id) == (harness.clock.now(), right.job_id)
    assert isinstance(wrong, Fired)
    assert len(await read_all(harness.store)) == 3


async def test_a_slot_is_not_fired_again_when_its_time_comes_again(harness: StoreHarness) -> None:
    slot = harness.clock.now()
    first = await fire_now(harness)
    assert isinstance(first, Fired)
    with put_back(harness, DAY):
        await fire_now(harness)
    assert await fire_now(harness) == AlreadyFired(slot, first.job_id)


async def test_retention_leaves_the_newest_that_has_come(harness: StoreHarness) -> None:
    await fire_now(harness)
    retention = timedelta(seconds=limits.CRON_RETENTION_SECONDS)
    with put_back(harness, 3 * retention):
        right = await fire_now(harness)
        assert isinstance(right, Fired)
        with put_back(harness, -2 * retention):
            await tick(harness.store)
        (slot,) = (await harness.store.read_cron()).slots
        assert slot.job_id == right.job_id


async def test_a_job_is_due_although_time_was_there_before(harness: StoreHarness) -> None:
    """Others were due while the clock was ahead, so whoever ticks has seen those times."""
    await submit_one(harness.store, delay_seconds=5.0)
    harness.clock.advance(DAY.total_seconds())
    await tick(harness.store)
    with put_back(harness, DAY):
        late = await submit_one(harness.store, delay_seconds=300.0)
        harness.clock.advance(300)
        await tick(harness.store)
        assert await read_state(harness.store, late) is State.SCHEDULED


async def test_a_worker_that_dies_after_the_clock_was_put_back_is_lost(harness: StoreHarness) -> None:
    """The time at which it was last seen lies in the future again."""
    job = await running_job(harness.store)
    await tick(harness.store)
    with put_back(harness, DAY):
        await pass_time(harness, 60)
        assert await read_state(harness.store, job.id) is State.SCHEDULED


async def test_a_worker_that_lives_is_not_lost_when_the_clock_is_put_back(harness: StoreHarness) -> None:
    worker = await register(harness.store)
    job = await running_job(harness.store, worker=worker)
    await pass_time(harness, 5)
    with put_back(harness, DAY):
        for _ in range(6):
            await pass_time(harness, 5)
            await harness.store.heartbeat(Heartbeat(worker=worker, held=(job.lease,)))
        assert await read_state(harness.store, job.id) is State.RUNNING
