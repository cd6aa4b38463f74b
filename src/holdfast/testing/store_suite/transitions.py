"""Every row of the transition table, driven by real verbs; and that nothing else moves a job (STATE-2)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID, uuid4

import pytest

from holdfast.core.commands import CancelOutcome, HandedBack, Outcome, ReplayOutcome, Stopped
from holdfast.core.dependencies import DependencyKind
from holdfast.core.errors import StaleLease
from holdfast.core.job import Timeouts
from holdfast.core.retry import Retry
from holdfast.core.states import LIVE, TERMINAL, TRANSITIONS, State, Transition, Trigger
from holdfast.testing.factories import (
    COMPLETED,
    FAIL,
    GIVE_UP,
    HANDED_BACK,
    RETRY,
    after,
    cancel_one,
    claim,
    job_in_state,
    read_one,
    read_state,
    register,
    replay_one,
    running_job,
    settle,
    settle_answer,
    submit_one,
    tick,
)
from holdfast.testing.harness import StoreHarness
from holdfast.testing.invariants import snapshot

LIFETIME_SECONDS: Final = 100.0


@dataclass(frozen=True, slots=True)
class Scene:
    """A job in the state that a row starts from, and what is needed to move it on."""

    job_id: UUID
    act: Callable[[], Awaitable[object]]


Driver = Callable[[StoreHarness], Awaitable[Scene]]
Key = tuple[State | None, State, Trigger]


def key(row: Transition) -> Key:
    return row.source, row.target, row.trigger


def submitting() -> Driver:
    async def drive(harness: StoreHarness) -> Scene:
        blocker = await submit_one(harness.store)
        job_id = uuid4()
        return Scene(job_id, lambda: submit_one(harness.store, id=job_id, dependencies=after(blocker)))

    return drive


def ending_its_dependency(outcome: Outcome, **overrides: Any) -> Driver:
    async def drive(harness: StoreHarness) -> Scene:
        blocker = await running_job(harness.store)
        if isinstance(outcome, Stopped):
            await cancel_one(harness.store, blocker.id)
        waits_for = after(blocker.id, kind=DependencyKind.CHAIN)
        job_id = await submit_one(harness.store, dependencies=waits_for, **overrides)
        return Scene(job_id, lambda: settle(harness.store, blocker, outcome))

    return drive


def passing_time(state: State, seconds: float, **overrides: Any) -> Driver:
    async def drive(harness: StoreHarness) -> Scene:
        job_id = await job_in_state(harness.store, state, **overrides)

        async def act() -> None:
            harness.clock.advance(seconds)
            await tick(harness.store)

        return Scene(job_id, act)

    return drive


def ending_its_lifetime(state: State) -> Driver:
    timeouts = Timeouts(lifetime=LIFETIME_SECONDS)
    given: dict[str, Any] = {"delay_seconds": LIFETIME_SECONDS - 1} if state is State.DELAYED else {}
    return passing_time(state, LIFETIME_SECONDS, timeouts=timeouts, **given)


def claiming() -> Driver:
    async def drive(harness: StoreHarness) -> Scene:
        worker = await register(harness.store)
        job_id = await submit_one(harness.store)
        return Scene(job_id, lambda: claim(harness.store, worker))

    return drive


def settling(outcome: Outcome, **overrides: Any) -> Driver:
    async def drive(harness: StoreHarness) -> Scene:
        job = await running_job(harness.store, **overrides)
        return Scene(job.id, lambda: settle(harness.store, job, outcome))

    return drive


def exhausting_its_retries() -> Driver:
    async def drive(harness: StoreHarness) -> Scene:
        job_id = await job_in_state(harness.store, State.RETRYING)

        async def act() -> None:
            await harness.set_max_attempts(job_id, 1)
            harness.clock.advance(RETRY.retry_in_seconds or 0)
            await tick(harness.store)

        return Scene(job_id, act)

    return drive


def cancelling(state: State) -> Driver:
    async def drive(harness: StoreHarness) -> Scene:
        if state is not State.RUNNING:
            job_id = await job_in_state(harness.store, state)
            return Scene(job_id, lambda: cancel_one(harness.store, job_id))
        job = await running_job(harness.store)
        await cancel_one(harness.store, job.id)
        return Scene(job.id, lambda: settle(harness.store, job, Stopped()))

    return drive


def replaying(state: State) -> Driver:
    async def drive(harness: StoreHarness) -> Scene:
        job_id = await job_in_state(harness.store, state)
        return Scene(job_id, lambda: replay_one(harness.store, job_id))

    return drive


def replaying_its_dependency(state: State) -> Driver:
    async def drive(harness: StoreHarness) -> Scene:
        dependency = await job_in_state(harness.store, state)
        job_id = await submit_one(harness.store, dependencies=after(dependency))
        return Scene(job_id, lambda: replay_one(harness.store, dependency))

    return drive


S, T = State, Trigger
DRIVERS: Final[dict[Key, Driver]] = {
    (None, S.PENDING, T.SUBMIT): submitting(),
    (S.PENDING, S.SCHEDULED, T.RELEASE): ending_its_dependency(COMPLETED),
    (S.PENDING, S.DELAYED, T.RELEASE): ending_its_dependency(COMPLETED, delay_seconds=60.0),
    (S.PENDING, S.FAILED, T.PROPAGATE): ending_its_dependency(FAIL),
    (S.PENDING, S.DEAD_LETTER, T.PROPAGATE): ending_its_dependency(GIVE_UP),
    (S.PENDING, S.CANCELLED, T.PROPAGATE): ending_its_dependency(Stopped()),
    (S.DELAYED, S.SCHEDULED, T.DUE): passing_time(S.DELAYED, 60.0, delay_seconds=60.0),
    (S.SCHEDULED, S.RUNNING, T.CLAIM): claiming(),
    (S.RUNNING, S.COMPLETED, T.COMPLETE): settling(COMPLETED),
    (S.RUNNING, S.RETRYING, T.RETRY): settling(RETRY),
    (S.RUNNING, S.DEAD_LETTER, T.EXHAUST): settling(RETRY, retry=Retry(max_attempts=1)),
    (S.RUNNING, S.FAILED, T.FAIL): settling(FAIL),
    (S.RUNNING, S.SCHEDULED, T.RECLAIM): passing_time(S.RUNNING, 60.0, timeouts=Timeouts(visibility=60.0)),
    (S.RUNNING, S.DEAD_LETTER, T.RECLAIM): passing_time(
        S.RUNNING, 60.0, timeouts=Timeouts(visibility=60.0), retry=Retry(max_attempts=1)
    ),
    (S.RUNNING, S.SCHEDULED, T.HAND_BACK): settling(HANDED_BACK),
    (S.RUNNING, S.DELAYED, T.HAND_BACK): settling(HandedBack(30.0)),
    (S.RETRYING, S.SCHEDULED, T.DUE): passing_time(S.RETRYING, 60.0),
    (S.RETRYING, S.DEAD_LETTER, T.EXHAUST): exhausting_its_retries(),
    (S.FAILED, S.SCHEDULED, T.REPLAY): replaying(S.FAILED),
    (S.DEAD_LETTER, S.SCHEDULED, T.REPLAY): replaying(S.DEAD_LETTER),
    (S.FAILED, S.PENDING, T.REVIVE): replaying_its_dependency(S.FAILED),
    (S.DEAD_LETTER, S.PENDING, T.REVIVE): replaying_its_dependency(S.DEAD_LETTER),
    **{(state, S.CANCELLED, T.CANCEL): cancelling(state) for state in LIVE},
    **{(state, S.DEAD_LETTER, T.LIFETIME): ending_its_lifetime(state) for state in LIVE},
}


def test_every_row_of_the_table_has_a_driver() -> None:
    """STATE-2: a row without one would not be proved."""
    assert {key(row) for row in TRANSITIONS} == DRIVERS.keys()


@pytest.mark.parametrize("row", TRANSITIONS, ids=lambda row: f"{row.source}-{row.target}-{row.trigger.name}")
async def test_a_job_moves_along_the_row(harness: StoreHarness, row: Transition) -> None:
    scene = await DRIVERS[key(row)](harness)
    (before,) = await harness.store.read([scene.job_id])
    assert (before.state if before else None) is row.source
    harness.clock.advance(1)
    await scene.act()
    job = await read_one(harness.store, scene.job_id)
    assert job.state is row.target
    assert job.updated_at == harness.clock.now()


@pytest.mark.parametrize("state", [state for state in State if state is not State.RUNNING])
@pytest.mark.parametrize("outcome", [COMPLETED, RETRY, FAIL, HANDED_BACK, Stopped()], ids=lambda o: type(o).__name__)
async def test_a_job_that_does_not_run_cannot_be_settled(harness: StoreHarness, state: State, outcome: Outcome) -> None:
    """STATE-2: every write out of RUNNING needs a valid token."""
    job_id = await job_in_state(harness.store, state)
    running = await running_job(harness.store)
    job = await read_one(harness.store, job_id)
    forged = replace(running.lease, job_id=job_id, seq=job.seq, version=job.lease_version)
    before = await snapshot(harness.store)
    answer = await settle_answer(harness.store, forged, outcome)
    assert isinstance(answer, StaleLease)
    assert (answer.job_id, answer.current_version) == (job_id, job.lease_version)
    assert await snapshot(harness.store) == before


@pytest.mark.parametrize("state", TERMINAL)
async def test_cancel_of_an_ended_job_changes_nothing(harness: StoreHarness, state: State) -> None:
    """STATE-3."""
    job_id = await job_in_state(harness.store, state)
    before = await snapshot(harness.store)
    answer = await cancel_one(harness.store, job_id)
    assert (answer.outcome, answer.state) == (CancelOutcome.ALREADY_ENDED, state)
    assert await snapshot(harness.store) == before


@pytest.mark.parametrize("state", [*LIVE, State.COMPLETED, State.CANCELLED])
async def test_replay_of_a_job_that_is_not_dead_changes_nothing(harness: StoreHarness, state: State) -> None:
    """STATE-3: it returns the job unchanged."""
    job_id = await job_in_state(harness.store, state)
    before = await snapshot(harness.store)
    answer = await replay_one(harness.store, job_id)
    assert (answer.outcome, answer.state) == (ReplayOutcome.UNCHANGED, state)
    assert await snapshot(harness.store) == before


@pytest.mark.parametrize("state", [state for state in State if state is not State.SCHEDULED])
async def test_only_a_scheduled_job_can_be_claimed(harness: StoreHarness, state: State) -> None:
    """STATE-4."""
    job_id = await job_in_state(harness.store, state, queue="mine")
    worker = await register(harness.store)
    assert await claim(harness.store, worker, queues=("mine",)) == []
    assert await read_state(harness.store, job_id) is state


@pytest.mark.parametrize("state", TERMINAL)
async def test_time_does_not_move_an_ended_job(harness: StoreHarness, state: State) -> None:
    """STATE-3."""
    job_id = await job_in_state(harness.store, state, timeouts=Timeouts(visibility=10.0, lifetime=100.0))
    before = await snapshot(harness.store)
    harness.clock.advance(3600.0)
    await tick(harness.store)
    assert await snapshot(harness.store) == before
    assert await read_state(harness.store, job_id) is state
