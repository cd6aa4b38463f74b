"""What is true of a store at any moment, whatever was done to it. Tests check it when they end.

INVARIANT-1. ``read_queues`` counts exactly the jobs that ``read_page`` lists.
INVARIANT-2. A job has a lease if, and only if, it is RUNNING (STATE-1).
INVARIANT-3. A job has ended if, and only if, it has a ``completed_at``.
INVARIANT-4. A job without success says why; one with success says nothing of the kind.
INVARIANT-5. A job waits for a time if, and only if, it is DELAYED or RETRYING.
INVARIANT-6. No two jobs share a ``seq``, an ID or a lease.
INVARIANT-7. An examination finds nothing wrong (``core.examination``).
INVARIANT-8. Whatever was done, and whoever died: once ticks have run for as long as the bounds of ``core.liveness``
    say, no job is overdue.
"""

from collections import Counter
from typing import Any, Final

from holdfast.core.examination import Examination, Overdue, Severity, finding_of
from holdfast.core.job import Job
from holdfast.core.liveness import LATE_SECONDS
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.testing.factories import read_all, tick
from holdfast.testing.harness import StoreHarness

Tally = dict[tuple[str, State], int]
STEP_SECONDS: Final = 7.0
"""Ticks further apart than half a worker timeout would be taken for an outage."""
MAX_STEPS: Final = 15
"""A worker's silence is believed after two timeouts, and what is left of it found within a minute."""


async def snapshot(store: Store) -> tuple[Any, ...]:
    """Everything that can be read: equal before and after a verb that changed nothing."""
    queues = sorted((q.name, q.is_paused, sorted(q.counts.items())) for q in await store.read_queues())
    jobs = await read_all(store)
    attempts = [await store.read_attempts(job.id) for job in jobs if job.lease_version]
    return queues, jobs, attempts, (await store.read_cron()).slots, await store.read_keys()


async def require_consistent(store: Store) -> None:
    """Raise AssertionError unless INVARIANT-1 to INVARIANT-6 hold."""
    jobs = await read_all(store)
    assert await counted(store) == listed(jobs), "read_queues and read_page disagree (INVARIANT-1)"
    for job in jobs:
        _require_whole(job)
    assert len({job.id for job in jobs}) == len({job.seq for job in jobs}) == len(jobs), (
        "a job is in two places (INVARIANT-6)"
    )
    leases = [(job.lease.owner, job.lease.token) for job in jobs if job.lease is not None]
    assert len(set(leases)) == len(leases), "two jobs share a lease (INVARIANT-6)"


async def counted(store: Store) -> Tally:
    queues = await store.read_queues()
    assert len({queue.name for queue in queues}) == len(queues), "a queue is listed twice"
    return {(queue.name, state): n for queue in queues for state, n in queue.counts.items() if n}


def listed(jobs: list[Job]) -> Tally:
    return dict(Counter((job.queue, job.state) for job in jobs))


def _require_whole(job: Job) -> None:
    assert (job.lease is not None) == (job.state is State.RUNNING), f"INVARIANT-2: {job}"
    assert (job.completed_at is not None) == job.state.is_terminal, f"INVARIANT-3: {job}"
    assert (job.lifetime_ends_at is None) == job.state.is_terminal, f"INVARIANT-3: {job}"
    is_dead = job.state.is_terminal and job.state is not State.COMPLETED
    assert (job.failure is not None) == is_dead, f"INVARIANT-4: {job}"
    assert job.result is None or job.state is State.COMPLETED, f"INVARIANT-4: {job}"
    assert (job.due_at is not None) == (job.state in (State.DELAYED, State.RETRYING)), f"INVARIANT-5: {job}"
    assert job.scheduled_at is not None or job.state is not State.SCHEDULED, f"INVARIANT-5: {job}"
    assert not job.cancel_requested or job.state is State.RUNNING, f"INVARIANT-2: {job}"
    assert 0 <= job.attempt <= job.lease_version, f"an attempt without a claim: {job}"
    if job.lease is not None:
        assert job.lease.job_id == job.id
        assert job.lease.seq == job.seq
        assert job.lease.version == job.lease_version


async def require_healthy(harness: StoreHarness) -> None:
    """Raise AssertionError unless INVARIANT-7 and INVARIANT-8 hold. Moves the clock on."""
    examined = await harness.store.examine(Examination(is_deep=True))
    findings = [finding for one in examined.found if (finding := finding_of(one)).severity is Severity.WRONG]
    assert not findings, f"INVARIANT-7: {findings}"
    harness.clock.advance(LATE_SECONDS + 1)
    await tick(harness.store)
    overdue = await overdue_jobs(harness.store)
    for _ in range(MAX_STEPS):
        if not overdue:
            return
        harness.clock.advance(STEP_SECONDS)
        await tick(harness.store)
        overdue = await overdue_jobs(harness.store)
    raise AssertionError(f"INVARIANT-8: {overdue}")


async def overdue_jobs(store: Store) -> list[Overdue]:
    """Without those that claims pass by: where there are only ticks, nobody claims."""
    return [one for one in (await store.find_overdue()).overdue if not one.standing.is_passed_by]
