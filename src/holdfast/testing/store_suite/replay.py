"""Replay: a dead job starts again, and what ended with it comes back."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from holdfast.core.commands import Filter, ReplayAnswer, ReplayOutcome, Report
from holdfast.core.dependencies import Dependency, DependencyKind
from holdfast.core.job import Timeouts
from holdfast.core.ports import Store
from holdfast.core.retry import Retry
from holdfast.core.states import REPLAYABLE, State
from holdfast.testing.factories import (
    FAIL,
    RETRY,
    after,
    cancel_one,
    claim_one,
    job_in_state,
    read_counts,
    read_one,
    read_state,
    read_states,
    register,
    replay_one,
    running_job,
    settle,
    submit_chain,
    submit_one,
    tick,
)
from holdfast.testing.harness import StoreHarness
from holdfast.testing.invariants import snapshot


async def dead_chain(store: Store, length: int) -> list[UUID]:
    """A chain whose first job failed, and so all."""
    ids = await submit_chain(store, length, queue="chain")
    await settle(store, await claim_one(store, await register(store), queues=("chain",)), FAIL)
    await tick(store)
    assert await read_states(store, ids) == [State.FAILED] * length
    return ids


async def run_one(store: Store, queue: str) -> UUID:
    job = await claim_one(store, await register(store), queues=(queue,))
    await settle(store, job)
    return job.id


@pytest.mark.parametrize("state", REPLAYABLE)
async def test_a_dead_job_starts_again(harness: StoreHarness, state: State) -> None:
    """Attempts and lifetime start again, and the replay is counted."""
    job_id = await job_in_state(harness.store, state, timeouts=Timeouts(lifetime=1000.0))
    harness.clock.advance(5000)
    assert await replay_one(harness.store, job_id) == ReplayAnswer(job_id, ReplayOutcome.REPLAYED, State.SCHEDULED)
    job = await read_one(harness.store, job_id)
    now = harness.clock.now()
    assert (job.state, job.attempt, job.replays, job.scheduled_at) == (State.SCHEDULED, 0, 1, now)
    assert job.lifetime_ends_at == now + timedelta(seconds=1000)
    assert (job.failure, job.completed_at, job.started_at, job.result) == (None, None, None, None)


async def test_a_replayed_job_has_all_its_attempts_again(harness: StoreHarness) -> None:
    """Its history stays, and its lease version never goes back."""
    worker = await register(harness.store)
    job_id = await submit_one(harness.store, retry=Retry(max_attempts=2))
    tokens: list[UUID] = []
    for replays in range(2):
        for attempt in (1, 2):
            job = await claim_one(harness.store, worker)
            assert (job.attempt, job.previous_attempt_id) == (attempt, tokens[-1] if tokens else None)
            assert job.lease.version == 2 * replays + attempt
            tokens.append(job.lease.token)
            await settle(harness.store, job, RETRY)
            harness.clock.advance(60)
            await tick(harness.store)
        assert await read_state(harness.store, job_id) is State.DEAD_LETTER
        await replay_one(harness.store, job_id)
    attempts = await harness.store.read_attempts(job_id)
    assert [attempt.id for attempt in attempts] == tokens
    assert [attempt.previous_id for attempt in attempts] == [None, *tokens[:-1]]
    assert [attempt.number for attempt in attempts] == [1, 2, 1, 2]
    assert (await read_one(harness.store, job_id)).replays == 2


async def test_a_job_replayed_after_its_lifetime_can_run(harness: StoreHarness) -> None:
    """A replay starts a new lifetime."""
    job_id = await submit_one(harness.store, timeouts=Timeouts(lifetime=100.0))
    harness.clock.advance(100)
    await tick(harness.store)
    assert await read_state(harness.store, job_id) is State.DEAD_LETTER
    await replay_one(harness.store, job_id)
    harness.clock.advance(99)
    await tick(harness.store)
    assert await run_one(harness.store, "default") == job_id


async def test_a_repeated_replay_changes_nothing(harness: StoreHarness) -> None:
    """PORT-4: but a job that dies again may be replayed again."""
    job_id = await job_in_state(harness.store, State.FAILED, queue="mine")
    await replay_one(harness.store, job_id)
    before = await snapshot(harness.store)
    harness.clock.advance(1)
    again = await replay_one(harness.store, job_id)
    assert again == ReplayAnswer(job_id, ReplayOutcome.UNCHANGED, State.SCHEDULED)
    assert await snapshot(harness.store) == before
    await settle(harness.store, await claim_one(harness.store, await register(harness.store), queues=("mine",)), FAIL)
    assert (await replay_one(harness.store, job_id)).outcome is ReplayOutcome.REPLAYED
    assert (await read_one(harness.store, job_id)).replays == 2


async def test_replay_answers_in_the_order_asked(harness: StoreHarness) -> None:
    """Store.replay: one answer an item, also for one that is not there, and for one asked twice."""
    dead = await job_in_state(harness.store, State.FAILED)
    alive = await submit_one(harness.store)
    unknown = uuid4()
    answers = await harness.store.replay([alive, unknown, dead, dead])
    assert [(answer.job_id, answer.outcome) for answer in answers] == [
        (alive, ReplayOutcome.UNCHANGED),
        (unknown, ReplayOutcome.NOT_FOUND),
        (dead, ReplayOutcome.REPLAYED),
        (dead, ReplayOutcome.UNCHANGED),
    ]
    assert await harness.store.replay([]) == []


async def test_the_checkpoint_survives_a_replay(harness: StoreHarness) -> None:
    job = await running_job(harness.store)
    await harness.store.report([Report(lease=job.lease, checkpoint=b"7")])
    await settle(harness.store, job, FAIL)
    await replay_one(harness.store, job.id)
    assert (await read_one(harness.store, job.id)).checkpoint == b"7"


async def test_a_job_that_ended_with_its_dependency_cannot_be_replayed_alone(harness: StoreHarness) -> None:
    """The Conflict names the dependency."""
    ids = await dead_chain(harness.store, 3)
    before = await snapshot(harness.store)
    answers = await harness.store.replay([ids[1], ids[2]])
    assert [answer.outcome for answer in answers] == [ReplayOutcome.ENDED_BY_DEPENDENCY] * 2
    assert [answer.dependency_id for answer in answers] == [ids[0], ids[1]]
    assert await snapshot(harness.store) == before


@pytest.mark.parametrize("is_child_first", [True, False])
async def test_a_job_that_is_named_beside_its_dependency_comes_back_with_it(
    harness: StoreHarness, is_child_first: bool
) -> None:
    """Its dependents come back with it, and are answered for so."""
    ids = await dead_chain(harness.store, 3)
    named = ids[::-1] if is_child_first else ids
    answers = await harness.store.replay([*named, ids[2]])
    states = {ids[0]: State.SCHEDULED, ids[1]: State.PENDING, ids[2]: State.PENDING}
    assert answers[:3] == [ReplayAnswer(job_id, ReplayOutcome.REPLAYED, states[job_id]) for job_id in named]
    assert answers[3] == ReplayAnswer(ids[2], ReplayOutcome.UNCHANGED, State.PENDING)


async def test_a_job_that_still_needs_another_dead_one_is_told_which(harness: StoreHarness) -> None:
    """The Conflict names what it would wait for."""
    first, second = [await running_job(harness.store) for _ in range(2)]
    child = await submit_one(harness.store, dependencies=after(first.id, second.id))
    await settle(harness.store, first, FAIL)
    await settle(harness.store, second, FAIL)
    answers = await harness.store.replay([child, first.id])
    assert [answer.outcome for answer in answers] == [ReplayOutcome.ENDED_BY_DEPENDENCY, ReplayOutcome.REPLAYED]
    assert answers[0].dependency_id == second.id
    assert (await read_one(harness.store, child)).ended_by == second.id


async def test_the_whole_chain_comes_back_with_its_first_job(harness: StoreHarness) -> None:
    """In one transaction."""
    ids = await dead_chain(harness.store, 5)
    harness.clock.advance(1)
    await replay_one(harness.store, ids[0])
    assert await read_states(harness.store, ids) == [State.SCHEDULED] + [State.PENDING] * 4
    for job in await harness.store.read(ids[1:]):
        assert job is not None
        assert (job.replays, job.ended_by, job.failure) == (1, None, None)
    for job_id in ids:
        assert await run_one(harness.store, "chain") == job_id


async def test_a_chain_that_came_back_ends_again_with_its_dependency(harness: StoreHarness) -> None:
    """DEPEND-3."""
    ids = await dead_chain(harness.store, 3)
    for replays in (1, 2):
        await replay_one(harness.store, ids[0])
        job = await claim_one(harness.store, await register(harness.store), queues=("chain",))
        await settle(harness.store, job, FAIL)
        await tick(harness.store)
        assert await read_states(harness.store, ids) == [State.FAILED] * 3
        assert (await read_one(harness.store, ids[2])).replays == replays


async def test_a_dependent_stays_ended_while_another_dependency_is_dead(harness: StoreHarness) -> None:
    """DEPEND-3: it comes back with the last of them."""
    first, second = [await job_in_state(harness.store, State.FAILED, queue=name) for name in ("first", "second")]
    child = await submit_one(harness.store, queue="child", dependencies=after(first, second))
    await replay_one(harness.store, first)
    job = await read_one(harness.store, child)
    assert (job.state, job.ended_by) == (State.FAILED, second)
    assert (await replay_one(harness.store, child)).dependency_id == second
    await replay_one(harness.store, second)
    assert await read_state(harness.store, child) is State.PENDING
    await run_one(harness.store, "first")
    assert await read_state(harness.store, child) is State.PENDING
    await run_one(harness.store, "second")
    assert await read_state(harness.store, child) is State.SCHEDULED


async def test_a_cancelled_dependency_keeps_its_dependent_ended(harness: StoreHarness) -> None:
    """STATE-3: CANCELLED is never left."""
    failed = await running_job(harness.store)
    cancelled = await submit_one(harness.store)
    child = await submit_one(harness.store, dependencies=after(failed.id, cancelled))
    await settle(harness.store, failed, FAIL)
    await cancel_one(harness.store, cancelled)
    await replay_one(harness.store, failed.id)
    job = await read_one(harness.store, child)
    assert (job.state, job.ended_by) == (State.FAILED, cancelled)


async def test_a_diamond_of_unequal_arms_comes_back_whole(harness: StoreHarness) -> None:
    """The last job is reached first over the short arm, while the long one is still dead."""
    top = await running_job(harness.store, queue="top")
    short = await submit_one(harness.store, dependencies=after(top.id))
    long = [await submit_one(harness.store, dependencies=after(top.id))]
    for _ in range(3):
        long.append(await submit_one(harness.store, dependencies=after(long[-1])))
    last = await submit_one(harness.store, dependencies=after(short, long[-1]))
    ids = [short, *long, last]
    await settle(harness.store, top, FAIL)
    await tick(harness.store)
    assert await read_states(harness.store, ids) == [State.FAILED] * 6
    await replay_one(harness.store, top.id)
    assert await read_states(harness.store, ids) == [State.PENDING] * 6
    await run_one(harness.store, "top")
    for _ in range(6):
        await run_one(harness.store, "default")
    assert await read_states(harness.store, ids) == [State.COMPLETED] * 6


async def test_what_did_not_end_with_the_job_is_left_alone(harness: StoreHarness) -> None:
    """DEPEND-4: a dependent that AFTER_ANY released has long gone on."""
    job = await running_job(harness.store)
    released = await submit_one(harness.store, dependencies=after(job.id, kind=DependencyKind.AFTER_ANY))
    cancelled = await submit_one(harness.store, dependencies=after(job.id))
    await cancel_one(harness.store, cancelled)
    await settle(harness.store, job, FAIL)
    await replay_one(harness.store, job.id)
    assert await read_states(harness.store, [released, cancelled]) == [State.SCHEDULED, State.CANCELLED]


async def test_a_dependent_that_died_of_itself_does_not_come_back(harness: StoreHarness) -> None:
    """Only a job that its dependency's end has ended comes back with it."""
    job = await running_job(harness.store)
    child = await submit_one(harness.store, queue="child", dependencies=after(job.id, kind=DependencyKind.AFTER_ANY))
    await settle(harness.store, job, FAIL)
    await settle(harness.store, await claim_one(harness.store, await register(harness.store), queues=("child",)), FAIL)
    await replay_one(harness.store, job.id)
    read = await read_one(harness.store, child)
    assert (read.state, read.replays, read.ended_by) == (State.FAILED, 0, None)
    assert (await replay_one(harness.store, child)).outcome is ReplayOutcome.REPLAYED


async def test_a_dependent_that_comes_back_keeps_what_was_met(harness: StoreHarness) -> None:
    """DEPEND-5, DEPEND-6: only what is open again is waited for."""
    done, alternative = [await running_job(harness.store) for _ in range(2)]
    failing = await running_job(harness.store, queue="failing")
    kinds = (
        Dependency(done.id, DependencyKind.FAN_IN),
        Dependency(alternative.id, DependencyKind.AFTER_ANY),
        Dependency(failing.id, DependencyKind.CHAIN),
    )
    child = await submit_one(harness.store, dependencies=kinds)
    for job, outcome in ((done, None), (alternative, FAIL), (failing, FAIL)):
        await (settle(harness.store, job, outcome) if outcome else settle(harness.store, job))
    assert await read_state(harness.store, child) is State.FAILED
    await replay_one(harness.store, failing.id)
    assert await read_state(harness.store, child) is State.PENDING
    await run_one(harness.store, "failing")
    assert await read_state(harness.store, child) is State.SCHEDULED


async def test_dead_jobs_can_be_replayed_by_filter(harness: StoreHarness) -> None:
    dead = [await job_in_state(harness.store, state, queue="mine") for state in (*REPLAYABLE, *REPLAYABLE)]
    other = await job_in_state(harness.store, State.FAILED, queue="other")
    for state in (State.COMPLETED, State.CANCELLED, State.RUNNING):
        await job_in_state(harness.store, state, queue="mine")
    found: list[UUID] = []
    cursor = None
    for _ in range(10):
        page = await harness.store.replay_where(Filter(queue="mine"), limit=3, cursor=cursor)
        found += [answer.job_id for answer in page.answers if answer.outcome is ReplayOutcome.REPLAYED]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sorted(found) == sorted(dead)
    assert await read_states(harness.store, dead) == [State.SCHEDULED] * 4
    assert await read_state(harness.store, other) is State.FAILED
    counts = await read_counts(harness.store, "mine")
    assert counts == {State.SCHEDULED: 4, State.COMPLETED: 1, State.CANCELLED: 1, State.RUNNING: 1}


async def test_replay_by_filter_touches_only_dead_states(harness: StoreHarness) -> None:
    """STATE-3: whatever the filter asks for."""
    for state in sorted(State, key=lambda state: state is State.SCHEDULED):
        await job_in_state(harness.store, state, queue="mine")
    before = await snapshot(harness.store)
    where = Filter(queue="mine", states=frozenset(State) - set(REPLAYABLE))
    page = await harness.store.replay_where(where, limit=100)
    assert (page.answers, page.next_cursor) == ((), None)
    assert await snapshot(harness.store) == before
    page = await harness.store.replay_where(Filter(states=frozenset({State.FAILED})), limit=100)
    assert [answer.outcome for answer in page.answers] == [ReplayOutcome.REPLAYED]
    assert await read_counts(harness.store, "mine") == {
        **dict.fromkeys(set(State) - {State.FAILED}, 1),
        State.SCHEDULED: 2,
    }


async def test_replay_by_filter_brings_dependents_back(harness: StoreHarness) -> None:
    """Those of the page that ended with their dependency come back with it."""
    ids = await dead_chain(harness.store, 4)
    cursor = None
    for _ in range(10):
        page = await harness.store.replay_where(Filter(), limit=1, cursor=cursor)
        cursor = page.next_cursor
        if cursor is None:
            break
    assert await read_states(harness.store, ids) == [State.SCHEDULED] + [State.PENDING] * 3
