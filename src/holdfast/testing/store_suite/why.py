"""Why: what is said of a job agrees with what claims do, since both ask the same predicates."""

from collections.abc import Awaitable, Callable
from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from holdfast.core.commands import Heartbeat
from holdfast.core.dependencies import DependencyKind
from holdfast.core.errors import JobNotFound
from holdfast.core.job import Timeouts
from holdfast.core.priority import Priority
from holdfast.core.retry import Retry
from holdfast.core.states import State
from holdfast.core.why import is_claimable, is_served_by
from holdfast.engine.why import gather, why
from holdfast.testing.factories import (
    FAIL,
    HANDED_BACK,
    RETRY,
    after,
    cancel_one,
    claim,
    job_in_state,
    new_job,
    pass_time,
    register,
    replay_one,
    running_job,
    settle,
    submit_jobs,
    submit_one,
    tick,
)
from holdfast.testing.harness import StoreHarness

Situation = Callable[[StoreHarness], Awaitable[UUID]]
QUEUE: Final = "mine"
SHORT: Final = Timeouts(lifetime=10.0)
MAX_CLAIMS: Final = 20


def in_state(state: State) -> Situation:
    async def situation(harness: StoreHarness) -> UUID:
        return await job_in_state(harness.store, state, queue=QUEUE)

    return situation


async def paused(harness: StoreHarness) -> UUID:
    await harness.store.pause(QUEUE)
    return await submit_one(harness.store, queue=QUEUE)


async def resumed(harness: StoreHarness) -> UUID:
    job_id = await paused(harness)
    await harness.store.resume(QUEUE)
    return job_id


async def another_queue_paused(harness: StoreHarness) -> UUID:
    await harness.store.pause("other")
    return await submit_one(harness.store, queue=QUEUE)


async def over_its_lifetime(harness: StoreHarness) -> UUID:
    job_id = await submit_one(harness.store, queue=QUEUE, timeouts=SHORT)
    harness.clock.advance(10)
    return job_id


async def in_the_last_moment_of_its_lifetime(harness: StoreHarness) -> UUID:
    job_id = await submit_one(harness.store, queue=QUEUE, timeouts=SHORT)
    harness.clock.advance(9.999999)
    return job_id


async def due_but_not_ticked(harness: StoreHarness) -> UUID:
    job_id = await submit_one(harness.store, queue=QUEUE, delay_seconds=5.0)
    harness.clock.advance(5)
    return job_id


async def due_and_ticked(harness: StoreHarness) -> UUID:
    job_id = await due_but_not_ticked(harness)
    await tick(harness.store)
    return job_id


async def behind_others(harness: StoreHarness) -> UUID:
    await submit_jobs(harness.store, *(new_job(queue=QUEUE) for _ in range(5)))
    return await submit_one(harness.store, queue=QUEUE, priority=Priority.BULK)


async def with_its_lease_over(harness: StoreHarness) -> UUID:
    job = await running_job(harness.store, queue=QUEUE, timeouts=Timeouts(visibility=5.0))
    harness.clock.advance(5)
    return job.id


async def reclaimed(harness: StoreHarness) -> UUID:
    """Claimed alone from then on."""
    job_id = await with_its_lease_over(harness)
    await tick(harness.store)
    return job_id


async def handed_back(harness: StoreHarness) -> UUID:
    job = await running_job(harness.store, queue=QUEUE)
    await settle(harness.store, job, HANDED_BACK)
    return job.id


async def retried(harness: StoreHarness) -> UUID:
    job = await running_job(harness.store, queue=QUEUE)
    await settle(harness.store, job, RETRY)
    await pass_time(harness, 60)
    return job.id


async def released(harness: StoreHarness) -> UUID:
    parent = await running_job(harness.store)
    job_id = await submit_one(harness.store, queue=QUEUE, dependencies=after(parent.id))
    await settle(harness.store, parent)
    return job_id


async def replayed(harness: StoreHarness) -> UUID:
    job_id = await job_in_state(harness.store, State.DEAD_LETTER, queue=QUEUE)
    await replay_one(harness.store, job_id)
    return job_id


async def ended_with_its_dependency(harness: StoreHarness) -> UUID:
    parent = await running_job(harness.store)
    job_id = await submit_one(harness.store, queue=QUEUE, dependencies=after(parent.id))
    await settle(harness.store, parent, FAIL)
    return job_id


async def asked_to_stop(harness: StoreHarness) -> UUID:
    job = await running_job(harness.store, queue=QUEUE)
    await cancel_one(harness.store, job.id)
    return job.id


SITUATIONS: Final[dict[str, Situation]] = {
    **{state.lower(): in_state(state) for state in State},
    **{
        situation.__name__: situation
        for situation in (
            paused,
            resumed,
            another_queue_paused,
            over_its_lifetime,
            in_the_last_moment_of_its_lifetime,
            due_but_not_ticked,
            due_and_ticked,
            behind_others,
            with_its_lease_over,
            reclaimed,
            handed_back,
            retried,
            released,
            replayed,
            ended_with_its_dependency,
            asked_to_stop,
        )
    },
}


async def is_claimed(harness: StoreHarness, job_id: UUID, worker: UUID, **asked: Any) -> bool:
    """Whether claims until nothing is left return the job."""
    for _ in range(MAX_CLAIMS):
        jobs = await claim(harness.store, worker, **asked)
        if any(job.id == job_id for job in jobs):
            return True
        if not jobs:
            return False
    raise AssertionError(f"still jobs after {MAX_CLAIMS} claims")


@pytest.mark.parametrize("name", SITUATIONS)
async def test_a_job_is_called_claimable_if_and_only_if_a_claim_returns_it(harness: StoreHarness, name: str) -> None:
    job_id = await SITUATIONS[name](harness)
    facts = await gather(harness.store, job_id)
    worker = await register(harness.store)
    assert is_claimable(facts.job, facts.place) is await is_claimed(harness, job_id, worker, queues=(QUEUE,))


@pytest.mark.parametrize("name", SITUATIONS)
async def test_every_situation_is_told_in_one_sentence(harness: StoreHarness, name: str) -> None:
    job_id = await SITUATIONS[name](harness)
    for _ in range(2):
        said = await why(harness.store, job_id)
        assert said[0].isupper()
        assert "\n" not in said
        assert "None" not in said
        await register(harness.store, queues=(QUEUE,))


@pytest.mark.parametrize(("queues", "types"), [((), ()), ((QUEUE,), ()), (("other",), ()), ((QUEUE,), ("send",))])
@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_worker_is_said_to_serve_a_job_if_and_only_if_its_claim_returns_it(
    harness: StoreHarness, queues: tuple[str, ...], types: tuple[str, ...], is_lost: bool
) -> None:
    """What a worker registered with is what it claims with."""
    worker = await register(harness.store, queues=queues, types=types)
    if is_lost:
        await pass_time(harness, 60)
    job_id = await submit_one(harness.store, queue=QUEUE, type="resize")
    facts = await gather(harness.store, job_id)
    (read,) = facts.workers
    if is_lost:
        answer = await harness.store.heartbeat(Heartbeat(worker=worker, held=()))
        assert is_served_by(read, facts.job) is answer.is_known is False
    else:
        asked = {"queues": queues or (QUEUE,), "types": types or None}
        assert is_served_by(read, facts.job) is await is_claimed(harness, job_id, worker, **asked)


async def test_nothing_can_be_said_of_a_job_that_is_not_there(harness: StoreHarness) -> None:
    """JobNotFound."""
    with pytest.raises(JobNotFound):
        await why(harness.store, uuid4())


async def test_the_sentence_names_what_stands_in_the_way(harness: StoreHarness) -> None:
    """One thing after the other, until nothing does."""
    store = harness.store
    job_id = await submit_one(store, queue=QUEUE, type="resize", priority=Priority.BULK)
    assert "no worker is running" in (await why(store, job_id)).lower()
    await register(store, queues=("mail", "default"), types=("resize",))
    assert "no live worker serves its queue 'mine', only 'default', 'mail'" in (await why(store, job_id)).lower()
    await register(store, queues=(QUEUE,), types=("send",))
    assert "no live worker of queue 'mine' has a handler for its type 'resize'" in (await why(store, job_id)).lower()
    await register(store, queues=(QUEUE,), types=("send", "resize"))
    await submit_jobs(store, *(new_job(queue=QUEUE) for _ in range(2)))
    assert "2 jobs stand before it in queue 'mine'" in await why(store, job_id)
    await store.pause(QUEUE)
    assert "paused since" in await why(store, job_id)
    await store.resume(QUEUE)
    worker = await register(store, queues=(QUEUE,), name="the one")
    await claim(store, worker, queues=(QUEUE,), limit=2)
    assert "next one in queue 'mine'" in await why(store, job_id)
    await claim(store, worker, queues=(QUEUE,))
    assert "running: attempt 1 of 3, by worker 'the one'" in await why(store, job_id)


async def test_a_lost_worker_serves_nobody(harness: StoreHarness) -> None:
    await register(harness.store)
    await pass_time(harness, 60)
    assert "no worker is running" in (await why(harness.store, await submit_one(harness.store))).lower()


async def test_a_job_that_waits_names_what_it_waits_for(harness: StoreHarness) -> None:
    """With the state that it is in."""
    store = harness.store
    running = await running_job(store)
    others = [await submit_one(store, queue="other") for _ in range(2)]
    job_id = await submit_one(store, dependencies=after(running.id, *others))
    said = await why(store, job_id)
    assert f"3 of 3 jobs to complete: {running.id} (RUNNING)" in said
    await settle(store, running)
    said = await why(store, job_id)
    assert "2 of 3 jobs" in said
    assert str(running.id) not in said
    either = await submit_one(store, dependencies=after(*others, kind=DependencyKind.AFTER_ANY))
    assert f"the first of these to end: {others[0]} (SCHEDULED), {others[1]} (SCHEDULED)" in await why(store, either)


async def test_a_job_that_is_retried_names_its_last_error(harness: StoreHarness) -> None:
    await register(harness.store)
    job_id = await job_in_state(harness.store, State.RETRYING, retry=Retry(max_attempts=4))
    said = await why(harness.store, job_id)
    assert "Attempt 1 of 4 failed: TEMPORARY: ServiceError: the service is away; it is due at" in said
    assert said.endswith("in 1 min.")


async def test_a_dead_job_says_how_it_comes_back(harness: StoreHarness) -> None:
    """By itself, or with what ended it."""
    failed = await job_in_state(harness.store, State.FAILED)
    assert f"holdfast replay {failed}" in await why(harness.store, failed)
    child = await submit_one(harness.store, dependencies=after(failed))
    assert f"holdfast replay {failed}" in await why(harness.store, child)
    assert "replay" not in await why(harness.store, await job_in_state(harness.store, State.COMPLETED))
    assert "replay" not in await why(harness.store, await job_in_state(harness.store, State.CANCELLED))
