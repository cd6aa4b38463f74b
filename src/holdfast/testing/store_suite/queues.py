"""Queues: exact counts after every verb, and pause."""

from holdfast.core.commands import QueueStats
from holdfast.core.states import State
from holdfast.testing.factories import (
    FAIL,
    RETRY,
    cancel_one,
    claim,
    claimed_ids,
    job_in_state,
    new_job,
    read_counts,
    register,
    replay_one,
    running_job,
    settle,
    submit_jobs,
    submit_one,
    tick,
)
from holdfast.testing.harness import StoreHarness

S = State


async def read_queue(harness: StoreHarness, name: str) -> QueueStats:
    (stats,) = [queue for queue in await harness.store.read_queues() if queue.name == name]
    return stats


async def test_a_store_without_jobs_has_no_queues(harness: StoreHarness) -> None:
    """Store.read_queues."""
    assert await harness.store.read_queues() == []


async def test_counts_are_exact_after_every_verb(harness: StoreHarness) -> None:
    """Store.read_queues: exact. INVARIANT-1."""
    store, worker = harness.store, await register(harness.store)

    async def counts() -> dict[State, int]:
        return await read_counts(store)

    await submit_jobs(store, *(new_job() for _ in range(5)), new_job(delay_seconds=10.0))
    assert await counts() == {S.SCHEDULED: 5, S.DELAYED: 1}
    jobs = await claim(store, worker, limit=4)
    assert await counts() == {S.SCHEDULED: 1, S.DELAYED: 1, S.RUNNING: 4}
    await settle(store, jobs[0])
    assert await counts() == {S.SCHEDULED: 1, S.DELAYED: 1, S.RUNNING: 3, S.COMPLETED: 1}
    await settle(store, jobs[1], RETRY)
    await settle(store, jobs[2], FAIL)
    expected = {S.SCHEDULED: 1, S.DELAYED: 1, S.RUNNING: 1, S.COMPLETED: 1, S.RETRYING: 1, S.FAILED: 1}
    assert await counts() == expected
    await store.extend([jobs[3].lease])
    await cancel_one(store, jobs[3].id)
    assert await counts() == expected, "a request is not a change of state"
    await store.leave(worker)
    del expected[S.RUNNING]
    assert await counts() == {**expected, S.CANCELLED: 1}, "what was to be cancelled is, when it is handed back"
    harness.clock.advance(60)
    await tick(store)
    assert await counts() == {S.SCHEDULED: 3, S.COMPLETED: 1, S.FAILED: 1, S.CANCELLED: 1}
    await replay_one(store, jobs[2].id)
    assert await counts() == {S.SCHEDULED: 4, S.COMPLETED: 1, S.CANCELLED: 1}
    harness.clock.advance(7 * 24 * 3600 - 30)
    await tick(store)
    assert await counts() == {S.DEAD_LETTER: 3, S.SCHEDULED: 1}, "lifetimes, retention; the replayed one lives on"


async def test_each_queue_has_its_own_counts(harness: StoreHarness) -> None:
    """QueueStats."""
    for queue, count in (("a", 2), ("b", 1)):
        await submit_jobs(harness.store, *(new_job(queue=queue) for _ in range(count)))
    assert {q.name: q.counts.get(S.SCHEDULED) for q in await harness.store.read_queues()} == {"a": 2, "b": 1}


async def test_the_oldest_waiting_job_of_a_queue_is_known(harness: StoreHarness) -> None:
    """QueueStats.oldest_scheduled_at."""
    first_at = harness.clock.now()
    await submit_one(harness.store)
    harness.clock.advance(5)
    await submit_one(harness.store)
    await submit_one(harness.store, queue="other")
    assert (await read_queue(harness, "default")).oldest_scheduled_at == first_at
    assert (await read_queue(harness, "other")).oldest_scheduled_at == harness.clock.now()
    worker = await register(harness.store)
    await claim(harness.store, worker, limit=1)
    assert (await read_queue(harness, "default")).oldest_scheduled_at == harness.clock.now()
    await claim(harness.store, worker, limit=1)
    assert (await read_queue(harness, "default")).oldest_scheduled_at is None


async def test_a_queue_whose_jobs_are_gone_is_still_known(harness: StoreHarness) -> None:
    """Store.read_queues: every queue that has, or had, jobs."""
    await job_in_state(harness.store, S.CANCELLED, queue="past")
    harness.clock.advance(7 * 24 * 3600)
    await tick(harness.store)
    stats = await read_queue(harness, "past")
    assert sum(stats.counts.values()) == 0


async def test_a_paused_queue_gives_no_jobs(harness: StoreHarness) -> None:
    paused = await submit_one(harness.store, queue="paused")
    other = await submit_one(harness.store, queue="other")
    worker = await register(harness.store)
    await harness.store.pause("paused")
    assert (await read_queue(harness, "paused")).is_paused
    assert await claimed_ids(harness.store, worker, queues=("paused",)) == []
    assert await claimed_ids(harness.store, worker, queues=("paused", "other")) == [other]
    assert await claimed_ids(harness.store, worker, queues=("paused",), types=("example",)) == []
    await harness.store.resume("paused")
    assert not (await read_queue(harness, "paused")).is_paused
    assert await claimed_ids(harness.store, worker, queues=("paused",)) == [paused]


async def test_pause_stops_claims_and_nothing_else(harness: StoreHarness) -> None:
    """What runs goes on, what comes waits."""
    job = await running_job(harness.store, queue="q")
    retrying = await running_job(harness.store, queue="q")
    await harness.store.pause("q")
    await submit_one(harness.store, queue="q", delay_seconds=5.0)
    assert await settle(harness.store, job) is S.COMPLETED
    assert await settle(harness.store, retrying, RETRY) is S.RETRYING
    harness.clock.advance(60)
    await tick(harness.store)
    assert await read_counts(harness.store, "q") == {S.COMPLETED: 1, S.SCHEDULED: 2}
    worker = await register(harness.store)
    assert await claim(harness.store, worker, queues=("q",)) == []
    await harness.store.resume("q")
    assert len(await claim(harness.store, worker, queues=("q",))) == 2


async def test_pause_and_resume_may_be_repeated(harness: StoreHarness) -> None:
    """PORT-4; also for a queue that has never had a job."""
    for _ in range(2):
        await harness.store.pause("empty")
    stats = await read_queue(harness, "empty")
    assert (stats.is_paused, sum(stats.counts.values())) == (True, 0)
    for _ in range(2):
        await harness.store.resume("empty")
    await harness.store.resume("never heard of")
    await submit_one(harness.store, queue="empty")
    assert not (await read_queue(harness, "empty")).is_paused


async def test_a_queue_may_be_paused_before_its_first_job(harness: StoreHarness) -> None:
    await harness.store.pause("q")
    await submit_one(harness.store, queue="q")
    worker = await register(harness.store)
    assert await claim(harness.store, worker, queues=("q",)) == []
