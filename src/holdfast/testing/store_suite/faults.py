"""Faults: a verb that is repeated after Unavailable loses nothing and doubles nothing (PORT-4)."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from holdfast.core.commands import (
    CancelOutcome,
    Completed,
    Heartbeat,
    Outcome,
    ReplayOutcome,
    Report,
    Settled,
    Submitted,
)
from holdfast.core.dependencies import DependencyKind
from holdfast.core.errors import StaleLease, Unavailable
from holdfast.core.job import Progress, Timeouts
from holdfast.core.states import State
from holdfast.testing.factories import (
    COMPLETED,
    FAIL,
    GIVE_UP,
    HANDED_BACK,
    RETRY,
    after,
    cancel_one,
    claim_one,
    job_in_state,
    new_claim,
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
from holdfast.testing.faults import FaultKind, FaultyStore, PlannedFault
from holdfast.testing.harness import StoreHarness

Answer = TypeVar("Answer")
each_kind = pytest.mark.parametrize("kind", FaultKind)


def failing(harness: StoreHarness, verb: str, kind: FaultKind) -> FaultyStore:
    """The harness's store, whose next call of ``verb`` fails."""
    return FaultyStore(harness.store, [PlannedFault(verb, kind)])


async def repeated(store: FaultyStore, call: Callable[[], Awaitable[Answer]]) -> Answer:
    """The first try fails, the second is answered; then all that is under way comes to its end."""
    with pytest.raises(Unavailable):
        await call()
    answer = await call()
    await store.under_way()
    return answer


@each_kind
async def test_a_repeated_submit_loses_and_doubles_nothing(harness: StoreHarness, kind: FaultKind) -> None:
    """PORT-4."""
    parent = await submit_one(harness.store, queue="parents")
    jobs = (new_job(), new_job(key="k"), new_job(delay_seconds=5.0), new_job(dependencies=after(parent)))
    store = failing(harness, "submit", kind)
    answer = await repeated(store, lambda: submit_jobs(store, *jobs))
    assert answer == tuple(Submitted(job.id) for job in jobs)
    assert await read_counts(harness.store) == {State.SCHEDULED: 2, State.DELAYED: 1, State.PENDING: 1}
    assert await submit_jobs(harness.store, new_job(key="k")) == (Submitted(jobs[1].id, is_duplicate=True),)


@each_kind
async def test_a_repeated_claim_loses_and_doubles_nothing(harness: StoreHarness, kind: FaultKind) -> None:
    """PORT-4: every lease is one that the worker knows, or is handed back."""
    await submit_jobs(harness.store, *(new_job() for _ in range(5)))
    worker = await register(harness.store)
    store = failing(harness, "claim", kind)
    asked = new_claim(worker, limit=2)
    with pytest.raises(Unavailable):
        await store.claim(asked)
    jobs = await store.claim(replace(asked, is_repeat=True))
    await store.under_way()
    assert len(jobs) == 2
    assert {job.attempt for job in jobs} == {1}
    await harness.store.heartbeat(Heartbeat(worker=worker, held=tuple(job.lease for job in jobs)))
    assert await read_counts(harness.store) == {State.RUNNING: 2, State.SCHEDULED: 3}
    for job in jobs:
        assert await settle_answer(harness.store, job) == Settled(State.COMPLETED)
    attempts = {job.attempt for job in await read_all(harness.store) if job.state is State.SCHEDULED}
    assert attempts == {0}


@each_kind
@pytest.mark.parametrize("outcome", [COMPLETED, RETRY, FAIL, GIVE_UP], ids=["ack", "retry", "fail", "give up"])
async def test_a_repeated_settle_loses_and_doubles_nothing(
    harness: StoreHarness, kind: FaultKind, outcome: Outcome
) -> None:
    """PORT-4: the holder is told that its outcome counts, whichever try wrote it."""
    job = await running_job(harness.store)
    store = failing(harness, "settle", kind)
    answer = await repeated(store, lambda: settle_answer(store, job, outcome))
    assert isinstance(answer, Settled)
    read = await read_one(harness.store, job.id)
    assert (answer.state, read.attempt) == (read.state, 1)
    assert len(await harness.store.read_attempts(job.id)) == (0 if outcome is COMPLETED else 1)


@each_kind
async def test_a_repeated_hand_back_loses_and_doubles_nothing(harness: StoreHarness, kind: FaultKind) -> None:
    """PORT-4: answered as settled or as stale; the job is back either way, and its attempt unspent."""
    job = await running_job(harness.store)
    store = failing(harness, "settle", kind)
    answer = await repeated(store, lambda: settle_answer(store, job, HANDED_BACK))
    assert isinstance(answer, Settled | StaleLease)
    read = await read_one(harness.store, job.id)
    assert (read.state, read.attempt, read.lease_version) == (State.SCHEDULED, 0, 1)


@each_kind
async def test_a_repeated_settle_spawns_its_children_once(harness: StoreHarness, kind: FaultKind) -> None:
    """PORT-4."""
    parent = await running_job(harness.store)
    gather = await submit_one(harness.store, dependencies=after(parent.id, kind=DependencyKind.FAN_IN))
    children = tuple(new_job(queue="children") for _ in range(3))
    store = failing(harness, "settle", kind)
    answer = await repeated(store, lambda: settle_answer(store, parent, Completed(b"1", spawn=children)))
    assert isinstance(answer, Settled)
    assert await read_counts(harness.store, "children") == {State.SCHEDULED: 3}
    assert await read_state(harness.store, gather) is State.PENDING
    assert len((await read_one(harness.store, gather)).dependencies) == 4


@each_kind
async def test_a_repeated_cancel_is_done_once(harness: StoreHarness, kind: FaultKind) -> None:
    """PORT-4."""
    job_id = await submit_one(harness.store)
    child = await submit_one(harness.store, dependencies=after(job_id))
    store = failing(harness, "cancel", kind)
    answer = await repeated(store, lambda: cancel_one(store, job_id))
    assert answer.outcome in (CancelOutcome.CANCELLED, CancelOutcome.ALREADY_ENDED)
    assert answer.state is State.CANCELLED
    await tick(harness.store)
    assert await read_state(harness.store, child) is State.CANCELLED


@each_kind
async def test_a_repeated_replay_counts_once(harness: StoreHarness, kind: FaultKind) -> None:
    """PORT-4."""
    job_id = await job_in_state(harness.store, State.FAILED)
    child = await submit_one(harness.store, dependencies=after(job_id))
    store = failing(harness, "replay", kind)
    answer = await repeated(store, lambda: replay_one(store, job_id))
    assert answer.outcome in (ReplayOutcome.REPLAYED, ReplayOutcome.UNCHANGED)
    jobs = [await read_one(harness.store, one) for one in (job_id, child)]
    assert [(job.state, job.replays) for job in jobs] == [(State.SCHEDULED, 1), (State.PENDING, 1)]


@each_kind
async def test_a_repeated_tick_does_each_thing_once(harness: StoreHarness, kind: FaultKind) -> None:
    """PORT-4, PORT-6."""
    delayed = await submit_one(harness.store, delay_seconds=10.0)
    expiring = await running_job(harness.store, timeouts=Timeouts(visibility=10.0))
    overaged = await submit_one(harness.store, timeouts=Timeouts(lifetime=10.0))
    harness.clock.advance(10)
    store = failing(harness, "tick", kind)
    await repeated(store, lambda: tick(store))
    await tick(harness.store)
    states = [await read_state(harness.store, job_id) for job_id in (delayed, expiring.id, overaged)]
    assert states == [State.SCHEDULED, State.SCHEDULED, State.DEAD_LETTER]
    assert len(await harness.store.read_attempts(expiring.id)) == 1


@each_kind
async def test_a_repeated_heartbeat_extend_and_report_are_harmless(harness: StoreHarness, kind: FaultKind) -> None:
    """PORT-4."""
    worker = await register(harness.store)
    job = await running_job(harness.store, worker=worker)
    harness.clock.advance(200)
    for verb in ("heartbeat", "extend", "report"):
        store = failing(harness, verb, kind)
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "heartbeat": lambda store=store: store.heartbeat(Heartbeat(worker=worker, held=(job.lease,))),  # type: ignore[misc]
            "extend": lambda store=store: store.extend([job.lease]),  # type: ignore[misc]
            "report": lambda store=store: store.report([Report(lease=job.lease, progress=Progress(percent=1))]),  # type: ignore[misc]
        }
        await repeated(store, calls[verb])
    read = await read_one(harness.store, job.id)
    assert read.lease is not None
    assert read.lease.token == job.lease.token
    assert (read.lease.expires_at - harness.clock.now()).total_seconds() == 300
    assert read.progress == Progress(percent=1)


@each_kind
async def test_a_repeated_register_and_leave_are_harmless(harness: StoreHarness, kind: FaultKind) -> None:
    """PORT-4."""
    worker = new_job().id
    store = failing(harness, "register", kind)
    await repeated(store, lambda: store.register(worker, name="worker"))
    assert [one.id for one in await harness.store.read_workers()] == [worker]
    job_id = await submit_one(harness.store)
    await claim_one(harness.store, worker)
    leaving = failing(harness, "leave", kind)
    await repeated(leaving, lambda: leaving.leave(worker))
    assert await harness.store.read_workers() == []
    assert await read_state(harness.store, job_id) is State.SCHEDULED
