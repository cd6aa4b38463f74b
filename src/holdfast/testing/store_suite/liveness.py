"""Somebody is bound to move every job, by a known time; what nobody has moved by then is found, and can be put right.

The table is in ``core/README.md``, the rule in ``core.liveness``. V, X and I numbers are those of ``core.liveness``,
``core.examination`` and ``testing.invariants``.
"""

import asyncio
from uuid import UUID

import pytest

from holdfast.core.commands import Heartbeat
from holdfast.core.examination import Code, Severity
from holdfast.core.job import Timeouts
from holdfast.core.liveness import LATE_SECONDS
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.engine.doctor import Doctor
from holdfast.testing.factories import (
    after,
    cancel_one,
    claim,
    claim_one,
    job_in_state,
    new_job,
    pass_time,
    read_state,
    read_states,
    register,
    running_job,
    submit_jobs,
    submit_one,
    tick,
)
from holdfast.testing.harness import StoreHarness

LIVE = [state for state in State if not state.is_terminal]
PAST_SECONDS = LATE_SECONDS + 1.0


async def overdue(store: Store) -> dict[Code, list[UUID]]:
    found: dict[Code, list[UUID]] = {}
    for one in (await store.find_overdue()).overdue:
        found.setdefault(one.code, []).append(one.job_id)
    return found


async def stay_alive(store: Store, worker: UUID) -> None:
    assert (await store.heartbeat(Heartbeat(worker=worker, held=()))).is_known


async def test_no_job_is_overdue_at_first(harness: StoreHarness) -> None:
    """LIVENESS-1."""
    for state in State:
        await job_in_state(harness.store, state)
    assert await overdue(harness.store) == {}


async def test_what_is_due_is_overdue_a_minute_later_and_until_a_tick(harness: StoreHarness) -> None:
    """LIVENESS-3."""
    delayed = await job_in_state(harness.store, State.DELAYED, delay_seconds=60.0)
    retrying = await job_in_state(harness.store, State.RETRYING)
    harness.clock.advance(60.0 + LATE_SECONDS - 1)
    assert await overdue(harness.store) == {}
    harness.clock.advance(1)
    assert await overdue(harness.store) == {Code.OVERDUE_DELAYED: [delayed], Code.OVERDUE_RETRYING: [retrying]}
    await tick(harness.store)
    assert await overdue(harness.store) == {}


@pytest.mark.parametrize("state", LIVE)
async def test_the_end_of_a_lifetime_bounds_every_state(harness: StoreHarness, state: State) -> None:
    """LIVENESS-1."""
    job_id = await job_in_state(harness.store, state, timeouts=Timeouts(lifetime=3700.0))
    harness.clock.advance(3700.0 + PAST_SECONDS)
    assert job_id in [found for jobs in (await overdue(harness.store)).values() for found in jobs]
    await tick(harness.store)
    assert await overdue(harness.store) == {}
    assert await read_state(harness.store, job_id) is State.DEAD_LETTER


async def test_a_lease_past_its_end_is_overdue_until_a_tick(harness: StoreHarness) -> None:
    """LIVENESS-5."""
    job = await running_job(harness.store, timeouts=Timeouts(visibility=30.0))
    harness.clock.advance(30.0 + PAST_SECONDS)
    assert await overdue(harness.store) == {Code.OVERDUE_RUNNING: [job.id]}
    await tick(harness.store)
    assert await overdue(harness.store) == {}
    assert await read_state(harness.store, job.id) is State.SCHEDULED


async def test_a_lease_without_a_worker_is_overdue_a_minute_later_and_until_a_tick(harness: StoreHarness) -> None:
    """LIVENESS-5: found from the lease, never through its worker's row."""
    worker = await register(harness.store)
    job = await running_job(harness.store, worker=worker)
    await harness.forget_worker(worker)
    assert await overdue(harness.store) == {}
    harness.clock.advance(PAST_SECONDS)
    assert await overdue(harness.store) == {Code.LEASE_WITHOUT_WORKER: [job.id]}
    await tick(harness.store)
    assert await overdue(harness.store) == {}
    assert await read_state(harness.store, job.id) is State.SCHEDULED


async def test_a_worker_that_falls_silent_leaves_nothing_overdue_where_others_tick(harness: StoreHarness) -> None:
    """LIVENESS-5; INVARIANT-8: looked at every five seconds, for longer than any bound."""
    job = await running_job(harness.store)
    for _ in range(25):
        await pass_time(harness, 5.0)
        assert await overdue(harness.store) == {}
    assert await read_state(harness.store, job.id) is State.SCHEDULED


async def test_nobody_is_bound_to_a_silent_workers_lease_for_ever(harness: StoreHarness) -> None:
    """LIVENESS-5: where nobody ticks, that is noticed."""
    job = await running_job(harness.store, timeouts=Timeouts(visibility=3600.0))
    harness.clock.advance(15.0 * 2 + PAST_SECONDS)
    assert await overdue(harness.store) == {Code.OVERDUE_RUNNING: [job.id]}


async def test_dependents_that_a_call_left_to_tick_are_overdue_a_minute_later_and_until_a_tick(
    harness: StoreHarness,
) -> None:
    """LIVENESS-2: whoever ended the dependency told as many as one call may; the marks of the others are durable."""
    first = new_job()
    children = [new_job(dependencies=after(first.id)) for _ in range(1100)]
    grandchildren = [new_job(dependencies=after(child.id)) for child in children]
    await submit_jobs(harness.store, first, *children, *grandchildren)
    await cancel_one(harness.store, first.id)
    assert await overdue(harness.store) == {}
    harness.clock.advance(PAST_SECONDS)
    found = await overdue(harness.store)
    assert set(found) == {Code.OVERDUE_PENDING}
    assert set(found[Code.OVERDUE_PENDING]) <= {job.id for job in grandchildren}
    await tick(harness.store)
    assert await overdue(harness.store) == {}
    assert await read_state(harness.store, grandchildren[-1].id) is State.CANCELLED


# claims


async def test_a_job_that_an_idle_worker_does_not_take_is_overdue(harness: StoreHarness) -> None:
    """LIVENESS-4."""
    job_id = await submit_one(harness.store)
    worker = await register(harness.store)
    harness.clock.advance(PAST_SECONDS)
    assert await overdue(harness.store) == {}, "nobody knows whether that worker is alive"
    await stay_alive(harness.store, worker)
    assert await overdue(harness.store) == {Code.OVERDUE_SCHEDULED: [job_id]}
    await claim_one(harness.store, worker)
    assert await overdue(harness.store) == {}


async def test_a_job_that_waits_for_a_busy_worker_may_wait(harness: StoreHarness) -> None:
    """LIVENESS-4: nobody can tell how many slots it has."""
    worker = await register(harness.store)
    running = await running_job(harness.store, worker=worker, queue="default")
    await submit_one(harness.store)
    harness.clock.advance(PAST_SECONDS)
    await harness.store.heartbeat(Heartbeat(worker=worker, held=(running.lease,)))
    assert await overdue(harness.store) == {}


@pytest.mark.parametrize(("queues", "types"), [(("another",), ()), ((), ("another",))])
async def test_a_job_that_nobody_serves_may_wait(
    harness: StoreHarness, queues: tuple[str, ...], types: tuple[str, ...]
) -> None:
    """LIVENESS-4."""
    await submit_one(harness.store)
    worker = await register(harness.store, queues=queues, types=types)
    harness.clock.advance(PAST_SECONDS)
    await stay_alive(harness.store, worker)
    assert await overdue(harness.store) == {}


async def test_a_job_in_a_paused_queue_may_wait(harness: StoreHarness) -> None:
    """LIVENESS-4."""
    await submit_one(harness.store)
    await harness.store.pause("default")
    worker = await register(harness.store)
    harness.clock.advance(PAST_SECONDS)
    await stay_alive(harness.store, worker)
    assert await overdue(harness.store) == {}


# repairs


async def test_a_repair_moves_what_is_overdue(harness: StoreHarness) -> None:
    """EXAMINE-2: as a tick does, and without removing anything."""
    ended = [await job_in_state(harness.store, state) for state in (State.COMPLETED, State.FAILED)]
    long = Timeouts(lifetime=100 * 24 * 3600.0, visibility=30.0)
    delayed = await submit_one(harness.store, delay_seconds=60.0, timeouts=long)
    running = await running_job(harness.store, timeouts=long)
    harness.clock.advance(40 * 24 * 3600.0)
    doctor = Doctor(store=harness.store, patience_seconds=0.0)
    before = await doctor.examine()
    assert {finding.code for finding in before.findings if finding.is_wrong} == {
        Code.OVERDUE_DELAYED,
        Code.OVERDUE_RUNNING,
    }
    repaired = await doctor.repair()
    assert repaired.is_healthy
    assert all(finding.repaired == finding.count for finding in repaired.findings if finding.severity is Severity.WRONG)
    assert (await doctor.examine()).is_healthy
    assert await read_state(harness.store, delayed) is State.SCHEDULED
    assert await read_state(harness.store, running.id) is State.SCHEDULED
    assert await read_states(harness.store, ended) == [State.COMPLETED, State.FAILED]


async def test_a_repair_gives_a_job_that_is_passed_by_a_new_place(harness: StoreHarness) -> None:
    """EXAMINE-2."""
    passed = await submit_one(harness.store)
    worker = await register(harness.store)
    harness.clock.advance(PAST_SECONDS)
    behind = await submit_one(harness.store)
    await stay_alive(harness.store, worker)
    repaired = await Doctor(store=harness.store, patience_seconds=0.0).repair()
    (finding,) = [finding for finding in repaired.findings if finding.code == Code.OVERDUE_SCHEDULED]
    assert (finding.count, finding.repaired, finding.examples) == (1, 1, (str(passed),))
    assert [job.id for job in await claim(harness.store, worker)] == [behind, passed]


async def test_a_job_that_is_moved_between_two_looks_is_not_called_overdue(harness: StoreHarness) -> None:
    """EXAMINE-1: it may have come to light late."""
    job_id = await submit_one(harness.store, delay_seconds=1.0)
    harness.clock.advance(1.0 + PAST_SECONDS)
    ticks: list[asyncio.Task[object]] = []
    doctor = Doctor(
        store=harness.store,
        patience_seconds=LATE_SECONDS,
        say=lambda _: ticks.append(asyncio.create_task(tick(harness.store))),
    )
    assert (await doctor.examine()).is_healthy
    assert len(ticks) == 1, "it was seen"
    await ticks[0]
    assert await read_state(harness.store, job_id) is State.SCHEDULED
