"""Time moves on: what is expired, lost, over its lifetime, due, past its retention. In this order, a batch of each."""

from collections.abc import Callable
from datetime import datetime, timedelta

from holdfast.core import limits
from holdfast.core.commands import Tick, TickReport
from holdfast.core.states import State
from holdfast.testing.model.moves import (
    LEASE_EXPIRED,
    LIFETIME,
    WORKER_LOST,
    end,
    reclaim,
    schedule,
    tell_dependents,
)
from holdfast.testing.model.world import ModelJob, World


def tick(world: World, tick: Tick) -> TickReport:
    """Ends are told after each part: who ended through a dependency does not end of old age a moment later."""
    reclaimed = [_reclaim_expired(world, tick), _reclaim_from_the_lost(world, tick)]
    lifetimes = _end_lifetimes(world, tick)
    due = _schedule_due(world, tick)
    removed = _remove_old(world, tick)
    return TickReport(
        due=due,
        reclaimed=sum(reclaimed),
        lifetimes_ended=lifetimes,
        removed=removed,
        has_more=tick.batch in (*reclaimed, lifetimes, due, removed),
    )


def _oldest(world: World, batch: int, time: Callable[[ModelJob], datetime | None]) -> list[ModelJob]:
    """The jobs whose time has come, the longest waiting first."""
    timed = [(at, job.seq, job) for job in world.jobs.values() if (at := time(job)) is not None and at <= world.now]
    return [job for _, _, job in sorted(timed, key=lambda item: item[:2])[:batch]]


def _reclaim_expired(world: World, tick: Tick) -> int:
    expired = _oldest(world, tick.batch, lambda job: job.expires_at)
    for job in expired:
        reclaim(world, job, LEASE_EXPIRED)
    tell_dependents(world)
    return len(expired)


def _reclaim_from_the_lost(world: World, tick: Tick) -> int:
    _mark_the_lost(world, timedelta(seconds=tick.worker_timeout_seconds))
    lost = {worker.id for worker in world.workers.values() if worker.is_lost}
    held = [job for job in world.jobs.values() if job.state is State.RUNNING and job.owner in lost][: tick.batch]
    for job in held:
        reclaim(world, job, WORKER_LOST)
    tell_dependents(world)
    return len(held)


def _mark_the_lost(world: World, timeout: timedelta) -> None:
    """After a gap between ticks the silence may be the database's own: wait a whole timeout more."""
    if world.last_tick_at is None or world.now - world.last_tick_at > timeout / 2:
        world.silence_counts_from = world.now + timeout
    world.last_tick_at = world.now
    assert world.silence_counts_from is not None
    if world.now < world.silence_counts_from:
        return
    for worker in world.workers.values():
        worker.is_lost = worker.is_lost or worker.seen_at < world.now - timeout


def _end_lifetimes(world: World, tick: Tick) -> int:
    def lifetime_end(job: ModelJob) -> datetime | None:
        return None if job.state.is_terminal or job.state is State.RUNNING else job.lifetime_ends_at

    over = _oldest(world, tick.batch, lifetime_end)
    for job in over:
        end(world, job, State.DEAD_LETTER, LIFETIME)
    tell_dependents(world)
    return len(over)


def _schedule_due(world: World, tick: Tick) -> int:
    due = _oldest(world, tick.batch, lambda job: job.due_at)
    for job in due:
        schedule(world, job)
    return len(due)


def _remove_old(world: World, tick: Tick) -> int:
    world.keys = {name: key for name, key in world.keys.items() if key.expires_at > world.now}
    _forget_workers(world)
    kept = {key.job_id for key in world.keys.values()}
    # What is live waits for them; what is dead would read them if it was replayed.
    may_run = [job for job in world.jobs.values() if not job.state.is_terminal or job.state.is_replayable]
    kept |= {parent for job in may_run for parent in job.waits}

    def removable_at(job: ModelJob) -> datetime | None:
        if job.completed_at is None or job.id in kept:
            return None
        dead, completed = tick.dead_retention_seconds, tick.completed_retention_seconds
        return job.completed_at + timedelta(seconds=dead if job.state.is_replayable else completed)

    old = [job for job in world.jobs.values() if (at := removable_at(job)) is not None and at <= world.now]
    old.sort(key=lambda job: (job.completed_at, job.seq))
    for job in old[: tick.batch]:
        _remove(world, job)
    return len(old[: tick.batch])


def _remove(world: World, job: ModelJob) -> None:
    del world.jobs[job.id]
    for other in world.jobs.values():
        other.waits.pop(job.id, None)
        other.ended_by = None if other.ended_by == job.id else other.ended_by
        other.spawned_by = None if other.spawned_by == job.id else other.spawned_by


def _forget_workers(world: World) -> None:
    oldest = world.now - timedelta(seconds=limits.WORKER_RETENTION_SECONDS)
    world.workers = {
        worker.id: worker
        for worker in world.workers.values()
        if not worker.is_lost or worker.seen_at >= oldest or world.leases_of(worker.id)
    }
