"""Races around dependencies: nobody waits for an end that is over (DEPEND-6)."""

import asyncio
from collections.abc import Sequence
from typing import Final

from holdfast.core.commands import Completed, NewJob, ReplayOutcome, Settled
from holdfast.core.dependencies import DependencyKind
from holdfast.core.errors import InvalidInput
from holdfast.core.job import ClaimedJob
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.testing.factories import (
    FAIL,
    after,
    cancel_one,
    claim,
    job_in_state,
    new_job,
    read_one,
    read_state,
    read_states,
    register,
    replay_one,
    running_job,
    settle,
    settle_answer,
    submit_answer,
    submit_jobs,
    submit_one,
    tick,
)
from holdfast.testing.harness import StoreHarness

ROUNDS: Final = 20
LOOKS: Final = 100
LOOK_SECONDS: Final = 0.05


async def both(harness: StoreHarness) -> tuple[Store, Store]:
    return harness.store, await harness.second_store()


async def test_a_dependent_submitted_while_its_dependency_completes_is_released(harness: StoreHarness) -> None:
    """DEPEND-6: never stuck in PENDING after a tick."""
    first, second = await both(harness)
    for _ in range(ROUNDS):
        job = await running_job(first)
        _, child = await asyncio.gather(settle(first, job), submit_one(second, dependencies=after(job.id)))
        await tick(first)
        assert await read_state(first, child) is State.SCHEDULED


async def test_a_dependent_submitted_while_its_dependency_fails_ends_with_it(harness: StoreHarness) -> None:
    """DEPEND-3, DEPEND-6: a chain of dependents, too."""
    first, second = await both(harness)
    for _ in range(ROUNDS):
        job = await running_job(first)
        child = new_job(dependencies=after(job.id))
        grandchild = new_job(dependencies=after(child.id))
        await asyncio.gather(settle(first, job, FAIL), submit_jobs(second, child, grandchild))
        await tick(first)
        states = [await read_state(first, one.id) for one in (child, grandchild)]
        assert states == [State.FAILED, State.FAILED]


async def test_a_dependent_submitted_while_its_dependency_is_cancelled_ends_with_it(harness: StoreHarness) -> None:
    """DEPEND-3, DEPEND-6."""
    first, second = await both(harness)
    for _ in range(ROUNDS):
        job_id = await submit_one(first)
        _, child = await asyncio.gather(cancel_one(first, job_id), submit_one(second, dependencies=after(job_id)))
        await tick(first)
        assert await read_state(first, child) is State.CANCELLED


async def test_a_dependent_submitted_while_its_dependency_is_claimed_is_told_later(harness: StoreHarness) -> None:
    """DEPEND-6: the claim and the mark that somebody waits do not overwrite each other."""
    first, second = await both(harness)
    worker = await register(first)
    for _ in range(ROUNDS):
        job_id = await submit_one(first, queue="parents")
        jobs, child = await asyncio.gather(
            claim(first, worker, queues=("parents",)), submit_one(second, dependencies=after(job_id))
        )
        for _ in range(3):
            jobs = jobs or await claim(first, worker, queues=("parents",))
        await settle(first, jobs[0])
        await tick(first)
        assert await read_state(first, child) is State.SCHEDULED


async def test_two_ends_into_one_fan_in_release_it_once(harness: StoreHarness) -> None:
    """DEPEND-5, DEPEND-6: the last of two that end at once must see the other."""
    first, second = await both(harness)
    for _ in range(ROUNDS):
        jobs = [await running_job(first) for _ in range(2)]
        child = await submit_one(first, dependencies=after(*(job.id for job in jobs), kind=DependencyKind.FAN_IN))
        await asyncio.gather(settle(first, jobs[0]), settle(second, jobs[1]))
        await tick(first)
        job = await read_one(first, child)
        assert (job.state, job.lease_version) == (State.SCHEDULED, 0)


async def test_a_success_and_a_failure_into_one_fan_in_end_it(harness: StoreHarness) -> None:
    """DEPEND-3: whichever comes first."""
    first, second = await both(harness)
    for _ in range(ROUNDS):
        good, bad = [await running_job(first) for _ in range(2)]
        child = await submit_one(first, dependencies=after(good.id, bad.id, kind=DependencyKind.FAN_IN))
        await asyncio.gather(settle(first, good), settle(second, bad, FAIL))
        await tick(first)
        job = await read_one(first, child)
        assert (job.state, job.ended_by) == (State.FAILED, bad.id)


async def states_in_the_end(harness: StoreHarness, children: Sequence[NewJob]) -> set[State]:
    """A tick goes past what somebody holds, and a store may still be telling some of them itself."""
    states = {State.PENDING}
    for _ in range(LOOKS):
        await tick(harness.store)
        states = set(await read_states(harness.store, [child.id for child in children]))
        if State.PENDING not in states:
            break
        await asyncio.sleep(LOOK_SECONDS)
    return states


async def test_many_ends_into_many_children_neither_block_nor_lose_one(harness: StoreHarness) -> None:
    """PORT-1, DEPEND-6: every child waits for every job; the settles and ticks run side by side."""
    stores = await both(harness)
    for _ in range(5):
        jobs = [await running_job(harness.store) for _ in range(6)]
        ids = [job.id for job in jobs]
        children = [new_job(dependencies=after(*(ids if n % 2 else ids[::-1]))) for n in range(6)]
        await submit_jobs(harness.store, *children)
        settles = [settle(stores[n % 2], job) for n, job in enumerate(jobs)]
        await asyncio.gather(*settles, tick(stores[0]), tick(stores[1]))
        assert await states_in_the_end(harness, children) == {State.SCHEDULED}


async def test_a_cancelled_dependent_is_not_released_at_the_same_moment(harness: StoreHarness) -> None:
    """STATE-1: it ends CANCELLED, before or after its release."""
    first, second = await both(harness)
    for _ in range(ROUNDS):
        job = await running_job(first)
        child = await submit_one(first, dependencies=after(job.id))
        await asyncio.gather(settle(first, job), cancel_one(second, child))
        await tick(first)
        assert await read_state(first, child) is State.CANCELLED


async def test_a_replay_and_a_new_dependent_agree(harness: StoreHarness) -> None:
    """The dependent waits for the replayed job, or came back with it."""
    first, second = await both(harness)
    for _ in range(ROUNDS):
        job = await running_job(first)
        await settle(first, job, FAIL)
        answer, child = await asyncio.gather(replay_one(first, job.id), submit_one(second, dependencies=after(job.id)))
        assert answer.outcome is ReplayOutcome.REPLAYED
        await tick(first)
        assert await read_state(first, child) is State.PENDING


async def test_a_spawn_and_a_new_fan_in_agree(harness: StoreHarness) -> None:
    """The fan-in waits for the children, whether it came before them or after."""
    first, second = await both(harness)
    for n in range(ROUNDS):
        parent = await running_job(first)
        child = new_job(queue=f"child-{n}")
        waits_for = after(parent.id, kind=DependencyKind.FAN_IN)
        answer, gather = await asyncio.gather(
            settle_answer(first, parent, Completed(spawn=(child,))), submit_one(second, dependencies=waits_for)
        )
        assert answer == Settled(State.COMPLETED)
        await tick(first)
        assert await read_state(first, gather) is State.PENDING
        (running,) = await _claimed(first, f"child-{n}")
        await settle(second, running)
        await tick(first)
        assert await read_state(first, gather) is State.SCHEDULED


async def _claimed(store: Store, queue: str) -> list[ClaimedJob]:
    return await claim(store, await register(store), queues=(queue,))


async def test_a_removal_and_a_new_dependent_agree(harness: StoreHarness) -> None:
    """The dependent is refused, or what it waits for stays."""
    first, second = await both(harness)
    blocker = await submit_one(first)

    async def remove(seconds: float) -> None:
        # A little later each round: the moment that matters is short, and not known from here.
        await asyncio.sleep(seconds)
        await tick(first, completed_retention_seconds=60.0)

    for n in range(2 * ROUNDS):
        parent = await job_in_state(first, State.CANCELLED)
        harness.clock.advance(60)
        child = new_job(dependencies=after(parent, kind=DependencyKind.AFTER_ANY) + after(blocker))
        answer, _ = await asyncio.gather(submit_answer(second, child), remove(n * 0.0003))
        is_refused = isinstance(answer, InvalidInput)
        assert await first.read([parent]) != [None] or is_refused
        upstream = {one.job_id for one in await first.read_upstream(child.id)}
        assert upstream == (set() if is_refused else {parent, blocker})


async def test_a_removal_and_a_replay_agree(harness: StoreHarness) -> None:
    """The job is gone, or it lives again; counted exactly either way."""
    first, second = await both(harness)
    for _ in range(ROUNDS):
        job_id = await job_in_state(first, State.FAILED)
        harness.clock.advance(60)
        _, answer = await asyncio.gather(tick(first, dead_retention_seconds=60.0), replay_one(second, job_id))
        (job,) = await first.read([job_id])
        assert (answer.outcome is ReplayOutcome.NOT_FOUND) == (job is None)
        assert job is None or job.state is State.SCHEDULED
