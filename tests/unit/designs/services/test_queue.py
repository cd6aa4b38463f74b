"""The queue: QUEUE-1 to QUEUE-4."""

import asyncio

import grpc
import pytest

from holdfast.designs.services.queue import FifoQueue
from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.refusals import Refusal
from tests.unit.designs.services.parts import Clock, new_id


async def enqueue(queue: FifoQueue, job_id: str | None = None) -> str:
    job_id = job_id or new_id()
    assert (await queue.enqueue_job(internal.EnqueueJobRequest(job_id=job_id, enqueued_at_ms=1))).accepted
    return job_id


async def dequeue(queue: FifoQueue, seconds_left: float | None = 0.25) -> str:
    answer = await queue.dequeue_job(internal.DequeueJobRequest(worker_id="w"), seconds_left=seconds_left)
    assert answer.found == bool(answer.job_id)
    return answer.job_id


async def asking(queue: FifoQueue) -> asyncio.Task[str]:
    """One that waits inside the queue by now."""
    task = asyncio.ensure_future(dequeue(queue, None))
    await asyncio.sleep(0)
    assert queue._askers
    return task


async def test_jobs_leave_in_the_order_in_which_they_came() -> None:
    queue = FifoQueue()
    ids = [await enqueue(queue) for _ in range(5)]
    assert [await dequeue(queue) for _ in range(5)] == ids


async def test_a_job_is_in_the_queue_once() -> None:
    """QUEUE-1."""
    queue = FifoQueue()
    first = await enqueue(queue)
    await enqueue(queue)
    await enqueue(queue, first)
    assert len(queue) == 2
    assert await dequeue(queue) == first


async def test_removing_is_safe_to_repeat() -> None:
    queue = FifoQueue()
    job_id = await enqueue(queue)
    request = internal.RemoveJobIfPresentRequest(job_id=job_id)
    assert (await queue.remove_job_if_present(request)).removed
    assert not (await queue.remove_job_if_present(request)).removed
    assert await dequeue(queue) == ""


async def test_an_asker_is_given_the_job_that_comes_while_it_waits() -> None:
    """QUEUE-3."""
    queue = FifoQueue()
    first, second = await asking(queue), await asking(queue)
    ids = [await enqueue(queue), await enqueue(queue)]
    assert [await first, await second] == ids


async def test_an_asker_leaves_without_when_its_time_is_over() -> None:
    """QUEUE-3."""
    queue = FifoQueue()
    assert await dequeue(queue, 0.21) == ""
    assert not queue._askers


@pytest.mark.parametrize("seconds_left", [0.19, 0.0, -1.0])
async def test_nothing_is_popped_for_a_call_with_under_200_ms_left(seconds_left: float) -> None:
    """QUEUE-2."""
    queue = FifoQueue()
    job_id = await enqueue(queue)
    assert await dequeue(queue, seconds_left) == ""
    assert await dequeue(queue) == job_id


async def test_nothing_is_popped_for_an_asker_that_was_cancelled() -> None:
    """QUEUE-2."""
    queue = FifoQueue()
    gone = await asking(queue)
    gone.cancel()
    job_id = await enqueue(queue)
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert await dequeue(queue) == job_id


async def test_an_asker_that_is_cancelled_after_it_was_woken_passes_the_job_on() -> None:
    """QUEUE-2."""
    queue = FifoQueue()
    gone, next_one = await asking(queue), await asking(queue)
    job_id = await enqueue(queue)  # wakes the first of them
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    async with asyncio.timeout(10):
        assert await next_one == job_id


async def test_a_job_that_somebody_took_first_leaves_the_asker_waiting_for_the_next() -> None:
    """QUEUE-2."""
    queue = FifoQueue()
    asker = await asking(queue)
    first = await enqueue(queue)
    assert await dequeue(queue) == first  # before the one that was woken could run
    second = await enqueue(queue)
    assert await asker == second


async def test_a_malformed_id_or_nameless_worker_is_refused() -> None:
    queue = FifoQueue()
    with pytest.raises(Refusal) as caught:
        await queue.enqueue_job(internal.EnqueueJobRequest(job_id="abc"))
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(Refusal, match="worker_id"):
        await queue.dequeue_job(internal.DequeueJobRequest())


async def settle(queue: FifoQueue, *settled: str) -> str:
    """Dequeue as one that settles."""
    answer = await queue.dequeue_job(internal.DequeueJobRequest(worker_id="w"), seconds_left=0.21, settled=settled)
    return answer.job_id


async def test_an_id_that_is_not_settled_for_5_s_is_in_front_again() -> None:
    """QUEUE-4."""
    clock = Clock()
    queue = FifoQueue(stopwatch=clock.stopwatch)
    lost = [await enqueue(queue), await enqueue(queue)]
    assert [await settle(queue), await settle(queue)] == lost
    waiting = await enqueue(queue)
    clock.advance(4.9)
    assert await settle(queue) == waiting
    behind = await enqueue(queue)
    clock.advance(0.1)
    assert sorted([await settle(queue), await settle(queue)]) == sorted(lost)
    assert await settle(queue) == behind


async def test_an_id_that_is_settled_does_not_come_back() -> None:
    """QUEUE-4."""
    clock = Clock()
    queue = FifoQueue(stopwatch=clock.stopwatch)
    job_id = await enqueue(queue)
    assert await settle(queue) == job_id
    assert await settle(queue, job_id) == ""
    clock.advance(60)
    assert await settle(queue) == ""


async def test_who_does_not_settle_takes_an_id_for_good() -> None:
    """QUEUE-4."""
    clock = Clock()
    queue = FifoQueue(stopwatch=clock.stopwatch)
    job_id = await enqueue(queue)
    assert await dequeue(queue) == job_id
    clock.advance(60)
    assert await settle(queue) == ""


async def test_an_id_that_was_removed_and_not_settled_is_in_front_again() -> None:
    """QUEUE-4."""
    clock = Clock()
    queue = FifoQueue(stopwatch=clock.stopwatch)
    kept, settled = await enqueue(queue), await enqueue(queue)
    for job_id in (kept, settled):
        assert (await queue.remove_job_if_present(internal.RemoveJobIfPresentRequest(job_id=job_id))).removed
    assert await settle(queue, settled) == ""
    clock.advance(5)
    assert await settle(queue) == kept
    assert await settle(queue) == ""
