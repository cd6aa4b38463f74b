"""Workers: registered, heard of, lost, back, gone."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from holdfast.core.commands import Heartbeat, HeartbeatAnswer, WorkerInfo, lease_tokens
from holdfast.core.errors import StaleLease, WorkerNotFound
from holdfast.core.failures import Category
from holdfast.core.job import ClaimedJob, Timeouts
from holdfast.core.retry import Retry
from holdfast.core.states import State
from holdfast.testing.factories import (
    FAIL,
    cancel_one,
    claim,
    claim_one,
    new_claim,
    new_job,
    pass_time,
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


async def beat(harness: StoreHarness, worker: UUID, *held: ClaimedJob, **more: frozenset[UUID]) -> HeartbeatAnswer:
    return await harness.store.heartbeat(Heartbeat(worker=worker, held=tuple(job.lease for job in held), **more))


async def pass_time_with(harness: StoreHarness, seconds: int, worker: UUID, *held: ClaimedJob) -> None:
    """Time passes, and this worker is heard of all along."""
    for _ in range(0, seconds, 5):
        await pass_time(harness, 5)
        await beat(harness, worker, *held)


async def read_worker(harness: StoreHarness, worker: UUID) -> WorkerInfo:
    (found,) = [one for one in await harness.store.read_workers() if one.id == worker]
    return found


async def test_a_registered_worker_can_be_read(harness: StoreHarness) -> None:
    worker = await register(harness.store, "host-1 ä")
    now = harness.clock.now()
    assert await harness.store.read_workers() == [
        WorkerInfo(id=worker, name="host-1 ä", registered_at=now, seen_at=now, is_lost=False, running=0)
    ]


async def test_what_a_worker_serves_can_be_read(harness: StoreHarness) -> None:
    """register; a worker that does not say may serve anything."""
    queues, types = ("media", "mail ü", "default"), ("resize", 'odd "name"')
    worker = await register(harness.store, queues=queues, types=types)
    silent = await register(harness.store)
    served = {one.id: (one.queues, one.types) for one in await harness.store.read_workers()}
    assert served == {worker: (queues, types), silent: ((), ())}


async def test_a_worker_that_registers_again_serves_what_it_says_now(harness: StoreHarness) -> None:
    """register: the newest word counts, and a heartbeat changes nothing of it."""
    worker = await register(harness.store, queues=("media",), types=("resize",))
    await harness.store.register(worker, name="worker", queues=["mail"], types=["send", "bounce"])
    await beat(harness, worker)
    read = await read_worker(harness, worker)
    assert (read.queues, read.types) == (("mail",), ("send", "bounce"))


async def test_a_worker_may_claim_what_it_did_not_say(harness: StoreHarness) -> None:
    """register: what it serves is for people; a claim says for itself what it wants."""
    job_id = await submit_one(harness.store, queue="other", type="send")
    worker = await register(harness.store, queues=("media",), types=("resize",))
    assert (await claim_one(harness.store, worker, queues=("other",))).id == job_id


async def test_a_worker_is_seen_when_it_beats_and_its_jobs_are_counted(harness: StoreHarness) -> None:
    worker = await register(harness.store)
    jobs = [await running_job(harness.store, worker=worker) for _ in range(2)]
    harness.clock.advance(5)
    answer = await beat(harness, worker, *jobs)
    assert answer == HeartbeatAnswer(is_known=True, lost=frozenset(), cancel_requested=frozenset(), handed_back=0)
    read = await read_worker(harness, worker)
    assert (read.seen_at, read.running, read.is_lost) == (harness.clock.now(), 2, False)
    await settle(harness.store, jobs[0])
    assert (await read_worker(harness, worker)).running == 1


async def test_a_heartbeat_keeps_leases_alive(harness: StoreHarness) -> None:
    """It extends them when a third of their length has passed."""
    worker = await register(harness.store)
    job = await running_job(harness.store, worker=worker, timeouts=Timeouts(visibility=12.0))
    await pass_time_with(harness, 60, worker, job)
    assert (await read_one(harness.store, job.id)).lease is not None
    lease = (await read_one(harness.store, job.id)).lease
    assert lease is not None
    assert lease.token == job.lease.token
    assert lease.expires_at >= harness.clock.now() + timedelta(seconds=8), "a third has passed at most"
    await settle(harness.store, job)


async def test_a_heartbeat_keeps_only_the_leases_that_it_names(harness: StoreHarness) -> None:
    """Leases in the worker's name that it does not know are handed back."""
    worker = await register(harness.store)
    known, unknown = [await running_job(harness.store, worker=worker) for _ in range(2)]
    answer = await beat(harness, worker, known)
    assert (answer.handed_back, answer.lost) == (1, frozenset())
    job = await read_one(harness.store, unknown.id)
    assert (job.state, job.attempt, job.lease_version) == (State.SCHEDULED, 0, 1)
    assert await read_state(harness.store, known.id) is State.RUNNING
    assert isinstance(await settle_answer(harness.store, unknown), StaleLease)


async def test_a_heartbeat_leaves_claims_in_flight_alone(harness: StoreHarness) -> None:
    """Heartbeat.claiming: not yet known, and not to be handed back either."""
    worker = await register(harness.store)
    await submit_jobs(harness.store, new_job(), new_job())
    asked = new_claim(worker, limit=2)
    jobs = await harness.store.claim(asked)
    answer = await beat(harness, worker, claiming=frozenset(lease_tokens(asked.nonce, 2)))
    assert answer.handed_back == 0
    answer = await beat(harness, worker, jobs[0], claiming=frozenset({jobs[1].lease.token}))
    assert answer.handed_back == 0
    assert (await beat(harness, worker)).handed_back == 2


async def test_a_heartbeat_hands_nothing_of_others_back(harness: StoreHarness) -> None:
    """Only leases in its own name."""
    mine, other = [await register(harness.store, name) for name in ("mine", "other")]
    job = await running_job(harness.store, worker=other)
    assert (await beat(harness, mine)).handed_back == 0
    assert await read_state(harness.store, job.id) is State.RUNNING


async def test_a_cancelled_job_that_nobody_knows_ends_when_it_is_handed_back(harness: StoreHarness) -> None:
    worker = await register(harness.store)
    job = await running_job(harness.store, worker=worker)
    await cancel_one(harness.store, job.id)
    await beat(harness, worker)
    assert await read_state(harness.store, job.id) is State.CANCELLED


async def test_a_heartbeat_names_the_leases_that_are_lost(harness: StoreHarness) -> None:
    """So that the worker ends their handlers."""
    worker = await register(harness.store)
    expired = await running_job(harness.store, worker=worker, timeouts=Timeouts(visibility=10.0))
    overaged = await running_job(harness.store, worker=worker, timeouts=Timeouts(lifetime=10.0))
    settled = await running_job(harness.store, worker=worker)
    valid = await running_job(harness.store, worker=worker)
    await settle(harness.store, settled)
    harness.clock.advance(10)
    await tick(harness.store)
    answer = await beat(harness, worker, expired, overaged, settled, valid)
    assert answer.lost == {job.lease.token for job in (expired, overaged, settled)}
    again = await claim_one(harness.store, worker, queues=(expired.queue,))
    answer = await beat(harness, worker, expired, again, valid)
    assert (answer.lost, answer.handed_back) == (frozenset({expired.lease.token}), 0)


async def test_a_heartbeat_with_a_stale_lease_does_not_touch_the_newer_one(harness: StoreHarness) -> None:
    """PORT-2: it does not extend the newer one, and its cancel request does not reach the wrong holder."""
    worker, other = await register(harness.store), await register(harness.store)
    stale = await running_job(harness.store, worker=worker, timeouts=Timeouts(visibility=10.0))
    harness.clock.advance(10)
    await tick(harness.store)
    newer = await claim_one(harness.store, other, queues=(stale.queue,))
    await cancel_one(harness.store, stale.id)
    harness.clock.advance(5)
    answer = await beat(harness, worker, stale)
    assert (answer.lost, answer.cancel_requested) == (frozenset({stale.lease.token}), frozenset())
    assert (await read_one(harness.store, stale.id)).lease == newer.lease


async def test_a_silent_worker_is_lost_and_its_jobs_reclaimed(harness: StoreHarness) -> None:
    """After the worker timeout, without waiting for the leases to expire."""
    worker = await register(harness.store)
    job = await running_job(harness.store, worker=worker)
    await pass_time_with(harness, 30, worker, job)
    other = await register(harness.store)
    await pass_time_with(harness, 15, other)
    assert await read_state(harness.store, job.id) is State.RUNNING, "15 s are not more than 15 s"
    await pass_time_with(harness, 5, other)
    read = await read_one(harness.store, job.id)
    assert (read.state, read.attempt, read.lease_version) == (State.SCHEDULED, 1, 1)
    (attempt,) = await harness.store.read_attempts(job.id)
    assert (attempt.failure.category, attempt.is_ended_by_holder) == (Category.SYSTEM, False)
    assert (await read_worker(harness, worker)).is_lost
    assert not (await read_worker(harness, other)).is_lost
    assert isinstance(await settle_answer(harness.store, job), StaleLease)


async def test_the_worker_timeout_can_be_set(harness: StoreHarness) -> None:
    """Tick.worker_timeout_seconds."""
    job = await running_job(harness.store)
    for _ in range(20):
        harness.clock.advance(1)
        await tick(harness.store, worker_timeout_seconds=4.0)
    assert await read_state(harness.store, job.id) is State.SCHEDULED


async def test_a_lost_workers_last_attempt_goes_to_the_dead_letters(harness: StoreHarness) -> None:
    """With category SYSTEM."""
    job = await running_job(harness.store, retry=Retry(max_attempts=1))
    await pass_time(harness, 60)
    read = await read_one(harness.store, job.id)
    assert read.state is State.DEAD_LETTER
    assert read.failure is not None
    assert read.failure.category is Category.SYSTEM


async def test_a_lost_worker_must_register_again(harness: StoreHarness) -> None:
    """HeartbeatAnswer.is_known; WorkerNotFound."""
    worker = await register(harness.store)
    job = await running_job(harness.store, worker=worker)
    await pass_time(harness, 60)
    answer = await beat(harness, worker, job)
    assert (answer.is_known, answer.lost) == (False, frozenset({job.lease.token}))
    with pytest.raises(WorkerNotFound):
        await claim(harness.store, worker, queues=(job.queue,))
    await harness.store.register(worker, name="worker")
    assert (await beat(harness, worker)).is_known
    assert not (await read_worker(harness, worker)).is_lost
    again = await claim_one(harness.store, worker, queues=(job.queue,))
    assert (again.id, again.lease.version) == (job.id, 2)
    assert isinstance(await settle_answer(harness.store, job, FAIL), StaleLease)


async def test_a_worker_nobody_registered_is_not_known(harness: StoreHarness) -> None:
    """HeartbeatAnswer.is_known."""
    answer = await beat(harness, uuid4())
    assert answer == HeartbeatAnswer(is_known=False, lost=frozenset(), cancel_requested=frozenset(), handed_back=0)
    assert await harness.store.read_workers() == []


async def test_a_gap_between_ticks_proves_nothing(harness: StoreHarness) -> None:
    """After a gap longer than half the worker timeout, reclaim waits for one full timeout more."""
    worker = await register(harness.store)
    job = await running_job(harness.store, worker=worker)
    await pass_time_with(harness, 30, worker, job)
    harness.clock.advance(60)
    await tick(harness.store)
    await pass_time(harness, 10)
    assert await read_state(harness.store, job.id) is State.RUNNING
    await beat(harness, worker, job)
    await pass_time_with(harness, 30, worker, job)
    assert await read_state(harness.store, job.id) is State.RUNNING, "it was heard of in time"


@pytest.mark.parametrize("sign", ["heartbeat", "register"])
async def test_who_is_heard_first_after_a_gap_does_not_hide_it(harness: StoreHarness, sign: str) -> None:
    """All were cut off, and one of them is back a moment before the others."""
    early, late = await register(harness.store), await register(harness.store)
    job = await running_job(harness.store, worker=late)
    for _ in range(6):
        await pass_time_with(harness, 5, late, job)
        await beat(harness, early)
    harness.clock.advance(60)
    if sign == "heartbeat":
        await beat(harness, early)
    else:
        await register(harness.store)
    await tick(harness.store)
    assert await read_state(harness.store, job.id) is State.RUNNING
    assert (await beat(harness, late, job)).lost == frozenset()


async def test_a_worker_that_stays_silent_after_a_gap_is_lost(harness: StoreHarness) -> None:
    """One full worker timeout more, and no longer."""
    worker = await register(harness.store)
    job = await running_job(harness.store, worker=worker)
    await pass_time_with(harness, 30, worker, job)
    harness.clock.advance(60)
    await tick(harness.store)
    await pass_time(harness, 20)
    assert await read_state(harness.store, job.id) is State.SCHEDULED


async def test_the_first_tick_of_all_proves_nothing(harness: StoreHarness) -> None:
    job = await running_job(harness.store)
    harness.clock.advance(60)
    await tick(harness.store)
    assert await read_state(harness.store, job.id) is State.RUNNING


async def test_an_expired_lease_is_reclaimed_even_after_a_gap(harness: StoreHarness) -> None:
    """A lease has a time of its own."""
    job = await running_job(harness.store, timeouts=Timeouts(visibility=30.0))
    harness.clock.advance(60)
    await tick(harness.store)
    assert await read_state(harness.store, job.id) is State.SCHEDULED


async def test_a_worker_that_leaves_hands_its_jobs_back(harness: StoreHarness) -> None:
    """Store.leave: in good order; no attempt is spent."""
    worker, other = await register(harness.store), await register(harness.store)
    jobs = [await running_job(harness.store, worker=worker) for _ in range(2)]
    kept = await running_job(harness.store, worker=other)
    await harness.store.leave(worker)
    for job in jobs:
        read = await read_one(harness.store, job.id)
        assert (read.state, read.attempt) == (State.SCHEDULED, 0)
    assert await read_state(harness.store, kept.id) is State.RUNNING
    assert [one.id for one in await harness.store.read_workers() if not one.is_lost] == [other]
    with pytest.raises(WorkerNotFound):
        await claim(harness.store, worker)
    assert isinstance(await settle_answer(harness.store, jobs[0]), StaleLease)


async def test_leases_of_a_worker_that_is_not_there_are_reclaimed_within_a_minute(harness: StoreHarness) -> None:
    """They are found by the lease, not by the worker's row; and not only when it expires."""
    worker, other = await register(harness.store), await register(harness.store)
    job = await running_job(harness.store, worker=worker)
    kept = await running_job(harness.store, worker=other)
    await tick(harness.store)
    await harness.forget_worker(worker)
    await pass_time_with(harness, 60, other, kept)
    read = await read_one(harness.store, job.id)
    assert (read.state, read.attempt) == (State.SCHEDULED, 1)
    assert await read_state(harness.store, kept.id) is State.RUNNING


async def test_leases_of_a_worker_that_is_not_there_end_in_time(harness: StoreHarness) -> None:
    """By expiry, by lifetime and by cancel, found by whichever process ticks."""
    worker = await register(harness.store)
    expiring = await running_job(harness.store, worker=worker, timeouts=Timeouts(visibility=10.0))
    overaged = await running_job(harness.store, worker=worker, timeouts=Timeouts(lifetime=10.0))
    cancelled = await running_job(harness.store, worker=worker, timeouts=Timeouts(visibility=10.0))
    await tick(harness.store)
    await harness.forget_worker(worker)
    await cancel_one(harness.store, cancelled.id)
    harness.clock.advance(10)
    await tick(await harness.second_store())
    states = [await read_state(harness.store, job.id) for job in (expiring, overaged, cancelled)]
    assert states == [State.SCHEDULED, State.DEAD_LETTER, State.CANCELLED]


async def test_leaving_twice_is_harmless(harness: StoreHarness) -> None:
    """PORT-4; also for a worker that was never here."""
    worker = await register(harness.store)
    await submit_one(harness.store)
    for _ in range(2):
        await harness.store.leave(worker)
    await harness.store.leave(uuid4())


async def test_registering_twice_keeps_the_leases(harness: StoreHarness) -> None:
    """PORT-4."""
    worker = await register(harness.store)
    job = await running_job(harness.store, worker=worker)
    harness.clock.advance(1)
    await harness.store.register(worker, name="worker")
    assert (await read_worker(harness, worker)).running == 1
    assert (await read_worker(harness, worker)).seen_at == harness.clock.now()
    assert await settle(harness.store, job) is State.COMPLETED


async def test_a_lost_worker_can_be_asked_about_for_a_day(harness: StoreHarness) -> None:
    """limits.WORKER_RETENTION_SECONDS."""
    worker = await register(harness.store)
    await pass_time(harness, 60)
    assert (await read_worker(harness, worker)).is_lost
    harness.clock.advance(24 * 3600)
    await tick(harness.store)
    assert await harness.store.read_workers() == []
