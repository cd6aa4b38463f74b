"""How one job changes, and how an end spreads to those that wait for it."""

from datetime import datetime, timedelta
from typing import Final

from holdfast.core.dependencies import DependencyKind
from holdfast.core.failures import Category, Failure
from holdfast.core.job import Attempt
from holdfast.core.states import State
from holdfast.testing.model.world import ModelJob, World

LEASE_EXPIRED: Final = Failure(category=Category.SYSTEM, message="the lease expired", code="lease_expired")
WORKER_LOST: Final = Failure(category=Category.SYSTEM, message="the worker stopped answering", code="worker_lost")
LIFETIME: Final = Failure(category=Category.TIMEOUT, message="the job's lifetime is over", code="lifetime")
CANCELLED: Final = Failure(category=Category.CANCELLED, message="cancelled", code="cancelled")


def schedule(world: World, job: ModelJob) -> None:
    """Claimable from now on, behind all that already are."""
    world.last_place += 1
    job.place = world.last_place
    job.state, job.updated_at, job.scheduled_at, job.due_at = State.SCHEDULED, world.now, world.now, None


def postpone(world: World, job: ModelJob, state: State, *, due_at: datetime) -> None:
    job.state, job.updated_at, job.due_at = state, world.now, due_at


def release(world: World, job: ModelJob) -> None:
    """Nothing is waited for any more, but perhaps the time."""
    if job.run_at is not None and job.run_at > world.now:
        postpone(world, job, State.DELAYED, due_at=job.run_at)
    else:
        schedule(world, job)


def let_go(job: ModelJob) -> None:
    job.token, job.owner, job.expires_at, job.cancel_requested = None, None, None, False


def spend(world: World, job: ModelJob, failure: Failure, *, by_holder: bool) -> None:
    """The present attempt is over, without success."""
    assert job.token is not None
    assert job.owner is not None
    assert job.started_at is not None
    job.attempts.append(
        Attempt(
            id=job.token,
            job_id=job.id,
            number=job.attempt,
            version=job.version,
            owner=job.owner,
            started_at=job.started_at,
            ended_at=world.now,
            failure=failure.bounded(),
            previous_id=job.last_token,
            is_ended_by_holder=by_holder,
        )
    )
    job.last_token = job.token
    let_go(job)


def end(world: World, job: ModelJob, state: State, failure: Failure | None = None) -> None:
    let_go(job)
    job.state, job.updated_at, job.completed_at, job.due_at = state, world.now, world.now, None
    job.failure = failure.bounded() if failure else None
    world.untold.append(job)


def end_because_of(world: World, job: ModelJob, dependency: ModelJob) -> None:
    category = dependency.failure.category if dependency.failure else Category.CANCELLED
    message = f"its dependency {dependency.id} ended in {dependency.state}"
    end(world, job, dependency.state, Failure(category=category, message=message, code="dependency"))
    job.ended_by = dependency.id


def hand_back(world: World, job: ModelJob, *, due_in_seconds: float = 0.0) -> None:
    """The attempt is not spent; the version stays. A cancel request ends the job instead."""
    if job.cancel_requested:
        spend(world, job, CANCELLED, by_holder=True)
        return end(world, job, State.CANCELLED, CANCELLED)
    let_go(job)
    job.attempt -= 1
    if job.attempt == 0:
        job.started_at = None
    if due_in_seconds > 0:
        return postpone(world, job, State.DELAYED, due_at=world.now + timedelta(seconds=due_in_seconds))
    return schedule(world, job)


def reclaim(world: World, job: ModelJob, why: Failure) -> None:
    """Take the lease away: the holder is silent, dead, or out of the job's lifetime."""
    is_cancelled, is_over = job.cancel_requested, job.lifetime_ends_at <= world.now
    failure = CANCELLED if is_cancelled else LIFETIME if is_over else why
    spend(world, job, failure, by_holder=False)
    if is_cancelled:
        return end(world, job, State.CANCELLED, failure)
    if is_over:
        return end(world, job, State.DEAD_LETTER, failure)
    job.is_fragile = True
    if job.attempt >= job.given.retry.max_attempts:
        return end(world, job, State.DEAD_LETTER, failure)
    return schedule(world, job)


def start_again(world: World, job: ModelJob) -> None:
    """Replayed: what the end left is forgotten; history, checkpoint and key stay."""
    job.attempt, job.replays = 0, job.replays + 1
    job.lifetime_ends_at = world.now + timedelta(seconds=job.given.timeouts.lifetime)
    job.completed_at = job.scheduled_at = job.started_at = None
    job.failure = job.result = job.ended_by = None


# dependencies


def dead_dependency(world: World, job: ModelJob) -> ModelJob | None:
    """The first thing needed COMPLETED that ended otherwise."""
    for parent_id, wait in job.waits.items():
        parent = world.jobs[parent_id]
        is_dead = parent.state.is_terminal and parent.state is not State.COMPLETED
        if is_dead and wait.kind is not DependencyKind.AFTER_ANY:
            return parent
    return None


def look_at_dependencies(world: World, job: ModelJob) -> None:
    """Which waits are open, as things stand: at submit, and when the job comes back."""
    has_ended = {parent: world.jobs[parent].state.is_terminal for parent in job.waits}
    any_ended = any(has_ended[p] for p, wait in job.waits.items() if wait.kind is DependencyKind.AFTER_ANY)
    for parent, wait in job.waits.items():
        wait.is_open = not (any_ended if wait.kind is DependencyKind.AFTER_ANY else has_ended[parent])


def first_state(world: World, job: ModelJob) -> None:
    """A PENDING job that knows its dependencies: it ends with a dead one, waits, or is released."""
    look_at_dependencies(world, job)
    dead = dead_dependency(world, job)
    if dead is not None:
        end_because_of(world, job, dead)
    elif not any(wait.is_open for wait in job.waits.values()):
        release(world, job)


def tell_dependents(world: World) -> None:
    """Round by round: all that ended in one round is told at once, in the order of acceptance."""
    while world.untold:
        ended = sorted(world.untold, key=lambda job: job.seq)
        world.untold = []
        for child in list(world.jobs.values()):
            news = [parent for parent in ended if parent.id in child.waits and child.waits[parent.id].is_open]
            held = [parent for parent in news if world.is_held(parent) or world.is_held(child)]
            world.owed += [(parent, child) for parent in held]
            if free := [parent for parent in news if parent not in held]:
                _tell(world, child, free)


def tell_what_is_owed(world: World, *, to: ModelJob | None = None) -> None:
    """What somebody's hold kept from being told: to one job, or to all that nobody holds by now."""
    owed = [(parent, child) for parent, child in world.owed if to is None or child is to]
    world.owed = [pair for pair in world.owed if pair not in owed]
    for child in dict.fromkeys(child.id for _, child in owed):
        news = [parent for parent, one in owed if one.id == child and _is_news(parent, one)]
        job = world.jobs[child]
        if to is None and (world.is_held(job) or any(world.is_held(parent) for parent in news)):
            world.owed += [(parent, job) for parent in news]
        elif news:
            _tell(world, job, sorted(news, key=lambda parent: parent.seq))
    tell_dependents(world)


def _is_news(parent: ModelJob, child: ModelJob) -> bool:
    """A parent that was replayed meanwhile has nothing to tell any more."""
    return parent.state.is_terminal and child.waits[parent.id].is_open


def _tell(world: World, child: ModelJob, ended: list[ModelJob]) -> None:
    dead = None
    for parent in ended:
        wait = child.waits[parent.id]
        wait.is_open = False
        if wait.kind is DependencyKind.AFTER_ANY:
            for other in child.waits.values():
                other.is_open = other.is_open and other.kind is not DependencyKind.AFTER_ANY
        elif parent.state is not State.COMPLETED:
            dead = dead or parent
    if child.state is not State.PENDING:
        return
    if dead is not None:
        end_because_of(world, child, dead)
    elif not any(wait.is_open for wait in child.waits.values()):
        release(world, child)
