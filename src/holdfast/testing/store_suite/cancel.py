"""Cancel: what waits ends at once, what runs is asked to stop."""

from uuid import uuid4

import pytest

from holdfast.core.commands import CancelAnswer, CancelOutcome, Heartbeat, Outcome
from holdfast.core.failures import Category
from holdfast.core.job import Timeouts
from holdfast.core.retry import Retry
from holdfast.core.states import State
from holdfast.testing.factories import (
    COMPLETED,
    FAIL,
    GIVE_UP,
    HANDED_BACK,
    RETRY,
    STOPPED,
    cancel_one,
    claim,
    job_in_state,
    pass_time,
    read_one,
    read_state,
    register,
    running_job,
    settle,
    submit_one,
    tick,
)
from holdfast.testing.harness import StoreHarness
from holdfast.testing.invariants import snapshot

WAITING = (State.PENDING, State.DELAYED, State.SCHEDULED, State.RETRYING)


@pytest.mark.parametrize("state", WAITING)
async def test_a_waiting_job_is_cancelled_at_once(harness: StoreHarness, state: State) -> None:
    """In every state that is not terminal."""
    job_id = await job_in_state(harness.store, state, queue="mine")
    answer = await cancel_one(harness.store, job_id)
    assert answer == CancelAnswer(CancelOutcome.CANCELLED, State.CANCELLED)
    job = await read_one(harness.store, job_id)
    assert (job.state, job.completed_at) == (State.CANCELLED, harness.clock.now())
    assert job.failure is not None
    assert job.failure.category is Category.CANCELLED
    assert await claim(harness.store, await register(harness.store), queues=("mine",)) == []


async def test_a_running_job_is_asked_to_stop(harness: StoreHarness) -> None:
    """Its holder ends it, with its token."""
    job = await running_job(harness.store)
    answer = await cancel_one(harness.store, job.id)
    assert answer == CancelAnswer(CancelOutcome.REQUESTED, State.RUNNING)
    read = await read_one(harness.store, job.id)
    assert (read.state, read.cancel_requested, read.lease) == (State.RUNNING, True, job.lease)
    assert await settle(harness.store, job, STOPPED) is State.CANCELLED
    read = await read_one(harness.store, job.id)
    assert (read.state, read.attempt, read.cancel_requested) == (State.CANCELLED, 1, False)


async def test_the_heartbeat_carries_the_request_to_the_holder(harness: StoreHarness) -> None:
    """One statement tells that the worker lives, extends its leases and brings cancel requests back."""
    worker = await register(harness.store)
    asked, other = [await running_job(harness.store, worker=worker) for _ in range(2)]
    await cancel_one(harness.store, asked.id)
    answer = await harness.store.heartbeat(Heartbeat(worker=worker, held=(asked.lease, other.lease)))
    assert answer.cancel_requested == {asked.lease.token}
    assert answer.lost == frozenset()


async def test_an_ack_that_comes_first_wins(harness: StoreHarness) -> None:
    job = await running_job(harness.store)
    await cancel_one(harness.store, job.id)
    assert await settle(harness.store, job, COMPLETED) is State.COMPLETED
    answer = await cancel_one(harness.store, job.id)
    assert answer == CancelAnswer(CancelOutcome.ALREADY_ENDED, State.COMPLETED)


@pytest.mark.parametrize(
    "outcome", [RETRY, FAIL, GIVE_UP, HANDED_BACK, STOPPED], ids=["retry", "fail", "give up", "hand back", "stop"]
)
async def test_once_requested_every_other_end_is_cancelled(harness: StoreHarness, outcome: Outcome) -> None:
    """DECIDE-4: a failure, a timeout and a hand-back alike."""
    job = await running_job(harness.store)
    await cancel_one(harness.store, job.id)
    assert await settle(harness.store, job, outcome) is State.CANCELLED
    read = await read_one(harness.store, job.id)
    assert read.failure is not None
    assert read.failure.category is Category.CANCELLED


@pytest.mark.parametrize("max_attempts", [1, 3])
async def test_once_requested_an_expiry_is_cancelled(harness: StoreHarness, max_attempts: int) -> None:
    """With and without attempts left."""
    retry = Retry(max_attempts=max_attempts)
    job = await running_job(harness.store, timeouts=Timeouts(visibility=10.0), retry=retry)
    await cancel_one(harness.store, job.id)
    harness.clock.advance(10)
    await tick(harness.store)
    assert await read_state(harness.store, job.id) is State.CANCELLED


async def test_once_requested_the_workers_death_is_cancelled(harness: StoreHarness) -> None:
    job = await running_job(harness.store)
    await cancel_one(harness.store, job.id)
    await pass_time(harness, 60)
    assert await read_state(harness.store, job.id) is State.CANCELLED


async def test_once_requested_the_end_of_the_lifetime_is_cancelled(harness: StoreHarness) -> None:
    """DECIDE-4."""
    job = await running_job(harness.store, timeouts=Timeouts(lifetime=100.0))
    await cancel_one(harness.store, job.id)
    harness.clock.advance(100)
    await tick(harness.store)
    assert await read_state(harness.store, job.id) is State.CANCELLED


async def test_a_repeated_cancel_is_harmless(harness: StoreHarness) -> None:
    """PORT-4."""
    waiting = await submit_one(harness.store)
    job = await running_job(harness.store)
    await harness.store.cancel([waiting, job.id])
    before = await snapshot(harness.store)
    harness.clock.advance(1)
    answers = await harness.store.cancel([waiting, job.id])
    assert answers == [
        CancelAnswer(CancelOutcome.ALREADY_ENDED, State.CANCELLED),
        CancelAnswer(CancelOutcome.REQUESTED, State.RUNNING),
    ]
    assert await snapshot(harness.store) == before


async def test_cancel_answers_in_the_order_asked(harness: StoreHarness) -> None:
    """Store.cancel: one answer an item, also for one that is not there, and for one asked twice."""
    first, second = [await submit_one(harness.store) for _ in range(2)]
    job = await running_job(harness.store)
    answers = await harness.store.cancel([second, uuid4(), job.id, first, first])
    assert [answer.outcome for answer in answers] == [
        CancelOutcome.CANCELLED,
        CancelOutcome.NOT_FOUND,
        CancelOutcome.REQUESTED,
        CancelOutcome.CANCELLED,
        CancelOutcome.CANCELLED,
    ]
    assert await harness.store.cancel([]) == []


async def test_a_cancelled_job_is_never_run_again(harness: StoreHarness) -> None:
    """STATE-3."""
    job_id = await job_in_state(harness.store, State.CANCELLED, queue="mine")
    await harness.store.replay([job_id])
    await pass_time(harness, 30)
    assert await claim(harness.store, await register(harness.store), queues=("mine",)) == []
