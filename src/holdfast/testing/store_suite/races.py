"""Races: two stores at one time on the same job, and exactly one of them wins (PORT-6)."""

import asyncio
from collections import Counter
from typing import Final
from uuid import UUID

from holdfast.core.commands import (
    CancelOutcome,
    Filter,
    Heartbeat,
    ReplayOutcome,
    Settled,
    Settlement,
    Submitted,
)
from holdfast.core.errors import StaleLease
from holdfast.core.job import ClaimedJob, Timeouts
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.testing.factories import (
    COMPLETED,
    FAIL,
    cancel_one,
    claim,
    claim_one,
    job_in_state,
    new_job,
    read_all,
    read_counts,
    read_one,
    read_state,
    register,
    replay_one,
    running_job,
    settle_answer,
    submit_jobs,
    submit_one,
    tick,
)
from holdfast.testing.harness import StoreHarness

ROUNDS: Final = 20
SHORT: Final = Timeouts(visibility=10.0)


async def both(harness: StoreHarness) -> tuple[Store, Store]:
    return harness.store, await harness.second_store()


async def test_two_claims_never_give_one_job_twice(harness: StoreHarness) -> None:
    stores = await both(harness)
    workers = [await register(store) for store in stores]
    await submit_jobs(harness.store, *(new_job() for _ in range(ROUNDS * 5)))
    taken: list[ClaimedJob] = []
    for _ in range(ROUNDS * 5):
        claims = (claim(store, worker, limit=3) for store, worker in zip(stores, workers, strict=True))
        batches = await asyncio.gather(*claims)
        taken += [job for batch in batches for job in batch]
        if len(taken) >= ROUNDS * 5:
            break
    assert len({job.id for job in taken}) == len(taken) == ROUNDS * 5
    assert len({job.lease.token for job in taken}) == len(taken)
    assert all(job.attempt == job.lease.version == 1 for job in taken)
    assert await read_counts(harness.store) == {State.RUNNING: ROUNDS * 5}


async def test_many_claims_of_one_job_have_one_winner(harness: StoreHarness) -> None:
    stores = await both(harness)
    workers = [await register(harness.store) for _ in range(6)]
    for _ in range(ROUNDS):
        job_id = await submit_one(harness.store)
        batches = await asyncio.gather(*(claim(stores[n % 2], worker) for n, worker in enumerate(workers)))
        assert [job.id for batch in batches for job in batch] == [job_id]


async def test_a_claim_and_a_cancel_agree(harness: StoreHarness) -> None:
    """Either the job never starts, or its holder is told."""
    first, second = await both(harness)
    worker = await register(first)
    for _ in range(ROUNDS):
        job_id = await submit_one(first)
        claimed, answer = await asyncio.gather(claim(first, worker), cancel_one(second, job_id))
        job = await read_one(first, job_id)
        if claimed:
            assert (answer.outcome, job.state) == (CancelOutcome.REQUESTED, State.RUNNING)
            assert job.cancel_requested
        else:
            assert (answer.outcome, job.state) == (CancelOutcome.CANCELLED, State.CANCELLED)


async def test_a_settle_and_a_cancel_agree(harness: StoreHarness) -> None:
    """An ack wins, whether it comes first or second."""
    first, second = await both(harness)
    for _ in range(ROUNDS):
        job = await running_job(first)
        answer, cancelled = await asyncio.gather(settle_answer(first, job), cancel_one(second, job.id))
        assert answer == Settled(State.COMPLETED)
        assert cancelled.outcome in (CancelOutcome.REQUESTED, CancelOutcome.ALREADY_ENDED)
        read = await read_one(first, job.id)
        assert (read.state, read.cancel_requested) == (State.COMPLETED, False)


async def test_a_settle_and_an_expiry_agree(harness: StoreHarness) -> None:
    """PORT-2: whichever comes first, the other is refused or finds nothing to do."""
    first, second = await both(harness)
    for _ in range(ROUNDS):
        job = await running_job(first, timeouts=SHORT)
        harness.clock.advance(10)
        answer, _ = await asyncio.gather(settle_answer(first, job), tick(second))
        read = await read_one(first, job.id)
        attempts = await first.read_attempts(job.id)
        if isinstance(answer, StaleLease):
            assert (read.state, len(attempts)) == (State.SCHEDULED, 1)
        else:
            assert answer == Settled(State.COMPLETED)
            assert (read.state, len(attempts)) == (State.COMPLETED, 0)


async def test_an_extension_and_an_expiry_agree(harness: StoreHarness) -> None:
    first, second = await both(harness)
    for _ in range(ROUNDS):
        job = await running_job(first, timeouts=SHORT)
        harness.clock.advance(10)
        (answers, _) = await asyncio.gather(first.extend([job.lease]), tick(second))
        is_lost = isinstance(answers[0], StaleLease)
        assert await read_state(first, job.id) is (State.SCHEDULED if is_lost else State.RUNNING)


async def test_a_stale_settle_never_touches_the_newer_lease(harness: StoreHarness) -> None:
    """PORT-2: a late ack and the ack of the newer holder at once."""
    first, second = await both(harness)
    worker = await register(first)
    for _ in range(ROUNDS):
        stale = await running_job(first, timeouts=SHORT)
        harness.clock.advance(10)
        await tick(first)
        newer = await claim_one(first, worker, queues=(stale.queue,))
        late, answer = await asyncio.gather(settle_answer(second, stale, FAIL), settle_answer(first, newer))
        assert isinstance(late, StaleLease)
        assert answer == Settled(State.COMPLETED)
        assert await read_state(first, stale.id) is State.COMPLETED


async def test_one_lease_settled_twice_at_once_is_settled_once(harness: StoreHarness) -> None:
    """PORT-4: the repeat may overtake the first try."""
    first, second = await both(harness)
    for _ in range(ROUNDS):
        job = await running_job(first)
        answers = await asyncio.gather(settle_answer(first, job), settle_answer(second, job))
        assert Counter(answer.is_repeat for answer in answers) == {False: 1, True: 1}
        assert await read_counts(first, job.queue) == {State.COMPLETED: 1}


async def test_a_double_replay_counts_once(harness: StoreHarness) -> None:
    first, second = await both(harness)
    for _ in range(ROUNDS):
        job_id = await job_in_state(first, State.FAILED, queue="mine")
        answers = await asyncio.gather(replay_one(first, job_id), replay_one(second, job_id))
        outcomes = Counter(answer.outcome for answer in answers)
        assert outcomes == {ReplayOutcome.REPLAYED: 1, ReplayOutcome.UNCHANGED: 1}
        job = await read_one(first, job_id)
        assert (job.state, job.replays) == (State.SCHEDULED, 1)
        await cancel_one(first, job_id)


async def test_a_claim_beside_leave_strands_no_job(harness: StoreHarness) -> None:
    """Leave hands back what the claim got, or it is reclaimed within a minute."""
    first, second = await both(harness)
    for n in range(ROUNDS // 4):
        worker = await register(first)
        await submit_jobs(first, *(new_job(queue=f"q{n}") for _ in range(50)))
        await asyncio.gather(
            claim(first, worker, queues=(f"q{n}",), limit=50), second.leave(worker), return_exceptions=True
        )
        harness.clock.advance(60)
        await tick(first)
        assert await read_counts(first, f"q{n}") == {State.SCHEDULED: 50}


async def test_two_ticks_do_each_thing_once(harness: StoreHarness) -> None:
    """PORT-6."""
    first, second = await both(harness)
    for _ in range(ROUNDS // 4):
        worker = await register(first)
        await submit_jobs(first, *(new_job(queue="late", delay_seconds=10.0) for _ in range(10)))
        await submit_jobs(first, *(new_job(queue="held", timeouts=SHORT) for _ in range(10)))
        held = await claim(first, worker, queues=("held",))
        harness.clock.advance(10)
        reports = [one for batch in await asyncio.gather(tick(first), tick(second)) for one in batch]
        reports += await tick(first)
        assert sum(report.due for report in reports) == 10
        assert sum(report.reclaimed for report in reports) == len(held) == 10
        assert {(await read_one(first, job.id)).attempt for job in held} == {1}
        for queue in ("late", "held"):
            scheduled = await read_all(first, Filter(queue=queue, states=frozenset({State.SCHEDULED})))
            assert len(scheduled) == 10
            await first.cancel([job.id for job in scheduled])


async def test_two_submits_with_one_key_make_one_job(harness: StoreHarness) -> None:
    """One created, one duplicate, one ID."""
    stores = await both(harness)
    for n in range(ROUNDS):
        answers = await asyncio.gather(
            *(submit_jobs(stores[m % 2], new_job(queue=f"q{n}", key=f"k{n}")) for m in range(4))
        )
        submitted = [answer[0] for answer in answers]
        assert len({one.job_id for one in submitted}) == 1
        assert Counter(one.is_duplicate for one in submitted) == {False: 1, True: 3}
        assert await read_counts(harness.store, f"q{n}") == {State.SCHEDULED: 1}


async def test_two_submits_of_one_job_make_one_job(harness: StoreHarness) -> None:
    """PORT-4: the repeat of a submit whose first try is still under way."""
    stores = await both(harness)
    for n in range(ROUNDS):
        jobs = (new_job(queue=f"q{n}"), new_job(queue=f"q{n}", delay_seconds=5.0))
        answers = await asyncio.gather(*(submit_jobs(store, *jobs) for store in stores))
        assert list(answers) == [tuple(Submitted(job.id) for job in jobs)] * 2
        assert await read_counts(harness.store, f"q{n}") == {State.SCHEDULED: 1, State.DELAYED: 1}


async def test_keyed_batches_in_opposite_order_do_not_block_each_other(harness: StoreHarness) -> None:
    """PORT-1: whatever the order of the keys, each submit comes to an end, and each key stands for one job."""
    stores = await both(harness)
    for n in range(ROUNDS):
        keys = [f"{n}-{m}" for m in range(6)]
        answers = await asyncio.gather(
            submit_jobs(stores[0], *(new_job(key=key) for key in keys)),
            submit_jobs(stores[1], *(new_job(key=key) for key in reversed(keys))),
        )
        ids: list[list[UUID]] = [[one.job_id for one in answer] for answer in answers]
        assert ids[0] == ids[1][::-1]
    assert await read_counts(harness.store) == {State.SCHEDULED: ROUNDS * 6}


async def test_a_heartbeat_and_a_lost_claim_agree(harness: StoreHarness) -> None:
    """Leases that the worker does not know are handed back, once."""
    first, second = await both(harness)
    worker = await register(first)
    for _ in range(ROUNDS):
        job_id = await submit_one(first)
        await claim(first, worker)
        beat = Heartbeat(worker=worker, held=())
        answers = await asyncio.gather(first.heartbeat(beat), second.heartbeat(beat))
        assert sum(answer.handed_back for answer in answers) == 1
        job = await read_one(first, job_id)
        assert (job.state, job.attempt, job.lease_version) == (State.SCHEDULED, 0, 1)
        await cancel_one(first, job_id)


async def test_settles_of_overlapping_batches_do_not_block_each_other(harness: StoreHarness) -> None:
    """PORT-1, PORT-2: in opposite order, from two stores."""
    first, second = await both(harness)
    worker = await register(first)
    for _ in range(ROUNDS):
        await submit_jobs(first, *(new_job() for _ in range(8)))
        batch = [Settlement(lease=job.lease, outcome=COMPLETED) for job in await claim(first, worker)]
        forth, back = await asyncio.gather(first.settle(batch), second.settle(batch[::-1]))
        pairs = zip(forth, back[::-1], strict=True)
        for one, other in pairs:
            assert isinstance(one, Settled)
            assert isinstance(other, Settled)
            assert one.is_repeat is not other.is_repeat
    assert await read_counts(first) == {State.COMPLETED: ROUNDS * 8}
