"""A tick where several answers are legal: the model looks which moves the store has made, and makes the same.

A move that time does not allow is not made here, so the difference shows. One that time allows and that the store has
not made yet is listed by ``overdue``: whoever drives the model says how long that may last.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from uuid import UUID

from holdfast.core.commands import Tick
from holdfast.core.job import Job
from holdfast.core.states import State
from holdfast.testing.model.moves import (
    LEASE_EXPIRED,
    LIFETIME,
    WORKER_LOST,
    end,
    reclaim,
    schedule,
    tell_dependents,
    tell_what_is_owed,
)
from holdfast.testing.model.world import ModelJob, ModelWorker, World

Times = Callable[[ModelJob], datetime | None]


def follow_tick(world: World, tick: Tick, seen: Mapping[UUID, Job], *, lost: Collection[UUID]) -> None:
    """``seen``: the jobs after the store's tick; ``lost``: the workers that it counts as lost."""
    for job in _past(world, _lease_end):
        if seen[job.id].lease is None or seen[job.id].lease_version != job.version:
            reclaim(world, job, LEASE_EXPIRED)
    tell_dependents(world)
    _mark_lost(world, tick, lost)
    for job in world.jobs.values():
        if _has_no_worker(world, job) and seen[job.id].lease is None:
            reclaim(world, job, WORKER_LOST)
    tell_dependents(world)
    for job in _past(world, _lifetime_end):
        if seen[job.id].state.is_terminal and not job.state.is_terminal:
            end(world, job, State.DEAD_LETTER, LIFETIME)
    tell_dependents(world)
    for job in _past(world, _due):
        if seen[job.id].due_at is None:
            schedule(world, job)
    tell_what_is_owed(world)
    world.keys = {
        name: key
        for name, key in world.keys.items()
        if key.expires_at > world.now or any(name in hold.locked_keys for hold in world.holds)
    }


def overdue(world: World) -> list[ModelJob]:
    """The jobs that a tick is to move: their time has come, or their worker is gone, and nobody holds them."""
    found = [job for times in (_lease_end, _lifetime_end, _due) for job in _past(world, times)]
    return found + [job for job in world.jobs.values() if _has_no_worker(world, job)]


def _past(world: World, times: Times) -> list[ModelJob]:
    found = [
        (at, job.seq, job)
        for job in world.jobs.values()
        if (at := times(job)) is not None and at <= world.now and not world.is_held(job)
    ]
    return [job for _, _, job in sorted(found, key=lambda item: item[:2])]


def _lease_end(job: ModelJob) -> datetime | None:
    return job.expires_at


def _lifetime_end(job: ModelJob) -> datetime | None:
    return None if job.state.is_terminal or job.state is State.RUNNING else job.lifetime_ends_at


def _due(job: ModelJob) -> datetime | None:
    return job.due_at


def _mark_lost(world: World, tick: Tick, lost: Collection[UUID]) -> None:
    """Only one that was not seen for the timeout may be lost, or one that was seen in what is the future again."""
    for worker in world.workers.values():
        worker.is_lost = worker.is_lost or (worker.id in lost and may_be_lost(world, worker, tick))


def may_be_lost(world: World, worker: ModelWorker, tick: Tick) -> bool:
    return abs(world.now - worker.seen_at) > timedelta(seconds=tick.worker_timeout_seconds)


def _has_no_worker(world: World, job: ModelJob) -> bool:
    if job.state is not State.RUNNING or job.owner is None or world.is_held(job):
        return False
    worker = world.workers.get(job.owner)
    return worker is None or worker.is_lost
