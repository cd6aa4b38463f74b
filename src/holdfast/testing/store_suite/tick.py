"""Tick: what time does. Due jobs, expired leases, lost workers, lifetimes; in any number of processes (PORT-6)."""

from datetime import timedelta

import pytest

from holdfast.core.commands import Tick, TickReport
from holdfast.core.errors import StaleLease
from holdfast.core.failures import Category
from holdfast.core.job import Timeouts
from holdfast.core.retry import Retry
from holdfast.core.states import LIVE, State
from holdfast.testing.factories import (
    COMPLETED,
    claim,
    claim_one,
    job_in_state,
    new_job,
    read_counts,
    read_one,
    read_state,
    register,
    running_job,
    settle,
    settle_answer,
    submit_jobs,
    submit_one,
    tick,
)
from holdfast.testing.harness import StoreHarness
from holdfast.testing.invariants import snapshot

SHORT = Timeouts(visibility=10.0)


async def test_an_expired_lease_is_reclaimed(harness: StoreHarness) -> None:
    job = await running_job(harness.store, timeouts=SHORT)
    harness.clock.advance(9.999)
    await tick(harness.store)
    assert await read_state(harness.store, job.id) is State.RUNNING
    harness.clock.advance(0.001)
    reports = await tick(harness.store)
    assert sum(report.reclaimed for report in reports) == 1
    read = await read_one(harness.store, job.id)
    assert (read.state, read.lease, read.attempt) == (State.SCHEDULED, None, 1)
    assert (read.scheduled_at, read.last_attempt_id) == (harness.clock.now(), job.lease.token)


async def test_a_reclaimed_job_runs_again_under_a_new_lease(harness: StoreHarness) -> None:
    """A job runs at least once."""
    job = await running_job(harness.store, timeouts=SHORT)
    harness.clock.advance(10)
    await tick(harness.store)
    again = await claim_one(harness.store, await register(harness.store), queues=(job.queue,))
    assert (again.id, again.attempt, again.lease.version) == (job.id, 2, 2)
    assert again.lease.token != job.lease.token
    assert again.previous_attempt_id == job.lease.token


async def test_a_reclaim_spends_the_attempt_and_says_why(harness: StoreHarness) -> None:
    """DECIDE-6: with none left the job goes to DEAD_LETTER, category SYSTEM."""
    job = await running_job(harness.store, timeouts=SHORT, retry=Retry(max_attempts=1))
    harness.clock.advance(10)
    await tick(harness.store)
    read = await read_one(harness.store, job.id)
    assert (read.state, read.attempt) == (State.DEAD_LETTER, 1)
    assert read.failure is not None
    assert read.failure.category is Category.SYSTEM
    (attempt,) = await harness.store.read_attempts(job.id)
    assert (attempt.id, attempt.owner, attempt.is_ended_by_holder) == (job.lease.token, job.lease.owner, False)
    assert attempt.failure == read.failure
    assert attempt.ended_at == harness.clock.now()


async def test_reclaims_are_bounded_by_the_attempts(harness: StoreHarness) -> None:
    """Also for a job that kills every worker it meets."""
    worker = await register(harness.store)
    job_id = await submit_one(harness.store, timeouts=SHORT)
    for _ in range(3):
        assert len(await claim(harness.store, worker)) == 1
        harness.clock.advance(10)
        await tick(harness.store)
    assert await claim(harness.store, worker) == []
    assert await read_state(harness.store, job_id) is State.DEAD_LETTER
    assert len(await harness.store.read_attempts(job_id)) == 3


@pytest.mark.parametrize("state", LIVE)
async def test_a_lifetime_ends_every_live_state(harness: StoreHarness, state: State) -> None:
    """DECIDE-5."""
    delay = 99.0 if state is State.DELAYED else 0.0
    job_id = await job_in_state(harness.store, state, timeouts=Timeouts(lifetime=100.0), delay_seconds=delay)
    harness.clock.advance(98)
    await tick(harness.store)
    assert not (await read_state(harness.store, job_id)).is_terminal
    harness.clock.advance(2)
    await tick(harness.store)
    job = await read_one(harness.store, job_id)
    assert (job.state, job.completed_at) == (State.DEAD_LETTER, harness.clock.now())
    assert job.failure is not None
    assert job.failure.category is Category.TIMEOUT


async def test_the_end_of_a_lifetime_voids_the_token(harness: StoreHarness) -> None:
    """The handler is told with the next heartbeat."""
    job = await running_job(harness.store, timeouts=Timeouts(lifetime=100.0), retry=Retry(max_attempts=10))
    harness.clock.advance(50)
    await harness.store.extend([job.lease])
    harness.clock.advance(50)
    await tick(harness.store)
    assert await read_state(harness.store, job.id) is State.DEAD_LETTER
    assert isinstance(await settle_answer(harness.store, job, COMPLETED), StaleLease)
    (attempt,) = await harness.store.read_attempts(job.id)
    assert (attempt.failure.category, attempt.is_ended_by_holder) == (Category.TIMEOUT, False)


async def test_an_ack_at_the_end_of_the_lifetime_is_accepted_before_tick(harness: StoreHarness) -> None:
    """A lease is valid until its token is replaced or cleared."""
    job = await running_job(harness.store, timeouts=Timeouts(lifetime=100.0))
    harness.clock.advance(200)
    assert await settle(harness.store, job) is State.COMPLETED


async def test_a_job_due_after_the_end_of_its_lifetime_does_not_run(harness: StoreHarness) -> None:
    """A backoff may end after the lifetime, a delay together with it."""
    retrying = await job_in_state(harness.store, State.RETRYING, timeouts=Timeouts(lifetime=30.0))
    delayed = await submit_one(harness.store, delay_seconds=30.0, timeouts=Timeouts(lifetime=30.0))
    harness.clock.advance(100)
    await tick(harness.store)
    assert await read_state(harness.store, retrying) is State.DEAD_LETTER
    job = await read_one(harness.store, delayed)
    assert (job.state, job.scheduled_at) == (State.DEAD_LETTER, None), "not even for a moment"


async def test_tick_works_in_batches_and_says_that_there_is_more(harness: StoreHarness) -> None:
    """A batch was full: the caller ticks again at once."""
    await submit_jobs(harness.store, *(new_job(delay_seconds=1.0) for _ in range(25)))
    harness.clock.advance(1)
    reports = await tick(harness.store, batch=10)
    assert sum(report.due for report in reports) == 25
    assert all(report.due <= 10 for report in reports)
    assert reports[0].has_more
    assert await read_counts(harness.store) == {State.SCHEDULED: 25}
    assert await harness.store.tick(Tick()) == TickReport()


async def test_small_batches_end_with_the_same_result(harness: StoreHarness) -> None:
    worker = await register(harness.store)
    await submit_jobs(harness.store, *(new_job(queue="leases", timeouts=SHORT) for _ in range(7)))
    await submit_jobs(harness.store, *(new_job(queue="lives", timeouts=Timeouts(lifetime=10.0)) for _ in range(7)))
    assert len(await claim(harness.store, worker, queues=("leases",))) == 7
    harness.clock.advance(10)
    reports = await tick(harness.store, batch=3)
    assert sum(report.reclaimed for report in reports) == 7
    assert sum(report.lifetimes_ended for report in reports) == 7
    assert await read_counts(harness.store, "leases") == {State.SCHEDULED: 7}
    assert await read_counts(harness.store, "lives") == {State.DEAD_LETTER: 7}


async def test_a_tick_with_nothing_to_do_changes_nothing(harness: StoreHarness) -> None:
    """PORT-6."""
    for state in State:
        await job_in_state(harness.store, state)
    before = await snapshot(harness.store)
    for _ in range(3):
        assert not (await harness.store.tick(Tick())).has_more
    assert await snapshot(harness.store) == before


async def test_a_tick_reports_what_it_did(harness: StoreHarness) -> None:
    """TickReport."""
    await submit_one(harness.store, delay_seconds=10.0)
    await job_in_state(harness.store, State.RETRYING, queue="retrying")
    await running_job(harness.store, timeouts=SHORT)
    await submit_one(harness.store, timeouts=Timeouts(lifetime=10.0))
    harness.clock.advance(60)
    (report,) = await tick(harness.store)
    assert (report.due, report.reclaimed, report.lifetimes_ended, report.removed) == (2, 1, 1, 0)


async def test_timestamps_are_the_stores_clock_in_utc(harness: StoreHarness) -> None:
    """PORT-3."""
    job_id = await job_in_state(harness.store, State.RUNNING)
    job = await read_one(harness.store, job_id)
    assert job.lease is not None
    times = (job.created_at, job.updated_at, job.scheduled_at, job.started_at, job.lifetime_ends_at)
    for time in (*times, job.lease.expires_at):
        assert time is not None
        assert time.utcoffset() == timedelta(0)


async def test_a_tick_promises_no_more_quiet_than_there_is(harness: StoreHarness) -> None:
    """TickReport.quiet_seconds: who believes it must not oversleep."""
    for delay_seconds in (60.0, 5.0):
        await submit_one(harness.store, delay_seconds=delay_seconds)
    assert (await harness.store.tick(Tick())).quiet_seconds <= 5.0
    harness.clock.advance(5)
    report = await harness.store.tick(Tick())
    assert report.due == 1
    assert report.quiet_seconds <= 55.0
