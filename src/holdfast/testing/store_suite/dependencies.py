"""Dependencies: who waits for whom, and what an end does to those who wait."""

from typing import Final

import pytest

from holdfast.core import limits
from holdfast.core.commands import Completed, Outcome
from holdfast.core.dependencies import Dependency, DependencyKind
from holdfast.core.failures import Category
from holdfast.core.job import ClaimedJob, Timeouts
from holdfast.core.ports import Store
from holdfast.core.states import TERMINAL, State
from holdfast.testing.factories import (
    COMPLETED,
    FAIL,
    GIVE_UP,
    STOPPED,
    after,
    cancel_one,
    claimed_ids,
    job_in_state,
    new_job,
    read_counts,
    read_one,
    read_state,
    read_states,
    register,
    running_job,
    settle,
    submit_chain,
    submit_jobs,
    submit_one,
    tick,
)
from holdfast.testing.harness import StoreHarness

ENDS: Final[dict[State, tuple[Outcome, Category | None]]] = {
    State.COMPLETED: (COMPLETED, None),
    State.FAILED: (FAIL, Category.PERMANENT),
    State.DEAD_LETTER: (GIVE_UP, Category.TEMPORARY),
    State.CANCELLED: (STOPPED, Category.CANCELLED),
}
NEEDING: Final = [kind for kind in DependencyKind if kind is not DependencyKind.AFTER_ANY]


async def end(store: Store, job: ClaimedJob, state: State) -> None:
    if state is State.CANCELLED:
        await cancel_one(store, job.id)
    assert await settle(store, job, ENDS[state][0]) is state


@pytest.mark.parametrize("kind", DependencyKind)
async def test_a_dependent_waits(harness: StoreHarness, kind: DependencyKind) -> None:
    job = await running_job(harness.store)
    child = await submit_one(harness.store, dependencies=after(job.id, kind=kind))
    await tick(harness.store)
    read = await read_one(harness.store, child)
    assert (read.state, read.depth, read.scheduled_at) == (State.PENDING, 1, None)
    assert read.dependencies == (Dependency(job.id, kind),)
    assert await claimed_ids(harness.store, await register(harness.store)) == []


@pytest.mark.parametrize("kind", NEEDING)
@pytest.mark.parametrize("state", TERMINAL)
async def test_an_end_propagates(harness: StoreHarness, kind: DependencyKind, state: State) -> None:
    """DEPEND-3: with attempt 0 and the category of the dependency's end."""
    job = await running_job(harness.store)
    child = await submit_one(harness.store, dependencies=after(job.id, kind=kind))
    harness.clock.advance(1)
    await end(harness.store, job, state)
    await _require_propagated(harness, child, job, state)


@pytest.mark.parametrize("kind", NEEDING)
@pytest.mark.parametrize("state", TERMINAL)
async def test_an_end_before_the_submit_counts_as_just_ended(
    harness: StoreHarness, kind: DependencyKind, state: State
) -> None:
    job = await running_job(harness.store)
    await end(harness.store, job, state)
    harness.clock.advance(1)
    child = await submit_one(harness.store, dependencies=after(job.id, kind=kind))
    await _require_propagated(harness, child, job, state)


async def _require_propagated(harness: StoreHarness, child: object, job: ClaimedJob, state: State) -> None:
    (read,) = await harness.store.read([child])  # type: ignore[list-item]
    assert read is not None
    category = ENDS[state][1]
    if category is None:
        assert (read.state, read.scheduled_at) == (State.SCHEDULED, harness.clock.now())
        assert (read.ended_by, read.failure) == (None, None)
        return
    assert (read.state, read.attempt, read.ended_by) == (state, 0, job.id)
    assert read.completed_at == harness.clock.now()
    assert read.failure is not None
    assert read.failure.category is category
    assert str(job.id) in read.failure.message
    assert await harness.store.read_attempts(read.id) == []


@pytest.mark.parametrize("state", TERMINAL)
async def test_after_any_is_released_by_any_end(harness: StoreHarness, state: State) -> None:
    """DEPEND-4: before and after the submit."""
    job = await running_job(harness.store)
    waits_for = after(job.id, kind=DependencyKind.AFTER_ANY)
    early = await submit_one(harness.store, dependencies=waits_for)
    await end(harness.store, job, state)
    late = await submit_one(harness.store, dependencies=waits_for)
    assert await read_states(harness.store, [early, late]) == [State.SCHEDULED, State.SCHEDULED]


@pytest.mark.parametrize("state", TERMINAL)
async def test_after_any_is_released_by_the_first_end(harness: StoreHarness, state: State) -> None:
    """It never fails with a dependency."""
    jobs = [await running_job(harness.store) for _ in range(3)]
    ids = [job.id for job in jobs]
    child = await submit_one(harness.store, dependencies=after(*ids, kind=DependencyKind.AFTER_ANY))
    await end(harness.store, jobs[1], state)
    assert await read_state(harness.store, child) is State.SCHEDULED
    await end(harness.store, jobs[0], State.FAILED)
    await tick(harness.store)
    assert await read_state(harness.store, child) is State.SCHEDULED


@pytest.mark.parametrize("kind", NEEDING)
async def test_all_must_complete(harness: StoreHarness, kind: DependencyKind) -> None:
    jobs = [await running_job(harness.store) for _ in range(3)]
    child = await submit_one(harness.store, dependencies=after(*(job.id for job in jobs), kind=kind))
    states = []
    for job in jobs:
        await settle(harness.store, job)
        states.append(await read_state(harness.store, child))
    assert states == [State.PENDING, State.PENDING, State.SCHEDULED]


async def test_several_kinds_must_all_hold(harness: StoreHarness) -> None:
    """DEPEND-5."""
    needed, first, second = [await running_job(harness.store) for _ in range(3)]
    kinds = after(needed.id) + after(first.id, second.id, kind=DependencyKind.AFTER_ANY)
    by_needed, by_any = [await submit_one(harness.store, dependencies=kinds, queue=name) for name in ("a", "b")]
    assert by_needed != by_any
    await settle(harness.store, first, FAIL)
    assert await read_states(harness.store, [by_needed, by_any]) == [State.PENDING] * 2
    await settle(harness.store, needed)
    assert await read_states(harness.store, [by_needed, by_any]) == [State.SCHEDULED] * 2


async def test_several_kinds_in_the_other_order(harness: StoreHarness) -> None:
    """DEPEND-5: a met need waits for its alternatives; a failed need ends the dependent at once."""
    met, failing, alternative = [await running_job(harness.store) for _ in range(3)]
    any_end = after(alternative.id, kind=DependencyKind.AFTER_ANY)
    waits = await submit_one(harness.store, dependencies=after(met.id) + any_end)
    ends = await submit_one(harness.store, dependencies=after(failing.id) + any_end)
    await settle(harness.store, met)
    await settle(harness.store, failing, FAIL)
    assert await read_states(harness.store, [waits, ends]) == [State.PENDING, State.FAILED]
    await settle(harness.store, alternative, FAIL)
    assert await read_states(harness.store, [waits, ends]) == [State.SCHEDULED, State.FAILED]


async def test_the_first_failure_ends_the_dependent(harness: StoreHarness) -> None:
    """DEPEND-3: a later end changes nothing any more."""
    first, second = [await running_job(harness.store) for _ in range(2)]
    child = await submit_one(harness.store, dependencies=after(first.id, second.id))
    await end(harness.store, first, State.DEAD_LETTER)
    await end(harness.store, second, State.FAILED)
    job = await read_one(harness.store, child)
    assert (job.state, job.ended_by) == (State.DEAD_LETTER, first.id)


async def test_a_failure_stops_the_whole_chain(harness: StoreHarness) -> None:
    ids = await submit_chain(harness.store, 6)
    await cancel_one(harness.store, ids[1])
    await tick(harness.store)
    assert await read_states(harness.store, ids) == [State.SCHEDULED] + [State.CANCELLED] * 5
    enders = [job.ended_by for job in await harness.store.read(ids[2:]) if job is not None]
    assert enders == ids[1:5]


async def test_a_chain_runs_one_after_the_other(harness: StoreHarness) -> None:
    ids = await submit_chain(harness.store, 4)
    worker = await register(harness.store)
    for job_id in ids:
        (job,) = [job for job in await harness.store.read(await claimed_ids(harness.store, worker)) if job]
        assert job.id == job_id
        assert job.lease is not None
        await settle(harness.store, job.lease)
    assert await read_counts(harness.store) == {State.COMPLETED: 4}


async def test_a_dependent_that_ended_is_not_released(harness: StoreHarness) -> None:
    """STATE-3."""
    job = await running_job(harness.store)
    child = await submit_one(harness.store, dependencies=after(job.id))
    await cancel_one(harness.store, child)
    await settle(harness.store, job)
    await tick(harness.store)
    assert await read_state(harness.store, child) is State.CANCELLED


@pytest.mark.parametrize("trigger", ["expiry", "lifetime", "worker"])
async def test_an_end_that_tick_writes_propagates_too(harness: StoreHarness, trigger: str) -> None:
    timeouts = {"expiry": Timeouts(visibility=10.0), "lifetime": Timeouts(lifetime=10.0)}.get(trigger, Timeouts())
    job_id = await job_in_state(harness.store, State.SCHEDULED, queue="q", timeouts=timeouts)
    child = await submit_one(harness.store, dependencies=after(job_id))
    worker = await register(harness.store)
    await claimed_ids(harness.store, worker, queues=("q",))
    await harness.set_max_attempts(job_id, 1)
    for _ in range(12):
        harness.clock.advance(5)
        await tick(harness.store)
    job = await read_one(harness.store, child)
    assert (job.state, job.ended_by) == (State.DEAD_LETTER, job_id)
    assert job.failure is not None
    assert job.failure.category is (Category.TIMEOUT if trigger == "lifetime" else Category.SYSTEM)


async def test_a_delay_counts_from_the_submit(harness: StoreHarness) -> None:
    """Not from the release."""
    jobs = [await running_job(harness.store) for _ in range(2)]
    early, late = [await submit_one(harness.store, dependencies=after(job.id), delay_seconds=60.0) for job in jobs]
    due_at = (await read_one(harness.store, early)).run_at
    await settle(harness.store, jobs[0])
    job = await read_one(harness.store, early)
    assert (job.state, job.due_at) == (State.DELAYED, due_at)
    harness.clock.advance(60)
    await tick(harness.store)
    assert await read_states(harness.store, [early, late]) == [State.SCHEDULED, State.PENDING]
    await settle(harness.store, jobs[1])
    assert await read_state(harness.store, late) is State.SCHEDULED


async def test_jobs_of_one_batch_may_name_each_other_in_any_order(harness: StoreHarness) -> None:
    """A workflow is submitted as a whole."""
    first = new_job()
    second = new_job(dependencies=after(first.id))
    third = new_job(dependencies=after(first.id, second.id))
    await submit_jobs(harness.store, third, second, first)
    jobs = [await read_one(harness.store, job.id) for job in (first, second, third)]
    assert [job.state for job in jobs] == [State.SCHEDULED, State.PENDING, State.PENDING]
    assert [job.depth for job in jobs] == [0, 1, 2]


async def test_a_batch_that_waits_for_a_dead_job_ends_at_once(harness: StoreHarness) -> None:
    """Along the whole chain, inside the submit."""
    dead = await job_in_state(harness.store, State.FAILED)
    first = new_job(dependencies=after(dead))
    second = new_job(dependencies=after(first.id))
    third = new_job(dependencies=after(second.id, kind=DependencyKind.AFTER_ANY))
    await submit_jobs(harness.store, first, second, third)
    states = await read_states(harness.store, [first.id, second.id, third.id])
    assert states == [State.FAILED, State.FAILED, State.SCHEDULED]
    assert (await read_one(harness.store, second.id)).ended_by == first.id


async def test_the_longest_chain_runs_and_fails_to_its_end(harness: StoreHarness) -> None:
    """A chain may be 100 deep."""
    ids = await submit_chain(harness.store, limits.MAX_DEPENDENCY_DEPTH + 1)
    assert (await read_one(harness.store, ids[-1])).depth == limits.MAX_DEPENDENCY_DEPTH
    await cancel_one(harness.store, ids[0])
    await tick(harness.store)
    assert await read_counts(harness.store) == {State.CANCELLED: limits.MAX_DEPENDENCY_DEPTH + 1}


async def test_a_job_may_wait_for_a_thousand_others(harness: StoreHarness) -> None:
    parents = [new_job(queue="parents") for _ in range(limits.MAX_DEPENDENCIES)]
    child = new_job(dependencies=after(*(job.id for job in parents), kind=DependencyKind.FAN_IN))
    await submit_jobs(harness.store, *parents, child)
    assert len((await read_one(harness.store, child.id)).dependencies) == limits.MAX_DEPENDENCIES
    await harness.store.cancel([parents[-1].id])
    assert await read_state(harness.store, child.id) is State.CANCELLED


async def test_more_dependents_than_one_step_are_all_told(harness: StoreHarness) -> None:
    """The next tick goes on where the call has stopped."""
    parent = await running_job(harness.store)
    await submit_jobs(harness.store, *(new_job(dependencies=after(parent.id)) for _ in range(2500)))
    await settle(harness.store, parent)
    await tick(harness.store)
    assert await read_counts(harness.store) == {State.SCHEDULED: 2500}


async def test_a_cascade_longer_than_one_call_reaches_its_end(harness: StoreHarness) -> None:
    """It continues from a mark that is stored."""
    root = new_job()
    children = [new_job(dependencies=after(root.id)) for _ in range(1100)]
    leaves = [new_job(dependencies=after(child.id)) for child in children]
    await submit_jobs(harness.store, root, *children, *leaves)
    await cancel_one(harness.store, root.id)
    await tick(harness.store)
    assert await read_counts(harness.store) == {State.CANCELLED: 2201}


async def test_a_dependent_can_read_what_it_waited_for(harness: StoreHarness) -> None:
    first, second = [await running_job(harness.store) for _ in range(2)]
    kinds = after(first.id) + after(second.id, kind=DependencyKind.AFTER_ANY)
    child = await submit_one(harness.store, dependencies=kinds)
    await settle(harness.store, first, Completed(b"[1]"))
    await settle(harness.store, second, FAIL)
    upstream = {one.job_id: one for one in await harness.store.read_upstream(child)}
    assert upstream.keys() == {first.id, second.id}
    assert (upstream[first.id].state, upstream[first.id].result) == (State.COMPLETED, b"[1]")
    assert (upstream[second.id].state, upstream[second.id].result) == (State.FAILED, None)
    assert upstream[second.id].dependency == kinds[1]
    assert await harness.store.read_upstream(first.id) == []
