"""Callers' own transactions: what they make is nobody's until they commit, and what they need is nobody else's.

A transaction locks the jobs that its own wait for (PORT-7), so what it has decided about its jobs is
still true when it commits.
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

from holdfast.core.commands import NewJob, Submit, SubmitAnswer
from holdfast.core.dependencies import DependencyKind
from holdfast.testing.model.submits import accept
from holdfast.testing.model.world import Hold, World

Key = tuple[str, str]


def begin(world: World) -> Hold:
    hold = Hold()
    world.holds.append(hold)
    return hold


def submit(world: World, hold: Hold, submits: Sequence[Submit]) -> list[SubmitAnswer]:
    """Refusals raise, and leave the transaction as it was."""
    view = World(
        now=world.now,
        jobs={**world.jobs, **hold.jobs},
        keys={**world.keys, **hold.keys},
        last_seq=world.last_seq,
        last_place=world.last_place,
    )
    answers: list[SubmitAnswer] = [accept(view, one) for one in submits]
    for one in submits:
        jobs, keys = needs(world, one.jobs)
        hold.locked_jobs |= jobs
        hold.locked_keys |= keys
    hold.jobs = {job_id: job for job_id, job in view.jobs.items() if job_id not in world.jobs}
    hold.keys = {name: key for name, key in view.keys.items() if world.keys.get(name) is not key}
    # Drawn for good, whatever becomes of the transaction.
    world.last_seq, world.last_place = view.last_seq, view.last_place
    return answers


def commit(world: World, hold: Hold) -> None:
    roll_back(world, hold)
    world.jobs = dict(sorted({**world.jobs, **hold.jobs}.items(), key=lambda item: item[1].seq))
    world.keys |= hold.keys
    world.queues |= {job.given.queue for job in hold.jobs.values()}


def roll_back(world: World, hold: Hold) -> None:
    world.holds.remove(hold)


def needs(world: World, jobs: Sequence[NewJob]) -> tuple[set[UUID], set[Key]]:
    """The committed jobs and the keys that a submit of these jobs locks."""
    new = [job for job in jobs if job.id not in world.jobs]
    keys = {(job.type, job.key) for job in new if job.key is not None}
    named = {d.job_id for job in jobs for d in job.dependencies}
    fans = {d.job_id for job in jobs for d in job.dependencies if d.kind is DependencyKind.FAN_IN}
    if named:
        holders = {name: key.job_id for name, key in world.keys.items() if name in keys}
        named |= set(holders.values())
        fans |= {holders[job.type, job.key] for job in new if job.id in fans and (job.type, job.key) in holders}  # type: ignore[index]
    named |= {job.id for job in world.jobs.values() if job.spawned_by in fans}
    return named & world.jobs.keys(), keys


def are_held(world: World, jobs: Iterable[UUID], keys: Iterable[Key]) -> bool:
    jobs, keys = set(jobs), set(keys)
    return any(jobs & hold.locked_jobs or keys & hold.locked_keys for hold in world.holds)
