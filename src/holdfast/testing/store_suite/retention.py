"""Retention: how long what has ended can be asked about, and what is never removed."""

from uuid import UUID

import pytest

from holdfast.core import limits
from holdfast.core.commands import Completed
from holdfast.core.dependencies import DependencyKind
from holdfast.core.job import Timeouts
from holdfast.core.retry import Retry
from holdfast.core.states import LIVE, TERMINAL, State
from holdfast.testing.factories import (
    FAIL,
    RETRY,
    after,
    claim_one,
    job_in_state,
    read_counts,
    read_state,
    register,
    replay_one,
    running_job,
    settle,
    submit_one,
    tick,
)
from holdfast.testing.harness import StoreHarness

DAY = 24 * 3600.0
LONG = Timeouts(lifetime=365 * DAY, visibility=365 * DAY)
RETENTION_DAYS = {State.COMPLETED: 7, State.CANCELLED: 7, State.FAILED: 30, State.DEAD_LETTER: 30}


async def exists(harness: StoreHarness, job_id: UUID) -> bool:
    (job,) = await harness.store.read([job_id])
    return job is not None


@pytest.mark.parametrize("state", TERMINAL)
async def test_an_ended_job_is_removed_after_its_retention(harness: StoreHarness, state: State) -> None:
    """COMPLETED and CANCELLED after 7 days, FAILED and DEAD_LETTER after 30."""
    job_id = await job_in_state(harness.store, state, queue="mine")
    harness.clock.advance(RETENTION_DAYS[state] * DAY - 1)
    await tick(harness.store)
    assert await exists(harness, job_id)
    harness.clock.advance(1)
    reports = await tick(harness.store)
    assert sum(report.removed for report in reports) == 1
    assert not await exists(harness, job_id)
    assert await harness.store.read_attempts(job_id) == []
    assert await read_counts(harness.store, "mine") == {}


async def test_retention_can_be_set(harness: StoreHarness) -> None:
    """For each of the four."""
    completed = await job_in_state(harness.store, State.COMPLETED)
    failed = await job_in_state(harness.store, State.FAILED)
    harness.clock.advance(60)
    await tick(harness.store, completed_retention_seconds=60.0, dead_retention_seconds=61.0)
    assert [await exists(harness, job_id) for job_id in (completed, failed)] == [False, True]
    harness.clock.advance(1)
    await tick(harness.store, completed_retention_seconds=60.0, dead_retention_seconds=61.0)
    assert not await exists(harness, failed)


@pytest.mark.parametrize("state", LIVE)
async def test_a_live_job_is_never_removed(harness: StoreHarness, state: State) -> None:
    delay = 300 * DAY if state is State.DELAYED else 0.0
    job_id = await job_in_state(harness.store, state, timeouts=LONG, delay_seconds=delay)
    harness.clock.advance(100 * DAY)
    await tick(harness.store)
    assert await exists(harness, job_id)


@pytest.mark.parametrize("kind", DependencyKind)
async def test_what_a_live_job_waits_for_is_not_removed(harness: StoreHarness, kind: DependencyKind) -> None:
    done = await job_in_state(harness.store, State.COMPLETED)
    other = await submit_one(harness.store, timeouts=LONG)
    child = await submit_one(harness.store, dependencies=after(done, kind=kind) + after(other), timeouts=LONG)
    assert await read_state(harness.store, child) is State.PENDING
    harness.clock.advance(8 * DAY)
    await tick(harness.store)
    assert await exists(harness, done)
    upstream = {one.job_id: one.state for one in await harness.store.read_upstream(child)}
    assert upstream[done] is State.COMPLETED
    await harness.store.cancel([child])
    harness.clock.advance(8 * DAY)
    await tick(harness.store)
    assert [await exists(harness, job_id) for job_id in (done, child)] == [False, False]


async def test_retention_is_never_shorter_than_the_key_window(harness: StoreHarness) -> None:
    job_id = await job_in_state(harness.store, State.COMPLETED, key="k", key_window_seconds=20 * DAY)
    harness.clock.advance(20 * DAY - 1)
    await tick(harness.store)
    assert await exists(harness, job_id)
    assert await submit_one(harness.store, key="k", key_window_seconds=20 * DAY) == job_id
    harness.clock.advance(1)
    await tick(harness.store)
    assert not await exists(harness, job_id)
    assert await submit_one(harness.store, key="k") != job_id


async def test_a_key_that_passed_on_does_not_keep_its_old_job(harness: StoreHarness) -> None:
    """Only the job that the key stands for now is kept."""
    old = await job_in_state(harness.store, State.COMPLETED, key="k", key_window_seconds=DAY)
    harness.clock.advance(6 * DAY)
    new = await submit_one(harness.store, key="k", key_window_seconds=20 * DAY, timeouts=LONG)
    harness.clock.advance(2 * DAY)
    await tick(harness.store)
    assert not await exists(harness, old)
    assert await submit_one(harness.store, key="k") == new


async def test_retention_counts_from_the_end(harness: StoreHarness) -> None:
    job = await running_job(harness.store, timeouts=LONG)
    harness.clock.advance(20 * DAY)
    await settle(harness.store, job)
    harness.clock.advance(7 * DAY - 1)
    await tick(harness.store)
    assert await exists(harness, job.id)


async def test_a_replayed_job_is_kept(harness: StoreHarness) -> None:
    """Its retention counts from its next end."""
    job_id = await job_in_state(harness.store, State.FAILED, queue="mine", timeouts=LONG)
    harness.clock.advance(29 * DAY)
    await replay_one(harness.store, job_id)
    harness.clock.advance(5 * DAY)
    await tick(harness.store)
    assert await exists(harness, job_id)
    worker = await register(harness.store)
    await settle(harness.store, await claim_one(harness.store, worker, queues=("mine",)), FAIL)
    harness.clock.advance(29 * DAY)
    await tick(harness.store)
    assert await exists(harness, job_id)


async def test_a_dead_job_keeps_what_it_would_read_if_it_was_replayed(harness: StoreHarness) -> None:
    """Also where the retention of those results is over."""
    worker = await register(harness.store)
    parts = [await running_job(harness.store, worker=worker, timeouts=LONG) for _ in range(2)]
    dependencies = after(*(part.id for part in parts), kind=DependencyKind.FAN_IN)
    total = await submit_one(harness.store, queue="mine", dependencies=dependencies, timeouts=LONG)
    for part, result in zip(parts, (b"1", b"2"), strict=True):
        await settle(harness.store, part, Completed(result))
    await settle(harness.store, await claim_one(harness.store, worker, queues=("mine",)), FAIL)
    harness.clock.advance(29 * DAY)
    await tick(harness.store)
    await replay_one(harness.store, total)
    again = await claim_one(harness.store, await register(harness.store), queues=("mine",))
    assert again.has_dependencies
    assert sorted(one.result or b"" for one in await harness.store.read_upstream(total)) == [b"1", b"2"]
    await settle(harness.store, again)
    harness.clock.advance(8 * DAY)
    for _ in range(2):
        await tick(harness.store)
    assert not any([await exists(harness, job_id) for job_id in (total, *(part.id for part in parts))])


@pytest.mark.parametrize("state", [State.FAILED, State.DEAD_LETTER])
async def test_what_a_dead_job_waited_for_goes_after_it(harness: StoreHarness, state: State) -> None:
    """A dead dependency and the dependent that ended with it: the dependent goes first."""
    parent = await running_job(harness.store, timeouts=LONG, retry=Retry(max_attempts=1))
    cancelled = await submit_one(harness.store)
    child = await submit_one(harness.store, dependencies=after(parent.id), timeouts=LONG)
    other = await submit_one(harness.store, dependencies=after(parent.id) + after(cancelled), timeouts=LONG)
    await settle(harness.store, parent, FAIL if state is State.FAILED else RETRY)
    await harness.store.cancel([cancelled])
    assert await read_state(harness.store, child) is state
    harness.clock.advance(8 * DAY)
    await tick(harness.store)
    assert [await exists(harness, job_id) for job_id in (cancelled, parent.id, child, other)] == [True] * 4
    harness.clock.advance(23 * DAY)
    await tick(harness.store)
    assert [await exists(harness, job_id) for job_id in (child, other)] == [False, False]
    harness.clock.advance(3600)
    await tick(harness.store)
    assert [await exists(harness, job_id) for job_id in (cancelled, parent.id)] == [False, False]


async def test_removal_is_bounded_by_the_batch(harness: StoreHarness) -> None:
    """Tick.batch."""
    for _ in range(5):
        await job_in_state(harness.store, State.CANCELLED, queue="mine")
    harness.clock.advance(7 * DAY)
    reports = await tick(harness.store, batch=2)
    assert [report.removed for report in reports if report.removed] == [2, 2, 1]
    assert await read_counts(harness.store, "mine") == {}


async def test_a_removed_job_can_be_asked_about_and_is_not_there(harness: StoreHarness) -> None:
    """JobNotFound: it was never accepted here, or its retention is over."""
    job_id = await job_in_state(harness.store, State.COMPLETED)
    harness.clock.advance(limits.DEFAULT_COMPLETED_RETENTION_SECONDS)
    await tick(harness.store)
    assert await harness.store.read([job_id]) == [None]
    assert await harness.store.read_upstream(job_id) == []
    (cancelled,) = await harness.store.cancel([job_id])
    (replayed,) = await harness.store.replay([job_id])
    assert (cancelled.outcome, replayed.outcome) == ("NOT_FOUND", "NOT_FOUND")
