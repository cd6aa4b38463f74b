"""The order in which jobs are claimed: by priority, then by place, queue by queue."""

from uuid import UUID

from holdfast.core.commands import HandedBack
from holdfast.core.job import Timeouts
from holdfast.core.priority import Priority
from holdfast.core.states import State
from holdfast.testing.factories import (
    FAIL,
    RETRY,
    after,
    claim_one,
    claimed_ids,
    new_job,
    read_one,
    register,
    replay_one,
    running_job,
    settle,
    submit_jobs,
    submit_one,
    tick,
)
from holdfast.testing.harness import StoreHarness


async def test_a_higher_priority_goes_first(harness: StoreHarness) -> None:
    """The lower number is the higher priority."""
    ids = {level: await submit_one(harness.store, priority=level) for level in reversed(Priority)}
    worker = await register(harness.store)
    assert await claimed_ids(harness.store, worker) == [ids[level] for level in Priority]


async def test_equal_priority_goes_in_the_order_of_submission(harness: StoreHarness) -> None:
    ids = [await submit_one(harness.store, queue="q") for _ in range(5)]
    jobs = [new_job(queue="q") for _ in range(5)]
    await submit_jobs(harness.store, *jobs)
    worker = await register(harness.store)
    expected = ids + [job.id for job in jobs]
    found = [await claimed_ids(harness.store, worker, queues=("q",), limit=3) for _ in range(4)]
    assert [job_id for batch in found for job_id in batch] == expected


async def test_low_priority_runs_when_nothing_better_waits(harness: StoreHarness) -> None:
    low = await submit_one(harness.store, priority=Priority.BULK)
    high = await submit_one(harness.store, priority=Priority.CRITICAL)
    worker = await register(harness.store)
    assert [await claimed_ids(harness.store, worker, limit=1) for _ in range(2)] == [[high], [low]]


async def test_a_running_job_is_not_interrupted_for_a_better_one(harness: StoreHarness) -> None:
    low = await running_job(harness.store, queue="default", priority=Priority.BULK)
    await submit_one(harness.store, priority=Priority.CRITICAL)
    await claim_one(harness.store, await register(harness.store))
    await tick(harness.store)
    assert (await read_one(harness.store, low.id)).lease == low.lease


async def test_queues_are_served_in_the_order_named(harness: StoreHarness) -> None:
    """Priority orders inside a queue, never across queues."""
    low = await submit_one(harness.store, queue="first", priority=Priority.BULK)
    high = await submit_one(harness.store, queue="second", priority=Priority.CRITICAL)
    worker = await register(harness.store)
    assert await claimed_ids(harness.store, worker, queues=("first", "second")) == [low, high]


async def test_a_claim_goes_on_to_the_next_queue_for_the_rest(harness: StoreHarness) -> None:
    """Claim: queue by queue."""
    first = [await submit_one(harness.store, queue="first") for _ in range(2)]
    second = [await submit_one(harness.store, queue="second") for _ in range(3)]
    worker = await register(harness.store)
    found = await claimed_ids(harness.store, worker, queues=("first", "second"), limit=4)
    assert found == first + second[:2]


async def test_a_delayed_job_takes_its_place_when_it_is_due(harness: StoreHarness) -> None:
    """First in, first out goes by when a job became claimable."""
    delayed = await submit_one(harness.store, delay_seconds=10.0)
    early = await submit_one(harness.store)
    harness.clock.advance(10)
    await tick(harness.store)
    late = await submit_one(harness.store)
    worker = await register(harness.store)
    assert await claimed_ids(harness.store, worker) == [early, delayed, late]


async def test_jobs_that_become_due_together_go_by_their_times(harness: StoreHarness) -> None:
    ids = [await submit_one(harness.store, delay_seconds=float(seconds)) for seconds in (30, 10, 20)]
    harness.clock.advance(60)
    await tick(harness.store)
    worker = await register(harness.store)
    assert await claimed_ids(harness.store, worker) == [ids[1], ids[2], ids[0]]


async def test_a_retry_takes_a_new_place(harness: StoreHarness) -> None:
    worker = await register(harness.store)
    first, second = [await submit_one(harness.store) for _ in range(2)]
    await settle(harness.store, await claim_one(harness.store, worker), RETRY)
    third = await submit_one(harness.store)
    harness.clock.advance(60)
    await tick(harness.store)
    assert await claimed_ids(harness.store, worker) == [second, third, first]


async def test_a_released_job_takes_a_new_place(harness: StoreHarness) -> None:
    blocker = await running_job(harness.store)
    waiting = await submit_one(harness.store, dependencies=after(blocker.id))
    early = await submit_one(harness.store)
    await settle(harness.store, blocker)
    late = await submit_one(harness.store)
    worker = await register(harness.store)
    assert await claimed_ids(harness.store, worker) == [early, waiting, late]


async def test_a_job_that_comes_back_takes_a_new_place(harness: StoreHarness) -> None:
    """Handed back, reclaimed or replayed."""
    worker = await register(harness.store)
    ids = [await submit_one(harness.store, timeouts=Timeouts(visibility=10.0)) for _ in range(3)]
    handed_back, replayed, expired = [await claim_one(harness.store, worker) for _ in range(3)]
    stays = await submit_one(harness.store)
    await settle(harness.store, handed_back, HandedBack())
    await settle(harness.store, replayed, FAIL)
    await replay_one(harness.store, replayed.id)
    harness.clock.advance(10)
    await tick(harness.store)
    found: list[UUID] = []
    for _ in range(4):
        found += await claimed_ids(harness.store, worker)
    assert found == [stays, *ids]
    assert [handed_back.id, replayed.id, expired.id] == ids


async def test_a_dependent_inherits_the_best_priority_it_waits_for(harness: StoreHarness) -> None:
    high = await submit_one(harness.store, queue="parents", priority=Priority.HIGH)
    low = await submit_one(harness.store, queue="parents", priority=Priority.LOW)
    child = await submit_one(harness.store, priority=Priority.BULK, dependencies=after(low, high))
    grandchild = await submit_one(harness.store, priority=Priority.LOW, dependencies=after(child))
    assert (await read_one(harness.store, child)).priority is Priority.HIGH
    assert (await read_one(harness.store, grandchild)).priority is Priority.HIGH
    assert (await read_one(harness.store, low)).priority is Priority.LOW


async def test_a_dependent_keeps_its_own_priority_where_that_is_better(harness: StoreHarness) -> None:
    low = await submit_one(harness.store, priority=Priority.LOW)
    child = await submit_one(harness.store, priority=Priority.CRITICAL, dependencies=after(low))
    assert (await read_one(harness.store, child)).priority is Priority.CRITICAL
    assert (await read_one(harness.store, low)).priority is Priority.LOW


async def test_an_inherited_priority_orders_the_claim(harness: StoreHarness) -> None:
    """An ended dependency counts too."""
    parent = await running_job(harness.store, priority=Priority.HIGH)
    await settle(harness.store, parent)
    normal = await submit_one(harness.store)
    child = await submit_one(harness.store, priority=Priority.BULK, dependencies=after(parent.id))
    assert (await read_one(harness.store, child)).state is State.SCHEDULED
    worker = await register(harness.store)
    assert await claimed_ids(harness.store, worker) == [child, normal]
