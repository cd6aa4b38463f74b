"""What people do: cancel, replay."""

from collections.abc import Sequence
from uuid import UUID

from holdfast.core.commands import CancelAnswer, CancelOutcome, ReplayAnswer, ReplayOutcome
from holdfast.core.states import State
from holdfast.testing.model.moves import (
    CANCELLED,
    dead_dependency,
    end,
    look_at_dependencies,
    schedule,
    start_again,
    tell_dependents,
)
from holdfast.testing.model.world import ModelJob, World


def cancel(world: World, ids: Sequence[UUID]) -> list[CancelAnswer]:
    """A repeat inside one call is answered like the first."""
    answers = {job_id: _cancel(world, world.jobs.get(job_id)) for job_id in dict.fromkeys(ids)}
    tell_dependents(world)
    return [answers[job_id] for job_id in ids]


def _cancel(world: World, job: ModelJob | None) -> CancelAnswer:
    if job is None:
        return CancelAnswer(CancelOutcome.NOT_FOUND)
    if job.state.is_terminal:
        return CancelAnswer(CancelOutcome.ALREADY_ENDED, job.state)
    if job.state is State.RUNNING:
        job.cancel_requested = True
        return CancelAnswer(CancelOutcome.REQUESTED, job.state)
    end(world, job, State.CANCELLED, CANCELLED)
    return CancelAnswer(CancelOutcome.CANCELLED, job.state)


def replay(world: World, ids: Sequence[UUID]) -> list[ReplayAnswer]:
    """First those that can start again; one that ended with its dependency is answered for when that is back, too."""
    answers = [_replay(world, job_id) for job_id in ids]
    while _bring_dependents_back(world):
        pass
    seen: set[UUID] = set()
    for n, answer in enumerate(answers):
        if answer.outcome is ReplayOutcome.ENDED_BY_DEPENDENCY:
            answers[n] = _with_its_dependency(world.jobs[answer.job_id], is_first=answer.job_id not in seen)
            seen.add(answer.job_id)
    return answers


def _with_its_dependency(job: ModelJob, *, is_first: bool) -> ReplayAnswer:
    if job.state.is_replayable:
        return ReplayAnswer(job.id, ReplayOutcome.ENDED_BY_DEPENDENCY, job.state, job.ended_by)
    outcome = ReplayOutcome.REPLAYED if is_first else ReplayOutcome.UNCHANGED
    return ReplayAnswer(job.id, outcome, job.state)


def _replay(world: World, job_id: UUID) -> ReplayAnswer:
    job = world.jobs.get(job_id)
    if job is None:
        return ReplayAnswer(job_id, ReplayOutcome.NOT_FOUND)
    if not job.state.is_replayable:
        return ReplayAnswer(job_id, ReplayOutcome.UNCHANGED, job.state)
    if job.ended_by is not None:
        return ReplayAnswer(job_id, ReplayOutcome.ENDED_BY_DEPENDENCY, job.state, job.ended_by)
    start_again(world, job)
    schedule(world, job)
    return ReplayAnswer(job_id, ReplayOutcome.REPLAYED, job.state)


def _bring_dependents_back(world: World) -> bool:
    """One pass over the jobs whose ender is dead no more; whether it changed anything."""
    changed = False
    for job in world.jobs.values():
        if not job.state.is_replayable or job.ended_by is None or world.jobs[job.ended_by].state.is_terminal:
            continue
        changed = True
        look_at_dependencies(world, job)
        dead = dead_dependency(world, job)
        if dead is not None:
            job.ended_by = dead.id
        else:
            start_again(world, job)
            job.state, job.updated_at = State.PENDING, world.now
    return changed
