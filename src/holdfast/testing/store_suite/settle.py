"""Settle: how an attempt ends, fenced by its token, item by item."""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from holdfast.core import limits
from holdfast.core.commands import Completed, Failed, HandedBack, Outcome, Settled, Settlement, Stopped
from holdfast.core.errors import InvalidTransition, JobNotFound, StaleLease
from holdfast.core.failures import Category, Failure
from holdfast.core.job import Progress, Timeouts
from holdfast.core.retry import Retry
from holdfast.core.states import State
from holdfast.testing.factories import (
    COMPLETED,
    FAIL,
    GIVE_UP,
    HANDED_BACK,
    PERMANENT,
    RETRY,
    TEMPORARY,
    cancel_one,
    claim,
    claim_one,
    new_job,
    read_all,
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


async def test_an_ack_completes_the_job_and_keeps_its_result(harness: StoreHarness) -> None:
    job = await running_job(harness.store)
    harness.clock.advance(1)
    result = b'{"text":"\xc3\xa4\x00\xff"}'
    assert await settle_answer(harness.store, job, Completed(result)) == Settled(State.COMPLETED)
    read = await read_one(harness.store, job.id)
    assert (read.result, read.failure, read.lease, read.attempt) == (result, None, None, 1)
    assert (read.completed_at, read.last_attempt_id) == (harness.clock.now(), job.lease.token)
    assert await harness.store.read_attempts(job.id) == []


async def test_a_batch_keeps_each_result_apart(harness: StoreHarness) -> None:
    """Equal, empty, absent, binary and large results beside one whose lease is stale."""
    results = [b"1", None, b"", b"x" * 100_000, b"\x00\xff", b"1", b"y" * 65_537, b"last"]
    worker = await register(harness.store)
    ids = await submit_jobs(harness.store, *(new_job() for _ in range(len(results) + 1)))
    *jobs, stale = await claim(harness.store, worker, limit=len(ids))
    lease = replace(stale.lease, token=uuid4())
    batch = [Settlement(lease=job.lease, outcome=Completed(result)) for job, result in zip(jobs, results, strict=True)]
    batch.insert(3, Settlement(lease=lease, outcome=Completed(b"stolen")))
    answers = await harness.store.settle(batch)
    assert isinstance(answers.pop(3), StaleLease)
    assert answers == [Settled(State.COMPLETED)] * len(results)
    assert [(await read_one(harness.store, job.id)).result for job in jobs] == results
    assert await read_state(harness.store, stale.id) is State.RUNNING


async def test_a_result_may_be_nothing(harness: StoreHarness) -> None:
    for result in (None, b"", b"x" * limits.DEFAULT_RESULT_BYTES):
        job = await running_job(harness.store)
        await settle(harness.store, job, Completed(result))
        assert (await read_one(harness.store, job.id)).result == result


async def test_a_permanent_failure_is_not_retried(harness: StoreHarness) -> None:
    """It ends in FAILED, not in DEAD_LETTER."""
    job = await running_job(harness.store)
    assert await settle(harness.store, job, Failed(PERMANENT, retry_in_seconds=1.0)) is State.FAILED
    read = await read_one(harness.store, job.id)
    assert (read.failure, read.completed_at, read.attempt) == (PERMANENT, harness.clock.now(), 1)


@pytest.mark.parametrize("category", [Category.TEMPORARY, Category.TIMEOUT, Category.SYSTEM])
async def test_a_retriable_failure_waits_for_its_backoff(harness: StoreHarness, category: Category) -> None:
    """It cannot be claimed before that."""
    job = await running_job(harness.store)
    harness.clock.advance(1)
    outcome = Failed(Failure(category=category), retry_in_seconds=2.5)
    assert await settle(harness.store, job, outcome) is State.RETRYING
    read = await read_one(harness.store, job.id)
    assert (read.due_at, read.attempt) == (harness.clock.now() + timedelta(seconds=2.5), 1)
    assert (read.lease, read.failure, read.completed_at) == (None, None, None)
    harness.clock.advance(2.4)
    await tick(harness.store)
    assert await read_state(harness.store, job.id) is State.RETRYING
    harness.clock.advance(0.1)
    await tick(harness.store)
    assert await read_state(harness.store, job.id) is State.SCHEDULED


async def test_a_category_that_the_job_does_not_retry_goes_to_the_dead_letters(harness: StoreHarness) -> None:
    """``Retry(on=…)`` says which categories are retried."""
    job = await running_job(harness.store)
    assert await settle(harness.store, job, GIVE_UP) is State.DEAD_LETTER
    assert (await read_one(harness.store, job.id)).failure == TEMPORARY


async def test_a_job_is_tried_at_most_max_attempts_times(harness: StoreHarness) -> None:
    """The first attempt counts: three retries are four attempts."""
    job_id = await submit_one(harness.store, retry=Retry(max_attempts=4))
    worker = await register(harness.store)
    states = []
    for _ in range(4):
        job = await claim_one(harness.store, worker)
        states.append(await settle(harness.store, job, RETRY))
        harness.clock.advance(60)
        await tick(harness.store)
    assert states == [State.RETRYING] * 3 + [State.DEAD_LETTER]
    assert await claim(harness.store, worker) == []
    assert (await read_one(harness.store, job_id)).attempt == 4


async def test_spent_attempts_are_kept_and_linked(harness: StoreHarness) -> None:
    """DECIDE-6: each attempt names the one before it."""
    job_id = await submit_one(harness.store)
    jobs = []
    for name in ("one", "two", "three"):
        worker = await register(harness.store, name)
        jobs.append(await claim_one(harness.store, worker))
        harness.clock.advance(1)
        trace = Failure(
            category=Category.TIMEOUT, message=f"no {name}", error_type="E", code="slow", trace=f"Traceback {name}"
        )
        await settle(harness.store, jobs[-1], Failed(trace, retry_in_seconds=0.0))
        await tick(harness.store)
    attempts = await harness.store.read_attempts(job_id)
    assert [attempt.number for attempt in attempts] == [1, 2, 3]
    assert [attempt.id for attempt in attempts] == [job.lease.token for job in jobs]
    assert [attempt.owner for attempt in attempts] == [job.lease.owner for job in jobs]
    assert [attempt.version for attempt in attempts] == [1, 2, 3]
    assert [attempt.previous_id for attempt in attempts] == [None, jobs[0].lease.token, jobs[1].lease.token]
    assert [job.previous_attempt_id for job in jobs] == [None, jobs[0].lease.token, jobs[1].lease.token]
    assert [attempt.failure.message for attempt in attempts] == ["no one", "no two", "no three"]
    assert attempts[0].failure.trace == "Traceback one"
    assert all(attempt.job_id == job_id and attempt.is_ended_by_holder for attempt in attempts)
    assert all(attempt.ended_at - attempt.started_at == timedelta(seconds=1) for attempt in attempts)
    assert (await read_one(harness.store, job_id)).last_attempt_id == jobs[2].lease.token


async def test_text_of_an_error_that_a_database_cannot_store_is_replaced(harness: StoreHarness) -> None:
    """Nothing is dropped silently, an error's text least of all."""
    job = await running_job(harness.store)
    text = "bad \0 and \ud800 and \U0001f600"
    failure = Failure(category=Category.PERMANENT, message=text, error_type=text, code=text, trace=text)
    await settle(harness.store, job, Failed(failure))
    read = await read_one(harness.store, job.id)
    assert read.failure == failure.bounded()
    assert [attempt.failure for attempt in await harness.store.read_attempts(job.id)] == [failure.bounded()]


async def test_long_text_of_an_error_is_cut_and_the_end_of_its_trace_kept(harness: StoreHarness) -> None:
    """Failure.bounded."""
    job = await running_job(harness.store)
    failure = Failure(category=Category.PERMANENT, message="m" * 20_000, trace="t" * 60_000 + "the end")
    await settle(harness.store, job, Failed(failure))
    read = (await read_one(harness.store, job.id)).failure
    assert read is not None
    assert len(read.message) == limits.MAX_ERROR_MESSAGE_CHARACTERS
    assert read.trace.endswith("the end")


async def test_a_hand_back_does_not_spend_the_attempt(harness: StoreHarness) -> None:
    """DECIDE-2: the lease version never goes back."""
    worker = await register(harness.store)
    job_id = await submit_one(harness.store, retry=Retry(max_attempts=1))
    for version in range(1, 4):
        job = await claim_one(harness.store, worker)
        assert (job.attempt, job.lease.version, job.previous_attempt_id) == (1, version, None)
        assert await settle(harness.store, job, HANDED_BACK) is State.SCHEDULED
        read = await read_one(harness.store, job_id)
        assert (read.attempt, read.lease_version, read.started_at) == (0, version, None)
    assert await harness.store.read_attempts(job_id) == []


async def test_a_type_unknown_here_is_due_again_after_a_while(harness: StoreHarness) -> None:
    """Handed back, due in 30 s, no attempt spent."""
    job = await running_job(harness.store)
    assert await settle(harness.store, job, HandedBack(limits.UNKNOWN_TYPE_DELAY_SECONDS)) is State.DELAYED
    read = await read_one(harness.store, job.id)
    assert (read.due_at, read.attempt) == (harness.clock.now() + timedelta(seconds=30), 0)
    harness.clock.advance(30)
    await tick(harness.store)
    again = await claim_one(harness.store, await register(harness.store), queues=(job.queue,))
    assert (again.id, again.attempt, again.lease.version) == (job.id, 1, 2)


async def test_a_settle_after_expiry_but_before_reclaim_is_accepted(harness: StoreHarness) -> None:
    """A lease is valid until its token is replaced or cleared."""
    job = await running_job(harness.store, timeouts=SHORT)
    harness.clock.advance(3600)
    assert await settle(harness.store, job) is State.COMPLETED
    await tick(harness.store)
    assert await read_state(harness.store, job.id) is State.COMPLETED


@pytest.mark.parametrize("outcome", [COMPLETED, RETRY, FAIL, HANDED_BACK, Stopped()], ids=lambda o: type(o).__name__)
async def test_a_stale_lease_cannot_settle_a_job(harness: StoreHarness, outcome: Outcome) -> None:
    """PORT-2: a delayed ack or nack must not touch a newer claim."""
    job = await running_job(harness.store, timeouts=SHORT)
    harness.clock.advance(10)
    await tick(harness.store)
    scheduled = await snapshot(harness.store)
    answer = await settle_answer(harness.store, job, outcome)
    assert isinstance(answer, StaleLease)
    assert await snapshot(harness.store) == scheduled
    newer = await claim_one(harness.store, await register(harness.store), queues=(job.queue,))
    running = await snapshot(harness.store)
    answer = await settle_answer(harness.store, job, outcome)
    assert isinstance(answer, StaleLease)
    assert (answer.job_id, answer.held_version, answer.current_version) == (job.id, 1, 2)
    assert await snapshot(harness.store) == running
    assert await settle(harness.store, newer) is State.COMPLETED


async def test_the_owner_alone_does_not_make_a_lease(harness: StoreHarness) -> None:
    """PORT-2: the token is the fence, also between two leases of one worker."""
    worker = await register(harness.store)
    job = await running_job(harness.store, worker=worker, timeouts=SHORT)
    harness.clock.advance(10)
    await tick(harness.store)
    again = await claim_one(harness.store, worker, queues=(job.queue,))
    assert isinstance(await settle_answer(harness.store, job), StaleLease)
    assert await settle(harness.store, again) is State.COMPLETED


async def test_a_stale_lease_does_not_fail_its_neighbours(harness: StoreHarness) -> None:
    """Settle answers per item."""
    worker = await register(harness.store)
    first, second, third, fourth = [await running_job(harness.store, worker=worker) for _ in range(4)]
    gone = replace(first.lease, job_id=uuid4(), seq=first.lease.seq + 1_000_000)
    settlements = [
        Settlement(lease=first.lease, outcome=COMPLETED),
        Settlement(lease=replace(second.lease, token=uuid4()), outcome=COMPLETED),
        Settlement(lease=gone, outcome=COMPLETED),
        Settlement(lease=third.lease, outcome=Stopped()),
        Settlement(lease=fourth.lease, outcome=RETRY),
    ]
    answers = await harness.store.settle(settlements)
    assert answers[0] == Settled(State.COMPLETED)
    assert isinstance(answers[1], StaleLease)
    assert isinstance(answers[2], JobNotFound)
    assert isinstance(answers[3], InvalidTransition)
    assert answers[4] == Settled(State.RETRYING)
    read = [await read_state(harness.store, job.id) for job in (first, second, third, fourth)]
    assert read == [State.COMPLETED, State.RUNNING, State.RUNNING, State.RETRYING]


@pytest.mark.parametrize("outcome", [COMPLETED, RETRY, FAIL, GIVE_UP], ids=["ack", "retry", "fail", "give up"])
async def test_a_repeated_settle_is_answered_as_a_repeat(harness: StoreHarness, outcome: Outcome) -> None:
    """PORT-4: the holder learns that its outcome is the one that counts."""
    job = await running_job(harness.store)
    state = await settle(harness.store, job, outcome)
    before = await snapshot(harness.store)
    assert await settle_answer(harness.store, job, outcome) == Settled(state, is_repeat=True)
    assert await snapshot(harness.store) == before


async def test_a_repeated_settle_of_an_older_attempt_does_not_touch_the_newer(harness: StoreHarness) -> None:
    """PORT-2, PORT-4."""
    job = await running_job(harness.store)
    await settle(harness.store, job, RETRY)
    harness.clock.advance(60)
    await tick(harness.store)
    await claim_one(harness.store, await register(harness.store), queues=(job.queue,))
    before = await snapshot(harness.store)
    assert await settle_answer(harness.store, job, RETRY) == Settled(State.RUNNING, is_repeat=True)
    assert await snapshot(harness.store) == before


async def test_a_repeated_hand_back_changes_nothing(harness: StoreHarness) -> None:
    """PORT-4: a hand-back leaves no trace to know a repeat by, so that it is stale, and harmless."""
    job = await running_job(harness.store)
    await settle(harness.store, job, HANDED_BACK)
    before = await snapshot(harness.store)
    assert isinstance(await settle_answer(harness.store, job, HANDED_BACK), StaleLease)
    assert await snapshot(harness.store) == before


async def test_one_lease_settled_twice_in_one_call_counts_once(harness: StoreHarness) -> None:
    """PORT-4; the first in the call wins."""
    job = await running_job(harness.store)
    one, other = Settlement(lease=job.lease, outcome=COMPLETED), Settlement(lease=job.lease, outcome=FAIL)
    answers = await harness.store.settle([one, one, other])
    repeat = Settled(State.COMPLETED, is_repeat=True)
    assert answers == [Settled(State.COMPLETED), repeat, repeat]
    assert await read_counts(harness.store, job.queue) == {State.COMPLETED: 1}


@pytest.mark.parametrize("is_stale_first", [True, False])
async def test_a_stale_lease_beside_the_valid_one_of_the_same_job(harness: StoreHarness, is_stale_first: bool) -> None:
    """PORT-2: whatever the order, the valid one settles, and neighbours in any order with it."""
    worker = await register(harness.store)
    await submit_jobs(harness.store, *(new_job() for _ in range(4)))
    jobs = await claim(harness.store, worker)
    leases = [job.lease for job in reversed(jobs)]
    stale = replace(leases[1], token=uuid4())
    leases[1:2] = [stale, leases[1]] if is_stale_first else [leases[1], stale]
    results = [str(index).encode() for index in range(len(leases))]
    given = [Settlement(lease=lease, outcome=Completed(result)) for lease, result in zip(leases, results, strict=True)]
    answers = await harness.store.settle(given)
    for one, answer in zip(given, answers, strict=True):
        if one.lease is stale:
            assert isinstance(answer, StaleLease)
        else:
            assert answer == Settled(State.COMPLETED)
            assert isinstance(one.outcome, Completed)
            assert (await read_one(harness.store, one.lease.job_id)).result == one.outcome.result


@pytest.mark.parametrize("outcome", [Stopped(), Failed(Failure(category=Category.CANCELLED))], ids=["stop", "fail"])
async def test_a_holder_cannot_cancel_what_nobody_asked_to_cancel(harness: StoreHarness, outcome: Outcome) -> None:
    """STATE-2: CANCELLED is entered by cancel only."""
    job = await running_job(harness.store)
    before = await snapshot(harness.store)
    assert isinstance(await settle_answer(harness.store, job, outcome), InvalidTransition)
    assert await snapshot(harness.store) == before


async def test_the_newest_progress_is_written_with_the_settle(harness: StoreHarness) -> None:
    for outcome in (COMPLETED, RETRY, FAIL, HANDED_BACK):
        job = await running_job(harness.store)
        await settle_answer(harness.store, job, outcome, progress=Progress(percent=70.5, message="nearly"))
        assert (await read_one(harness.store, job.id)).progress == Progress(percent=70.5, message="nearly")


async def test_a_stale_settle_writes_no_progress(harness: StoreHarness) -> None:
    """PORT-2."""
    job = await running_job(harness.store)
    stale = replace(job.lease, token=uuid4())
    await settle_answer(harness.store, stale, COMPLETED, progress=Progress(percent=70))
    assert (await read_one(harness.store, job.id)).progress is None


async def test_a_mixed_batch_is_counted_exactly(harness: StoreHarness) -> None:
    """INVARIANT-1, whichever path inside the store each outcome takes."""
    worker = await register(harness.store)
    await submit_jobs(harness.store, *(new_job() for _ in range(10)))
    jobs = await claim(harness.store, worker)
    await cancel_one(harness.store, jobs[9].id)
    outcomes: list[Outcome] = [
        COMPLETED,
        RETRY,
        FAIL,
        HANDED_BACK,
        GIVE_UP,
        COMPLETED,
        HandedBack(5.0),
        COMPLETED,
        COMPLETED,
        FAIL,
    ]
    settlements = [Settlement(lease=job.lease, outcome=one) for job, one in zip(jobs, outcomes, strict=True)]
    answers = await harness.store.settle(settlements)
    expected = ["COMPLETED", "RETRYING", "FAILED", "SCHEDULED", "DEAD_LETTER", "COMPLETED", "DELAYED"]
    expected += ["COMPLETED", "COMPLETED", "CANCELLED"]
    assert [answer.state for answer in answers if isinstance(answer, Settled)] == expected
    assert sum((await read_counts(harness.store)).values()) == len(await read_all(harness.store)) == 10
    assert (await read_counts(harness.store))[State.COMPLETED] == 4


async def test_nothing_settled_and_no_answer(harness: StoreHarness) -> None:
    """PORT-1."""
    assert await harness.store.settle([]) == []
