"""How the model's jobs look through the port."""

from collections import Counter

from holdfast.core.commands import EQUAL, Filter, Place, QueueStats, WorkerInfo
from holdfast.core.dependencies import Dependency
from holdfast.core.job import ClaimedJob, Job, Lease, Upstream, as_given
from holdfast.core.states import State
from holdfast.testing.model.world import ModelJob, World


def view(world: World, job: ModelJob) -> Job:
    return Job(
        id=job.id,
        seq=job.seq,
        priority=job.priority,
        state=job.state,
        attempt=job.attempt,
        replays=job.replays,
        depth=job.depth,
        created_at=job.created_at,
        updated_at=job.updated_at,
        run_at=job.run_at,
        due_at=job.due_at,
        scheduled_at=job.scheduled_at,
        started_at=job.started_at,
        completed_at=job.completed_at,
        lifetime_ends_at=None if job.state.is_terminal else job.lifetime_ends_at,
        dependencies=tuple(one.dependency for one in upstream(world, job)),
        lease=lease(job) if job.token is not None else None,
        lease_version=job.version,
        cancel_requested=job.cancel_requested,
        progress=job.progress,
        checkpoint=job.checkpoint,
        result=job.result,
        failure=job.failure,
        ended_by=job.ended_by,
        last_attempt_id=job.last_token,
        spawned_by=job.spawned_by,
        **as_given(job.given),
    )


def lease(job: ModelJob) -> Lease:
    assert job.token is not None
    assert job.owner is not None
    assert job.expires_at is not None
    return Lease(
        job_id=job.id,
        seq=job.seq,
        token=job.token,
        version=job.version,
        owner=job.owner,
        expires_at=job.expires_at,
    )


def claimed(job: ModelJob) -> ClaimedJob:
    given = job.given
    assert job.started_at is not None
    return ClaimedJob(
        lease=lease(job),
        type=given.type,
        queue=given.queue,
        priority=job.priority,
        payload=given.payload,
        attempt=job.attempt,
        max_attempts=given.retry.max_attempts,
        created_at=job.created_at,
        started_at=job.started_at,
        has_dependencies=bool(job.waits),
        previous_attempt_id=job.last_token,
        checkpoint=job.checkpoint,
        encoded_options=given.options.encode(),
        was_reclaimed=job.is_fragile,
    )


def matches(job: ModelJob, where: Filter) -> bool:
    given = job.given
    return (
        (where.states is None or job.state in where.states)
        and all(getattr(where, name) in (None, getattr(given, name)) for name in EQUAL)
        and (where.tag is None or where.tag in given.tags.items())
        and (where.created_from is None or job.created_at >= where.created_from)
        and (where.created_until is None or job.created_at < where.created_until)
    )


def upstream(world: World, job: ModelJob) -> list[Upstream]:
    """In the order of acceptance."""
    parents = [(world.jobs[parent], wait.kind) for parent, wait in job.waits.items()]
    parents.sort(key=lambda pair: pair[0].seq)
    return [
        Upstream(job_id=p.id, state=p.state, result=p.result, dependency=Dependency(p.id, kind)) for p, kind in parents
    ]


def queue(world: World, name: str) -> QueueStats:
    jobs = [job for job in world.jobs.values() if job.given.queue == name]
    ready = [job.scheduled_at for job in jobs if job.state is State.SCHEDULED and job.scheduled_at is not None]
    return QueueStats(
        name=name,
        is_paused=name in world.paused,
        counts=dict(Counter(job.state for job in jobs)),
        oldest_scheduled_at=min(ready, default=None),
    )


def place(world: World, job: ModelJob) -> Place:
    line = [one for one in world.jobs.values() if one.state is State.SCHEDULED and one.given.queue == job.given.queue]
    ahead = sum((one.priority, one.place) < (job.priority, job.place) for one in line)
    return Place(
        now=world.now,
        paused_at=world.paused.get(job.given.queue),
        ahead=ahead if job.state is State.SCHEDULED else None,
    )


def workers(world: World) -> list[WorkerInfo]:
    return [
        WorkerInfo(
            id=worker.id,
            name=worker.name,
            registered_at=worker.registered_at,
            seen_at=worker.seen_at,
            is_lost=worker.is_lost,
            running=len(world.leases_of(worker.id)),
            queues=worker.queues,
            types=worker.types,
        )
        for worker in sorted(world.workers.values(), key=lambda worker: (worker.registered_at, worker.id))
    ]
