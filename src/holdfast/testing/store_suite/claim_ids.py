"""Claim by ID: exactly those jobs, by the rules of every claim, and an answer for each."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from holdfast.core.commands import BUSY, ClaimIdAnswer, ClaimIds, NotClaimed, WhyNot, lease_tokens
from holdfast.core.dependencies import DependencyKind
from holdfast.core.errors import InvalidInput, StaleLease, WorkerNotFound
from holdfast.core.job import ClaimedJob, Timeouts
from holdfast.core.ports import Store
from holdfast.core.retry import Retry
from holdfast.core.states import TERMINAL, State
from holdfast.engine import work
from holdfast.testing.factories import (
    HANDED_BACK,
    RETRY,
    after,
    cancel_one,
    claim_one,
    claimed_ids,
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

GONE = NotClaimed(WhyNot.GONE)


def asking(worker: UUID, *ids: UUID, **overrides: object) -> ClaimIds:
    fields = {"owner": worker, "ids": ids, "queues": ("default",), "nonce": uuid4(), **overrides}
    return ClaimIds(**fields)  # type: ignore[arg-type]


async def ask(store: Store, *ids: UUID, **overrides: object) -> list[ClaimIdAnswer]:
    return await store.claim_ids(asking(await register(store), *ids, **overrides))


def names(answers: Sequence[ClaimIdAnswer]) -> list[str]:
    return ["claimed" if isinstance(answer, ClaimedJob) else str(answer.why) for answer in answers]


async def test_exactly_the_jobs_asked_for_are_claimed(harness: StoreHarness) -> None:
    first, *others = [await submit_one(harness.store) for _ in range(4)]
    answers = await ask(harness.store, others[2], others[0])
    assert [answer.id for answer in answers if isinstance(answer, ClaimedJob)] == [others[2], others[0]]
    worker = await register(harness.store)
    assert await claimed_ids(harness.store, worker) == [first, others[1]]


async def test_a_job_claimed_by_its_id_is_like_any_other_claimed_one(harness: StoreHarness) -> None:
    given = {"timeouts": Timeouts(visibility=42.0), "retry": Retry(max_attempts=5), "tags": {"a": "b"}}
    await submit_one(harness.store, **given)
    worker = await register(harness.store)
    by_queue = await claim_one(harness.store, worker)
    job_id = await submit_one(harness.store, **given)
    (by_id,) = await harness.store.claim_ids(asking(worker, job_id))
    assert isinstance(by_id, ClaimedJob)
    assert replace(by_id, lease=by_queue.lease) == by_queue
    assert by_id.lease.expires_at == by_queue.lease.expires_at
    job = await read_one(harness.store, job_id)
    assert (job.state, job.lease, job.attempt) == (State.RUNNING, by_id.lease, 1)
    assert job.started_at == job.updated_at == harness.clock.now()


@pytest.mark.parametrize("state", sorted(TERMINAL))
async def test_an_ended_job_is_gone(harness: StoreHarness, state: State) -> None:
    """Of whatever queue and type."""
    job_id = await job_in_state(harness.store, state)
    await register(harness.store)
    before = await snapshot(harness.store)
    assert await ask(harness.store, job_id, types=("other",)) == [GONE]
    assert await snapshot(harness.store) == before


async def test_an_unknown_job_is_gone(harness: StoreHarness) -> None:
    assert await ask(harness.store, uuid4()) == [GONE]


async def test_a_job_that_waits_for_others_is_gone(harness: StoreHarness) -> None:
    """Whoever releases it tells of it."""
    first = await submit_one(harness.store)
    second = await submit_one(harness.store, dependencies=after(first, kind=DependencyKind.AFTER))
    assert names(await ask(harness.store, second, first)) == ["GONE", "claimed"]


async def test_a_job_over_its_lifetime_is_gone(harness: StoreHarness) -> None:
    job_id = await submit_one(harness.store, timeouts=Timeouts(lifetime=100.0))
    harness.clock.advance(100)
    assert await ask(harness.store, job_id) == [GONE]
    await tick(harness.store)
    assert await read_state(harness.store, job_id) is State.DEAD_LETTER


async def test_a_retry_without_an_attempt_left_is_gone(harness: StoreHarness) -> None:
    job = await running_job(harness.store, queue="default")
    await settle(harness.store, job, RETRY)
    await harness.set_max_attempts(job.id, 1)
    harness.clock.advance(60)
    assert await ask(harness.store, job.id) == [GONE]
    await tick(harness.store)
    assert await read_state(harness.store, job.id) is State.DEAD_LETTER


async def test_a_delayed_job_is_early_by_what_is_left(harness: StoreHarness) -> None:
    job_id = await submit_one(harness.store, delay_seconds=60.0)
    harness.clock.advance(20.25)
    assert await ask(harness.store, job_id) == [NotClaimed(WhyNot.EARLY, 39.75)]
    assert await read_state(harness.store, job_id) is State.DELAYED


async def test_a_job_that_has_come_due_is_claimed_before_tick_has_seen_it(harness: StoreHarness) -> None:
    delayed = await submit_one(harness.store, delay_seconds=60.0)
    retried = await running_job(harness.store, queue="default")
    await settle(harness.store, retried, RETRY)
    harness.clock.advance(60)
    answers = await ask(harness.store, delayed, retried.id)
    assert names(answers) == ["claimed", "claimed"]
    assert [answer.attempt for answer in answers if isinstance(answer, ClaimedJob)] == [1, 2]
    job = await read_one(harness.store, delayed)
    assert (job.state, job.due_at) == (State.RUNNING, None)
    assert job.scheduled_at == job.started_at == harness.clock.now(), "as if tick had been there first"
    assert await read_counts(harness.store) == {State.RUNNING: 2}
    assert sum(report.due for report in await tick(harness.store)) == 0


async def test_a_job_of_another_queue_or_type_is_foreign(harness: StoreHarness) -> None:
    elsewhere = await submit_one(harness.store, queue="elsewhere")
    unknown = await submit_one(harness.store, type="unknown")
    mine = await submit_one(harness.store)
    answers = await ask(harness.store, elsewhere, unknown, mine, types=("example",))
    assert names(answers) == ["FOREIGN", "FOREIGN", "claimed"]
    assert names(await ask(harness.store, unknown, types=())) == ["FOREIGN"]


async def test_a_job_in_a_paused_queue_is_left_there(harness: StoreHarness) -> None:
    job_id = await submit_one(harness.store)
    later = await submit_one(harness.store, delay_seconds=60.0)
    await harness.store.pause("default")
    assert names(await ask(harness.store, job_id, later)) == ["PAUSED", "PAUSED"]
    await harness.store.resume("default")
    assert names(await ask(harness.store, job_id, later)) == ["claimed", "EARLY"]


async def test_a_running_job_is_busy(harness: StoreHarness) -> None:
    job = await running_job(harness.store, queue="default")
    assert await ask(harness.store, job.id) == [BUSY]
    lease = (await read_one(harness.store, job.id)).lease
    assert lease == job.lease


async def test_of_two_claims_for_one_job_one_gets_it(harness: StoreHarness) -> None:
    job_id = await submit_one(harness.store)
    assert [names(await ask(harness.store, job_id)) for _ in range(2)] == [["claimed"], ["BUSY"]]


async def fragile_job(harness: StoreHarness) -> UUID:
    """One that was taken from a holder who did not come back."""
    job_id = await submit_one(harness.store, timeouts=Timeouts(visibility=10.0))
    await claim_one(harness.store, await register(harness.store))
    harness.clock.advance(10)
    await tick(harness.store)
    return job_id


async def test_a_job_that_was_reclaimed_is_taken_alone(harness: StoreHarness) -> None:
    fragile = await fragile_job(harness)
    others = [await submit_one(harness.store) for _ in range(3)]
    later = await submit_one(harness.store, delay_seconds=60.0)
    assert names(await ask(harness.store, later, fragile, others[0])) == ["EARLY", "claimed", "BUSY"]


async def test_a_batch_ends_before_a_job_that_was_reclaimed(harness: StoreHarness) -> None:
    fragile = await fragile_job(harness)
    others = [await submit_one(harness.store) for _ in range(3)]
    answers = await ask(harness.store, others[0], uuid4(), others[1], fragile, others[2])
    assert names(answers) == ["claimed", "GONE", "claimed", "BUSY", "BUSY"]


async def test_an_old_lease_is_stale_once_its_job_was_claimed_by_id(harness: StoreHarness) -> None:
    """Every claim makes a new token and a higher version."""
    first = await running_job(harness.store, queue="default")
    await settle(harness.store, first, HANDED_BACK)
    (second,) = await ask(harness.store, first.id)
    assert isinstance(second, ClaimedJob)
    assert (second.lease.version, second.attempt) == (2, 1)
    assert isinstance(await settle_answer(harness.store, first), StaleLease)
    assert await settle(harness.store, second) is State.COMPLETED


async def test_tokens_of_a_claim_by_id_are_known_before_it(harness: StoreHarness) -> None:
    ids = [await submit_one(harness.store) for _ in range(3)]
    asked = asking(await register(harness.store), *reversed(ids))
    answers = await harness.store.claim_ids(asked)
    tokens = [answer.lease.token for answer in answers if isinstance(answer, ClaimedJob)]
    assert tokens == lease_tokens(asked.nonce, 3)[::-1], "in the order of seq"


async def test_a_repeated_claim_by_id_returns_the_same_leases(harness: StoreHarness) -> None:
    ids = [await submit_one(harness.store) for _ in range(3)]
    await harness.store.pause("default")
    asked = asking(await register(harness.store), ids[2], uuid4(), ids[0])
    assert names(await harness.store.claim_ids(replace(asked, is_repeat=True))) == ["PAUSED", "GONE", "PAUSED"]
    await harness.store.resume("default")
    first = await harness.store.claim_ids(replace(asked, is_repeat=True))
    assert names(first) == ["claimed", "GONE", "claimed"]
    before = await snapshot(harness.store)
    again = await harness.store.claim_ids(replace(asked, is_repeat=True))
    assert [again[0], again[2]] == [first[0], first[2]]
    assert names(again) == ["claimed", "BUSY", "claimed"]
    assert await snapshot(harness.store) == before


async def test_a_worker_that_is_not_registered_cannot_claim_by_id(harness: StoreHarness) -> None:
    job_id = await submit_one(harness.store)
    with pytest.raises(WorkerNotFound):
        await harness.store.claim_ids(asking(uuid4(), job_id))
    assert await read_state(harness.store, job_id) is State.SCHEDULED


async def test_a_claim_by_nonsensical_ids_is_refused(harness: StoreHarness) -> None:
    worker = await register(harness.store)
    job_id = await submit_one(harness.store)
    before = await snapshot(harness.store)
    for wrong in ({"ids": ()}, {"ids": (job_id, job_id)}, {"queues": ()}, {"ids": tuple(uuid4() for _ in range(1001))}):
        with pytest.raises(InvalidInput):
            await work.claim_ids(harness.store, asking(worker, job_id, **wrong))
    assert await snapshot(harness.store) == before


async def test_a_cancelled_job_is_gone_and_its_neighbours_are_claimed(harness: StoreHarness) -> None:
    ids = [await submit_one(harness.store) for _ in range(3)]
    await cancel_one(harness.store, ids[1])
    assert names(await ask(harness.store, *ids)) == ["claimed", "GONE", "claimed"]


async def test_many_jobs_are_claimed_by_their_ids_in_one_call(harness: StoreHarness) -> None:
    jobs = [new_job() for _ in range(1000)]
    await submit_jobs(harness.store, *jobs)
    answers = await ask(harness.store, *(job.id for job in jobs))
    assert [answer.id for answer in answers if isinstance(answer, ClaimedJob)] == [job.id for job in jobs]
    assert len({answer.lease.token for answer in answers if isinstance(answer, ClaimedJob)}) == 1000
    assert await read_counts(harness.store) == {State.RUNNING: 1000}


async def test_a_claim_by_queue_and_one_by_id_do_not_meet(harness: StoreHarness) -> None:
    """What was taken by its ID is not found by a later claim, and the other way round."""
    worker = await register(harness.store)
    ids = [await submit_one(harness.store) for _ in range(4)]
    assert names(await ask(harness.store, ids[1])) == ["claimed"]
    assert await claimed_ids(harness.store, worker, limit=2) == [ids[0], ids[2]]
    assert names(await ask(harness.store, *ids)) == ["BUSY", "BUSY", "BUSY", "claimed"]
    assert await claimed_ids(harness.store, worker) == []
