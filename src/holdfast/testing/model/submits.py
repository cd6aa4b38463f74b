"""Accepting jobs: keys, dependencies, spawned children."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from holdfast.core.checks import run_at_fault
from holdfast.core.commands import NewJob, Submit, SubmitAnswer, Submitted
from holdfast.core.dependencies import Dependency, DependencyKind, depth_fault
from holdfast.core.errors import Fault, HoldfastError, IdempotencyConflict, InvalidInput
from holdfast.core.priority import Priority
from holdfast.testing.model.moves import first_state
from holdfast.testing.model.world import ModelJob, ModelKey, Wait, World


def submit(world: World, submits: Sequence[Submit]) -> list[SubmitAnswer]:
    answers: list[SubmitAnswer] = []
    for one in submits:
        try:
            answers.append(accept(world, one))
        except HoldfastError as refusal:
            answers.append(refusal)
    return answers


def accept(world: World, submit: Submit, *, spawner: ModelJob | None = None) -> tuple[Submitted, ...]:
    """All of them or none: every check comes before the first write."""
    duplicates = _find_duplicates(world, submit)
    new = {job.id: _with_duplicates_named(job, duplicates) for job in submit.jobs if job.id not in duplicates}
    new = {job_id: job for job_id, job in new.items() if job_id not in world.jobs}
    faults = [f for n, job in enumerate(submit.jobs) if job.id in new for f in _faults(world, n, new, job.id, spawner)]
    if faults:
        raise InvalidInput(faults)
    # All are made before the first is inserted: a child is none of those that a FAN_IN on its own spawner waits for.
    _insert(world, [_make(world, new, job, spawner) for job in new.values()])
    for job_id in _dependencies_first(new):
        first_state(world, world.jobs[job_id])
    _place_in_order_given(world, new)
    # Whoever waits for a job that ended at once is in the batch too, and has seen it.
    world.untold = [job for job in world.untold if job.id not in new]
    return tuple(Submitted(duplicates.get(job.id, job.id), job.id in duplicates) for job in submit.jobs)


def _find_duplicates(world: World, submit: Submit) -> dict[UUID, UUID]:
    """The items whose key already stands for a job, and which."""
    keyed = [job for job in submit.jobs if job.key is not None and job.id not in world.jobs]
    found: dict[UUID, UUID] = {}
    for job in keyed:
        assert job.key is not None
        holder = world.keys.get((job.type, job.key))
        if holder is None or holder.expires_at <= world.now:
            continue
        if holder.digest != job.payload.digest():
            raise _conflict(job, holder.job_id, "its payload is another one")
        found[job.id] = holder.job_id
    if submit.is_keyed_as_one and 0 < len(found) < len(keyed):
        first = next(job for job in keyed if job.id in found)
        problem = f"only {len(found)} of the batch's {len(keyed)} keys are taken, so this is not a repeat of it"
        raise _conflict(first, found[first.id], problem)
    return found


def _conflict(job: NewJob, existing_id: UUID, problem: str) -> IdempotencyConflict:
    assert job.key is not None
    return IdempotencyConflict(job_type=job.type, key=job.key, existing_id=existing_id, problem=problem)


def _with_duplicates_named(job: NewJob, duplicates: dict[UUID, UUID]) -> NewJob:
    """Whoever waits for a duplicate waits for the job it stands for."""
    waits_for = tuple(Dependency(duplicates.get(d.job_id, d.job_id), d.kind) for d in job.dependencies)
    return replace(job, dependencies=waits_for)


def _faults(world: World, n: int, new: dict[UUID, NewJob], job_id: UUID, spawner: ModelJob | None) -> list[Fault]:
    """What only the store can know."""
    job = new[job_id]
    missing = [d.job_id for d in job.dependencies if d.job_id not in world.jobs and d.job_id not in new]
    if missing:
        names = ", ".join(str(one) for one in missing)
        return [Fault(item=n, field="dependencies", problem=f"name no known job: {names}")]
    lifetime_ends_at = world.now + timedelta(seconds=job.timeouts.lifetime)
    run_at = _run_at(world, job)
    found = [
        depth_fault(n, _depth(world, new, job, spawner)),
        run_at_fault(n, run_at=run_at, lifetime_ends_at=lifetime_ends_at) if run_at else None,
    ]
    return [fault for fault in found if fault is not None]


def _run_at(world: World, job: NewJob) -> datetime | None:
    if job.delay_seconds:
        return world.now + timedelta(seconds=job.delay_seconds)
    return job.run_at


def _parents(world: World, job: NewJob) -> dict[UUID, DependencyKind]:
    """What a job waits for; a FAN_IN on a job that has spawned waits for those children too."""
    parents: dict[UUID, DependencyKind] = {}
    for dependency in job.dependencies:
        parents[dependency.job_id] = dependency.kind
        if dependency.kind is DependencyKind.FAN_IN:
            for child in world.jobs.values():
                if child.spawned_by == dependency.job_id:
                    parents.setdefault(child.id, DependencyKind.FAN_IN)
    return parents


def _depth(world: World, new: dict[UUID, NewJob], job: NewJob, spawner: ModelJob | None) -> int:
    above = [spawner.depth] if spawner else []
    for parent in _parents(world, job):
        if parent in new:
            above.append(_depth(world, new, new[parent], spawner))
        elif parent in world.jobs:
            above.append(world.jobs[parent].depth)
    return max(above, default=-1) + 1


def _priority(world: World, new: dict[UUID, NewJob], job: NewJob) -> Priority:
    parents = _parents(world, job)
    own = [_priority(world, new, new[p]) if p in new else world.jobs[p].priority for p in parents]
    return min([job.priority, *own])


def _dependencies_first(new: dict[UUID, NewJob]) -> list[UUID]:
    ordered: list[UUID] = []
    while len(ordered) < len(new):
        ordered += [
            job_id
            for job_id, job in new.items()
            if job_id not in ordered and all(d.job_id in ordered for d in job.dependencies if d.job_id in new)
        ]
    return ordered


def _make(world: World, new: dict[UUID, NewJob], job: NewJob, spawner: ModelJob | None) -> ModelJob:
    world.last_seq += 1
    return ModelJob(
        given=job,
        seq=world.last_seq,
        priority=_priority(world, new, job),
        depth=_depth(world, new, job, spawner),
        created_at=world.now,
        updated_at=world.now,
        run_at=_run_at(world, job),
        lifetime_ends_at=world.now + timedelta(seconds=job.timeouts.lifetime),
        waits={parent: Wait(kind, is_open=True) for parent, kind in _parents(world, job).items()},
        spawned_by=spawner.id if spawner else None,
    )


def _insert(world: World, made: Sequence[ModelJob]) -> None:
    for job in made:
        given = job.given
        world.jobs[job.id] = job
        world.queues.add(given.queue)
        if given.key is not None:
            expires_at = world.now + timedelta(seconds=given.key_window_seconds)
            world.keys[given.type, given.key] = ModelKey(job.id, given.payload.digest(), expires_at)


def _place_in_order_given(world: World, new: dict[UUID, NewJob]) -> None:
    """A batch is first in, first out as it was given, whatever order its dependencies were looked at."""
    placed = [world.jobs[job_id] for job_id in new if world.jobs[job_id].place]
    for place, job in zip(sorted(job.place for job in placed), placed, strict=True):
        job.place = place
