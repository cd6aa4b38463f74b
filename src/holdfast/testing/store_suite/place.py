"""Place: where a job stands with the claim."""

from uuid import uuid4

import pytest

from holdfast.core import limits
from holdfast.core.commands import Place
from holdfast.core.priority import Priority
from holdfast.core.states import State
from holdfast.testing.factories import (
    HANDED_BACK,
    claim_one,
    claimed_ids,
    job_in_state,
    new_job,
    register,
    settle,
    submit_jobs,
    submit_one,
)
from holdfast.testing.harness import StoreHarness


async def ahead_of(harness: StoreHarness, *jobs: object) -> list[int | None]:
    places = [await harness.store.read_place(job) for job in jobs]  # type: ignore[arg-type]
    return [place.ahead if place is not None else None for place in places]


async def test_a_job_that_is_not_there_has_no_place(harness: StoreHarness) -> None:
    """read_place."""
    assert await harness.store.read_place(uuid4()) is None


@pytest.mark.parametrize("state", State)
async def test_a_job_stands_in_line_only_while_it_may_be_claimed(harness: StoreHarness, state: State) -> None:
    """Place.ahead: of a SCHEDULED job."""
    job_id = await job_in_state(harness.store, state)
    place = await harness.store.read_place(job_id)
    ahead = 0 if state is State.SCHEDULED else None
    assert place == Place(now=harness.clock.now(), paused_at=None, ahead=ahead)


async def test_places_are_counted_in_the_order_of_the_claim(harness: StoreHarness) -> None:
    """By priority, then by when they became claimable; other queues do not count."""
    await submit_jobs(harness.store, *(new_job(queue="other") for _ in range(5)))
    wanted = [Priority.NORMAL, Priority.BULK, Priority.CRITICAL, Priority.NORMAL, Priority.CRITICAL]
    jobs = [await submit_one(harness.store, priority=priority) for priority in wanted]
    assert await ahead_of(harness, *jobs) == [2, 4, 0, 3, 1]
    worker = await register(harness.store)
    order = await claimed_ids(harness.store, worker)
    assert [order.index(job_id) for job_id in jobs] == [2, 4, 0, 3, 1]


async def test_a_job_that_comes_back_stands_behind(harness: StoreHarness) -> None:
    first, second = await submit_one(harness.store), await submit_one(harness.store)
    assert await ahead_of(harness, first, second) == [0, 1]
    worker = await register(harness.store)
    job = await claim_one(harness.store, worker)
    assert await ahead_of(harness, first, second) == [None, 0]
    await settle(harness.store, job, HANDED_BACK)
    assert await ahead_of(harness, first, second) == [1, 0]


async def test_a_paused_queue_is_told_with_its_time(harness: StoreHarness) -> None:
    """Place.paused_at: of the first pause, until it is resumed."""
    job_id = await submit_one(harness.store)
    since = harness.clock.now()
    await harness.store.pause("default")
    harness.clock.advance(5)
    await harness.store.pause("default")
    assert await harness.store.read_place(job_id) == Place(now=harness.clock.now(), paused_at=since, ahead=0)
    await harness.store.resume("default")
    assert await harness.store.read_place(job_id) == Place(now=harness.clock.now(), paused_at=None, ahead=0)


async def test_places_are_counted_up_to_a_bound(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """limits.MAX_PLACE_JOBS."""
    monkeypatch.setattr(limits, "MAX_PLACE_JOBS", 4)
    jobs = [new_job() for _ in range(7)]
    await submit_jobs(harness.store, *jobs)
    assert await ahead_of(harness, *(job.id for job in jobs)) == [0, 1, 2, 3, 4, 4, 4]
