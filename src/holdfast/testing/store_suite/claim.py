"""Claim: a lease on a job, for one worker at a time. The order of claims is in ``claim_order``."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from holdfast.core.commands import Heartbeat, Settlement, lease_tokens
from holdfast.core.dependencies import DependencyKind
from holdfast.core.errors import InvalidInput, WorkerNotFound
from holdfast.core.job import Timeouts
from holdfast.core.payload import Payload
from holdfast.core.priority import Priority
from holdfast.core.retry import Retry
from holdfast.core.states import State
from holdfast.testing.factories import (
    COMPLETED,
    HANDED_BACK,
    RETRY,
    after,
    claim,
    claim_one,
    claimed_ids,
    new_claim,
    new_job,
    pass_time,
    read_counts,
    read_one,
    read_state,
    register,
    running_job,
    settle,
    submit_jobs,
    submit_one,
    tick,
)
from holdfast.testing.harness import StoreHarness
from holdfast.testing.invariants import snapshot


async def test_a_claim_leases_the_job_and_starts_an_attempt(harness: StoreHarness) -> None:
    """A new lease token, and a higher lease version; the attempt is counted when it starts."""
    job_id = await submit_one(harness.store, timeouts=Timeouts(visibility=42.0))
    worker = await register(harness.store)
    harness.clock.advance(1)
    now = harness.clock.now()
    claimed = await claim_one(harness.store, worker)
    assert (claimed.id, claimed.attempt, claimed.started_at) == (job_id, 1, now)
    assert (claimed.lease.owner, claimed.lease.version) == (worker, 1)
    assert claimed.lease.expires_at == now + timedelta(seconds=42)
    job = await read_one(harness.store, job_id)
    assert (job.state, job.attempt, job.started_at, job.updated_at) == (State.RUNNING, 1, now, now)
    assert job.lease == claimed.lease
    assert job.scheduled_at == now - timedelta(seconds=1)


async def test_a_claimed_job_carries_what_its_handler_needs(harness: StoreHarness) -> None:
    given = new_job(
        type="resize",
        queue="media",
        payload=Payload.of({"path": "a.png"}),
        priority=Priority.HIGH,
        timeouts=Timeouts(execution=12.0),
        retry=Retry(max_attempts=5, initial_delay=3.0),
        tags={"a": "b"},
        correlation_id="trace",
        callback_url="http://example.org/",
        key="k",
    )
    await submit_jobs(harness.store, given)
    claimed = await claim_one(harness.store, await register(harness.store), queues=("media",))
    for name in ("id", "type", "queue", "payload", "priority"):
        assert getattr(claimed, name) == getattr(given, name), name
    assert claimed.max_attempts == 5
    assert claimed.options == given.options
    assert (claimed.has_dependencies, claimed.previous_attempt_id, claimed.checkpoint) == (False, None, None)
    assert claimed.created_at == harness.clock.now()


async def test_a_plain_job_is_claimed_with_the_default_options(harness: StoreHarness) -> None:
    job = await running_job(harness.store)
    assert (job.options.execution_seconds, job.options.retry) == (1800.0, Retry())
    assert (dict(job.options.tags), job.options.key) == ({}, None)


async def test_a_claimed_job_knows_that_it_waited_for_others(harness: StoreHarness) -> None:
    """So that its handler knows whether there are results to read."""
    first = await running_job(harness.store)
    await submit_one(harness.store, dependencies=after(first.id, kind=DependencyKind.AFTER_ANY))
    await settle(harness.store, first)
    assert (await claim_one(harness.store, await register(harness.store))).has_dependencies


async def test_a_leased_job_is_invisible_to_others(harness: StoreHarness) -> None:
    await submit_one(harness.store)
    workers = [await register(harness.store) for _ in range(3)]
    found = [await claim(harness.store, worker) for worker in workers]
    assert [len(jobs) for jobs in found] == [1, 0, 0]


async def test_every_claim_makes_a_new_token_and_a_higher_version(harness: StoreHarness) -> None:
    """The token fences out every earlier holder."""
    await submit_one(harness.store, retry=Retry(max_attempts=10))
    worker = await register(harness.store)
    tokens = set()
    for version in range(1, 6):
        job = await claim_one(harness.store, worker)
        assert (job.lease.version, job.attempt) == (version, version)
        tokens.add(job.lease.token)
        await settle(harness.store, job, RETRY)
        harness.clock.advance(60)
        await tick(harness.store)
    assert len(tokens) == 5


async def test_a_claim_takes_at_most_its_limit(harness: StoreHarness) -> None:
    await submit_jobs(harness.store, *(new_job() for _ in range(5)))
    worker = await register(harness.store)
    assert [len(await claim(harness.store, worker, limit=2)) for _ in range(4)] == [2, 2, 1, 0]
    assert await read_counts(harness.store) == {State.RUNNING: 5}


async def test_a_claim_takes_only_from_its_queues(harness: StoreHarness) -> None:
    ids = {queue: await submit_one(harness.store, queue=queue) for queue in ("a", "b", "c")}
    worker = await register(harness.store)
    assert set(await claimed_ids(harness.store, worker, queues=("a", "c"))) == {ids["a"], ids["c"]}
    assert await claimed_ids(harness.store, worker, queues=("nobody", "a")) == []


async def test_a_claim_may_name_the_types_it_knows(harness: StoreHarness) -> None:
    ids = {name: await submit_one(harness.store, type=name) for name in ("a", "b", "c")}
    worker = await register(harness.store)
    assert await claimed_ids(harness.store, worker, types=("b", "x")) == [ids["b"]]
    assert await claimed_ids(harness.store, worker, types=()) == []
    assert await claimed_ids(harness.store, worker) == [ids["a"], ids["c"]]


async def test_unknown_types_at_the_head_do_not_hide_known_ones(harness: StoreHarness) -> None:
    await submit_jobs(harness.store, *(new_job(type="unknown", priority=Priority.CRITICAL) for _ in range(300)))
    known = await submit_one(harness.store, type="known", priority=Priority.BULK)
    worker = await register(harness.store)
    assert await claimed_ids(harness.store, worker, types=("known",), limit=1) == [known]


async def test_jobs_of_known_types_come_in_order_among_others(harness: StoreHarness) -> None:
    """Batch after batch, and whatever became claimable between them."""
    worker = await register(harness.store)
    mine: list[UUID] = []
    for _ in range(3):
        await submit_jobs(harness.store, *(new_job(type="theirs") for _ in range(20)))
        mine += [await submit_one(harness.store, type="mine") for _ in range(3)]
        assert await claimed_ids(harness.store, worker, types=("mine",), limit=2) == mine[:2]
        del mine[:2]
    urgent = await submit_one(harness.store, type="mine", priority=Priority.CRITICAL)
    assert await claimed_ids(harness.store, worker, types=("mine",), limit=2) == [urgent, mine[0]]
    assert await claimed_ids(harness.store, worker, types=("mine",)) == mine[1:]
    assert len(await claim(harness.store, worker, types=("theirs",))) == 60


async def test_a_job_that_comes_back_is_found_by_its_type(harness: StoreHarness) -> None:
    """Its new place is behind those that claims have passed."""
    worker = await register(harness.store)
    job_id = await submit_one(harness.store, type="mine")
    await submit_jobs(harness.store, *(new_job(type="theirs") for _ in range(20)))
    (job,) = await claim(harness.store, worker, types=("mine",))
    assert await claim(harness.store, worker, types=("mine",)) == []
    await settle(harness.store, job, HANDED_BACK)
    (job,) = await claim(harness.store, worker, types=("mine",))
    assert await settle(harness.store, job, RETRY) is State.RETRYING
    assert await claim(harness.store, worker, types=("mine",)) == []
    await pass_time(harness, 70.0)
    assert await claimed_ids(harness.store, await register(harness.store), types=("mine",)) == [job_id]


async def test_a_queue_that_was_paused_is_claimed_from_its_first_job(harness: StoreHarness) -> None:
    """Claims that found nothing because of the pause have not moved past anything."""
    worker = await register(harness.store)
    jobs = [await submit_one(harness.store, type="mine") for _ in range(3)]
    await submit_one(harness.store, type="theirs")
    await harness.store.pause("default")
    for _ in range(2):
        assert await claim(harness.store, worker, types=("mine",)) == []
    await harness.store.resume("default")
    assert await claimed_ids(harness.store, worker, types=("mine",)) == jobs


async def test_a_worker_that_is_not_registered_cannot_claim(harness: StoreHarness) -> None:
    """Store.claim: raises WorkerNotFound."""
    job_id = await submit_one(harness.store)
    stranger = uuid4()
    with pytest.raises(WorkerNotFound) as caught:
        await claim(harness.store, stranger)
    assert caught.value.worker_id == stranger
    assert await read_state(harness.store, job_id) is State.SCHEDULED


async def test_tokens_are_known_before_the_claim(harness: StoreHarness) -> None:
    """They are made from the claim's nonce, so a worker that got no answer still knows them."""
    await submit_jobs(harness.store, *(new_job() for _ in range(3)))
    asked = new_claim(await register(harness.store), limit=3)
    jobs = await harness.store.claim(asked)
    assert {job.lease.token for job in jobs} == set(lease_tokens(asked.nonce, 3))


async def test_a_repeated_claim_returns_the_same_leases(harness: StoreHarness) -> None:
    """PORT-4."""
    await submit_jobs(harness.store, *(new_job() for _ in range(5)))
    worker = await register(harness.store)
    asked = new_claim(worker, limit=3)
    first = await harness.store.claim(asked)
    before = await snapshot(harness.store)
    again = await harness.store.claim(new_claim(worker, limit=3, nonce=asked.nonce, is_repeat=True))
    assert sorted(again, key=lambda job: job.lease.seq) == sorted(first, key=lambda job: job.lease.seq)
    assert await snapshot(harness.store) == before


async def test_a_repeated_claim_whose_first_try_never_arrived_claims(harness: StoreHarness) -> None:
    job_id = await submit_one(harness.store)
    worker = await register(harness.store)
    assert await claimed_ids(harness.store, worker, is_repeat=True) == [job_id]


async def test_a_repeated_claim_does_not_return_another_claims_leases(harness: StoreHarness) -> None:
    await submit_jobs(harness.store, new_job(), new_job())
    worker = await register(harness.store)
    first, second = new_claim(worker, limit=1), new_claim(worker, limit=1)
    (one,) = await harness.store.claim(first)
    (two,) = await harness.store.claim(second)
    repeat = new_claim(worker, limit=1, nonce=second.nonce, is_repeat=True)
    assert [job.id for job in await harness.store.claim(repeat)] == [two.id]
    assert one.id != two.id


async def test_a_claim_that_arrives_after_its_repeat_does_no_harm(harness: StoreHarness) -> None:
    """What nobody knows of is handed back, or reclaimed with the worker."""
    await submit_jobs(harness.store, *(new_job() for _ in range(4)))
    for is_alive in (True, False):
        worker = await register(harness.store)
        late = new_claim(worker, limit=2)
        known = await harness.store.claim(replace(late, is_repeat=True))
        await harness.store.claim(late)
        if is_alive:
            await harness.store.heartbeat(Heartbeat(worker=worker, held=tuple(job.lease for job in known)))
            assert await read_counts(harness.store) == {State.RUNNING: 2, State.SCHEDULED: 2}
            await harness.store.heartbeat(Heartbeat(worker=worker, held=()))
            assert await read_counts(harness.store) == {State.SCHEDULED: 4}
    await pass_time(harness, 60)
    assert await read_counts(harness.store) == {State.SCHEDULED: 4}


async def test_a_lease_does_not_outlive_its_job(harness: StoreHarness) -> None:
    await submit_one(harness.store, timeouts=Timeouts(visibility=300.0, lifetime=100.0))
    created_at = harness.clock.now()
    harness.clock.advance(40)
    job = await claim_one(harness.store, await register(harness.store))
    assert job.lease.expires_at == created_at + timedelta(seconds=100)
    await harness.store.extend([job.lease])
    lease = (await read_one(harness.store, job.id)).lease
    assert lease is not None
    assert lease.expires_at == created_at + timedelta(seconds=100)


async def test_a_job_over_its_lifetime_is_not_claimed(harness: StoreHarness) -> None:
    """It waits for the tick that moves it to DEAD_LETTER."""
    job_id = await submit_one(harness.store, timeouts=Timeouts(lifetime=100.0))
    young = await submit_one(harness.store)
    worker = await register(harness.store)
    harness.clock.advance(100)
    assert await claimed_ids(harness.store, worker) == [young]
    await tick(harness.store)
    assert await read_state(harness.store, job_id) is State.DEAD_LETTER


async def test_a_job_that_was_reclaimed_is_claimed_alone(harness: StoreHarness) -> None:
    """A job that kills its worker must not spend its neighbours' attempts, too."""
    worker = await register(harness.store)
    jobs = [new_job(timeouts=Timeouts(visibility=10.0)), *(new_job() for _ in range(4))]
    await submit_jobs(harness.store, *jobs)
    await claim_one(harness.store, worker)
    harness.clock.advance(10)
    await tick(harness.store)
    await submit_jobs(harness.store, *(new_job() for _ in range(3)))
    batches = [await claimed_ids(harness.store, worker, limit=10) for _ in range(3)]
    assert batches[1] == [jobs[0].id], "alone"
    assert sorted(len(batch) for batch in batches) == [1, 3, 4]


async def test_a_claim_and_its_repeat_say_which_job_was_reclaimed(harness: StoreHarness) -> None:
    """A worker keeps the last attempts of such jobs apart."""
    worker = await register(harness.store)
    await submit_one(harness.store, timeouts=Timeouts(visibility=10.0))
    assert not (await claim_one(harness.store, worker)).was_reclaimed
    harness.clock.advance(10)
    await tick(harness.store)
    asked = new_claim(worker)
    for is_repeat in (False, True):
        (job,) = await harness.store.claim(replace(asked, is_repeat=is_repeat))
        assert (job.was_reclaimed, job.is_last_chance) == (True, False)


async def test_a_job_stays_fragile_after_a_replay(harness: StoreHarness) -> None:
    """A job that was ever reclaimed is claimed alone."""
    worker = await register(harness.store)
    retry, timeouts = Retry(max_attempts=1), Timeouts(visibility=10.0)
    fragile = await submit_one(harness.store, timeouts=timeouts, retry=retry)
    await claim_one(harness.store, worker)
    harness.clock.advance(10)
    await tick(harness.store)
    assert await read_state(harness.store, fragile) is State.DEAD_LETTER
    await harness.store.replay([fragile])
    await submit_one(harness.store)
    assert await claimed_ids(harness.store, worker) == [fragile]


async def test_a_fragile_job_fails_without_its_neighbours(harness: StoreHarness) -> None:
    """After the first crash only the poison job spends attempts."""
    worker = await register(harness.store)
    timeouts = Timeouts(visibility=10.0)
    await submit_jobs(harness.store, *(new_job(timeouts=timeouts) for _ in range(3)))
    for _ in range(2):
        assert await claim(harness.store, worker)
        harness.clock.advance(10)
        await tick(harness.store)
    for batch in [await claim(harness.store, worker) for _ in range(3)]:
        assert len(batch) == 1


async def test_a_claim_of_nonsense_is_refused(harness: StoreHarness) -> None:
    """PORT-5."""
    worker = await register(harness.store)
    await submit_one(harness.store)
    before = await snapshot(harness.store)
    for wrong in ({"limit": 0}, {"limit": 1001}, {"queues": ()}, {"queues": ("a", "a")}):
        with pytest.raises(InvalidInput):
            await claim(harness.store, worker, **wrong)
    assert await snapshot(harness.store) == before


async def test_many_jobs_are_claimed_in_one_call(harness: StoreHarness) -> None:
    """And settled in one call, too."""
    await submit_jobs(harness.store, *(new_job() for _ in range(1000)))
    worker = await register(harness.store)
    jobs = await claim(harness.store, worker, limit=1000)
    assert len({job.id for job in jobs}) == len({job.lease.token for job in jobs}) == 1000
    leases = tuple(job.lease for job in jobs)
    answer = await harness.store.heartbeat(Heartbeat(worker=worker, held=leases))
    assert (answer.lost, answer.handed_back) == (frozenset(), 0)
    await harness.store.settle([Settlement(lease=lease, outcome=COMPLETED) for lease in leases])
    assert await read_counts(harness.store) == {State.COMPLETED: 1000}
