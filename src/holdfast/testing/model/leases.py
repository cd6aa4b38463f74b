"""What workers do: claim, settle, extend, report, and say that they live."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

from holdfast.core import limits
from holdfast.core.commands import (
    BUSY,
    Claim,
    ClaimIds,
    Completed,
    ExtendAnswer,
    Extended,
    Failed,
    HandedBack,
    Heartbeat,
    HeartbeatAnswer,
    NewJob,
    NotClaimed,
    Report,
    ReportAnswer,
    SettleAnswer,
    Settled,
    Settlement,
    Stopped,
    Submit,
    WhyNot,
    lease_tokens,
)
from holdfast.core.dependencies import DependencyKind
from holdfast.core.errors import (
    Fault,
    HoldfastError,
    InvalidInput,
    InvalidTransition,
    JobNotFound,
    StaleLease,
    WorkerNotFound,
)
from holdfast.core.failures import Category
from holdfast.core.job import Lease
from holdfast.core.states import State
from holdfast.testing.model.moves import CANCELLED, end, hand_back, postpone, schedule, spend, tell_dependents
from holdfast.testing.model.submits import accept
from holdfast.testing.model.world import ModelJob, ModelWorker, Wait, World

# claim


def claim(world: World, claim: Claim, *, unseen: Collection[UUID] = ()) -> list[ModelJob]:
    """``unseen``: jobs that the claimer may have passed over while somebody held them, and has."""
    worker = world.workers.get(claim.owner)
    if worker is None or worker.is_lost:
        raise WorkerNotFound(claim.owner)
    tokens = lease_tokens(claim.nonce, claim.limit)
    given = {job.token: job for job in world.leases_of(claim.owner) if job.token in tokens}
    if claim.is_repeat and given:
        return [given[token] for token in tokens if token in given]
    free = [job for job in _claimable(world, claim) if job.id not in unseen and not world.is_held(job)]
    taken = _alone_if_fragile(free[: claim.limit])
    for job, token in zip(sorted(taken, key=lambda job: job.seq), tokens, strict=False):
        _lease(world, job, claim.owner, token)
    return taken


def _claimable(world: World, claim: Claim) -> list[ModelJob]:
    found = [
        job
        for job in world.jobs.values()
        if job.state is State.SCHEDULED
        and job.given.queue in claim.queues
        and job.given.queue not in world.paused
        and (claim.types is None or job.given.type in claim.types)
        and job.lifetime_ends_at > world.now
    ]
    return sorted(found, key=lambda job: (claim.queues.index(job.given.queue), job.priority, job.place))


def _alone_if_fragile(jobs: list[ModelJob]) -> list[ModelJob]:
    """A job that was ever reclaimed has no neighbours: it comes alone, or it ends the list before it."""
    if jobs and jobs[0].is_fragile:
        return jobs[:1]
    before = [n for n, job in enumerate(jobs) if job.is_fragile]
    return jobs[: before[0]] if before else jobs


def claim_ids(world: World, claim: ClaimIds) -> list[ModelJob | NotClaimed]:
    worker = world.workers.get(claim.owner)
    if worker is None or worker.is_lost:
        raise WorkerNotFound(claim.owner)
    tokens = lease_tokens(claim.nonce, len(claim.ids))
    given = {job.id: job for job in world.leases_of(claim.owner) if job.token in tokens}
    if claim.is_repeat and given:
        return [given.get(job_id, BUSY) for job_id in claim.ids]
    answers = {job_id: _look(world, world.jobs.get(job_id), claim) for job_id in claim.ids}
    free = [answer for answer in answers.values() if isinstance(answer, ModelJob)]
    taken = _alone_if_fragile(free)
    for job, token in zip(sorted(taken, key=lambda job: job.seq), tokens, strict=False):
        if job.due_at is not None:
            schedule(world, job)
        _lease(world, job, claim.owner, token)
    return [BUSY if answer in free and answer not in taken else answer for answer in answers.values()]


def _look(world: World, job: ModelJob | None, claim: ClaimIds) -> ModelJob | NotClaimed:
    """The job, if it could be claimed now; or why not."""
    if job is None or job.state.is_terminal or job.state is State.PENDING or job.lifetime_ends_at <= world.now:
        return NotClaimed(WhyNot.GONE)
    if job.given.queue not in claim.queues or (claim.types is not None and job.given.type not in claim.types):
        return NotClaimed(WhyNot.FOREIGN)
    if job.given.queue in world.paused:
        return NotClaimed(WhyNot.PAUSED)
    if job.due_at is not None and job.due_at > world.now:
        return NotClaimed(WhyNot.EARLY, (job.due_at - world.now).total_seconds())
    if job.state is State.RUNNING or world.is_held(job):
        return BUSY
    return job


def _lease(world: World, job: ModelJob, owner: UUID, token: UUID) -> None:
    job.state, job.updated_at, job.started_at = State.RUNNING, world.now, world.now
    job.attempt += 1
    job.version += 1
    job.token, job.owner = token, owner
    _extend(world, job)


def _extend(world: World, job: ModelJob) -> None:
    wanted = world.now + timedelta(seconds=job.given.timeouts.visibility)
    job.expires_at = min(wanted, job.lifetime_ends_at)


# settle


def settle(world: World, settlements: Sequence[Settlement]) -> list[SettleAnswer]:
    settled_now: set[tuple[UUID, UUID]] = set()
    answers: list[SettleAnswer] = []
    for one in settlements:
        job, token = _job_of(world, one.lease), one.lease.token
        if job is None:
            answers.append(JobNotFound(one.lease.job_id))
        elif job.token == token:
            answers.append(_settle_one(world, job, one))
            if isinstance(answers[-1], Settled):
                settled_now.add((job.id, token))
        elif (job.id, token) in settled_now or _was_settled_by(job, token):
            answers.append(Settled(job.state, is_repeat=True))
        else:
            answers.append(_stale(world, one.lease))
    tell_dependents(world)
    return answers


def _was_settled_by(job: ModelJob, token: UUID) -> bool:
    """A hand-back leaves no trace; a reclaim is not the holder's."""
    if job.state is State.COMPLETED and job.last_token == token:
        return True
    return any(attempt.id == token and attempt.is_ended_by_holder for attempt in job.attempts)


def _job_of(world: World, lease: Lease) -> ModelJob | None:
    """By ``seq`` too: a job that was removed and then submitted again is another one."""
    job = world.jobs.get(lease.job_id)
    return job if job is not None and job.seq == lease.seq else None


def _stale(world: World, lease: Lease) -> StaleLease:
    job = _job_of(world, lease)
    return StaleLease(job_id=lease.job_id, held_version=lease.version, current_version=job.version if job else None)


def _settle_one(world: World, job: ModelJob, settlement: Settlement) -> SettleAnswer:
    try:
        _refuse(job, settlement)
        _end_attempt(world, job, settlement)
    except HoldfastError as refusal:
        return refusal
    if settlement.progress is not None:
        job.progress = settlement.progress
    return Settled(job.state)


def _refuse(job: ModelJob, settlement: Settlement) -> None:
    outcome = settlement.outcome
    is_cancel = isinstance(outcome, Stopped) or (
        isinstance(outcome, Failed) and outcome.failure.category is Category.CANCELLED
    )
    if is_cancel and not job.cancel_requested:
        raise InvalidTransition(
            job_id=job.id, source=job.state, target=State.CANCELLED, trigger="stopping without a request"
        )


def _end_attempt(world: World, job: ModelJob, settlement: Settlement) -> None:
    match settlement.outcome:
        case Completed() as completed:
            _complete(world, job, completed)
        case HandedBack(due_in_seconds=seconds):
            hand_back(world, job, due_in_seconds=seconds)
        case Failed() as failed if not job.cancel_requested:
            _fail(world, job, failed)
        case _:
            spend(world, job, CANCELLED, by_holder=True)
            end(world, job, State.CANCELLED, CANCELLED)


def _fail(world: World, job: ModelJob, failed: Failed) -> None:
    spend(world, job, failed.failure, by_holder=True)
    if failed.failure.category is Category.PERMANENT:
        end(world, job, State.FAILED, failed.failure)
    elif failed.retry_in_seconds is None or job.attempt >= job.given.retry.max_attempts:
        end(world, job, State.DEAD_LETTER, failed.failure)
    else:
        due_at = world.now + timedelta(seconds=failed.retry_in_seconds)
        postpone(world, job, State.RETRYING, due_at=due_at)


def _complete(world: World, job: ModelJob, completed: Completed) -> None:
    """An ack wins over a cancel request. Children are accepted with it, or it is refused with them."""
    if completed.spawn:
        _refuse_circles(world, job, completed.spawn)
        answers = accept(world, Submit(jobs=completed.spawn), spawner=job)
        _let_fan_ins_wait(world, job, [world.jobs[answer.job_id] for answer in answers if not answer.is_duplicate])
    job.last_token = job.token
    end(world, job, State.COMPLETED)
    job.result = completed.result


def _refuse_circles(world: World, spawner: ModelJob, children: Sequence[NewJob]) -> None:
    """A FAN_IN on the spawner will wait for the children: no child may wait for it, or for what waits for it."""
    behind = {job.id for job in _fan_ins(world, spawner)}
    while more := {job.id for job in world.jobs.values() if job.id not in behind and behind & job.waits.keys()}:
        behind |= more
    faults = [
        Fault(item=n, field="dependencies", problem="wait for a fan-in on the job that spawns this one")
        for n, child in enumerate(children)
        if any(dependency.job_id in behind for dependency in child.dependencies)
    ]
    if faults:
        raise InvalidInput(faults)


def _fan_ins(world: World, spawner: ModelJob) -> list[ModelJob]:
    found = [(job, job.waits.get(spawner.id)) for job in world.jobs.values()]
    return [job for job, wait in found if wait and wait.is_open and wait.kind is DependencyKind.FAN_IN]


def _let_fan_ins_wait(world: World, spawner: ModelJob, children: Sequence[ModelJob]) -> None:
    """A FAN_IN on a spawner waits for its new children too; never the children for each other."""
    for job in _fan_ins(world, spawner):
        if job not in children:
            job.waits.update({child.id: Wait(DependencyKind.FAN_IN, is_open=True) for child in children})
    # One that ended at once is news to those that now wait for it.
    world.untold += [child for child in children if child.state.is_terminal]


# extend, report


def extend(world: World, leases: Sequence[Lease]) -> list[ExtendAnswer]:
    answers: list[ExtendAnswer] = []
    for lease in leases:
        job = _held(world, lease)
        if job is None:
            answers.append(_stale(world, lease))
        else:
            _extend(world, job)
            assert job.expires_at is not None
            answers.append(Extended(job.expires_at, job.cancel_requested))
    return answers


def _held(world: World, lease: Lease) -> ModelJob | None:
    job = _job_of(world, lease)
    return job if job is not None and job.token == lease.token else None


def report(world: World, reports: Sequence[Report]) -> list[ReportAnswer]:
    answers: list[ReportAnswer] = []
    for one in reports:
        job = _held(world, one.lease)
        answers.append(_stale(world, one.lease) if job is None else None)
        if job is not None:
            job.progress = one.progress if one.progress is not None else job.progress
            job.checkpoint = one.checkpoint if one.checkpoint is not None else job.checkpoint
    return answers


# workers


def register(
    world: World, worker_id: UUID, name: str, *, serves: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
) -> None:
    known = world.workers.get(worker_id)
    registered_at = known.registered_at if known else world.now
    queues, types = serves
    world.workers[worker_id] = ModelWorker(
        id=worker_id, name=name, registered_at=registered_at, seen_at=world.now, queues=queues, types=types
    )


def heartbeat(world: World, heartbeat: Heartbeat) -> HeartbeatAnswer:
    worker = world.workers.get(heartbeat.worker)
    is_known = worker is not None and not worker.is_lost
    held = {lease.token: job for lease in heartbeat.held if (job := _held(world, lease)) is not None}
    for job in held.values():
        if _is_a_third_over(world, job) and not world.is_held(job):
            _extend(world, job)
    unknown = []
    if worker is not None and is_known:
        worker.seen_at = world.now
        spared = {*held, *heartbeat.claiming}
        unknown = [job for job in world.leases_of(worker.id) if job.token not in spared and not world.is_held(job)]
    answer = HeartbeatAnswer(
        is_known=is_known,
        lost=frozenset(lease.token for lease in heartbeat.held if lease.token not in held),
        cancel_requested=frozenset(token for token, job in held.items() if job.cancel_requested),
        handed_back=len(unknown),
    )
    for job in unknown:
        hand_back(world, job)
    tell_dependents(world)
    return answer


def _is_a_third_over(world: World, job: ModelJob) -> bool:
    assert job.expires_at is not None
    rest = timedelta(seconds=job.given.timeouts.visibility * (1 - limits.EXTEND_AFTER_FRACTION))
    return job.expires_at < world.now + rest


def leave(world: World, worker_id: UUID) -> None:
    for job in world.leases_of(worker_id):
        if not world.is_held(job):
            hand_back(world, job)
    world.workers.pop(worker_id, None)
    tell_dependents(world)
