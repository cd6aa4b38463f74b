"""Why a job is not running, in one sentence, from the same predicates as the claim.

Pure: ``engine/why.py`` gathers the facts. ``is_claimable`` and ``is_served_by`` are the claim's predicates in words of
their own; the conformance suite compares them with what claims return.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from shlex import quote
from typing import Final, assert_never

from holdfast.core import limits
from holdfast.core.commands import Place, WorkerInfo
from holdfast.core.dependencies import Dependency, DependencyKind, ends_dependent
from holdfast.core.failures import Failure
from holdfast.core.job import Job
from holdfast.core.states import State

MAX_NAMED: Final = 3
"""Jobs or queues that a sentence names before it counts the rest."""
MAX_ERROR_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    job: Job
    place: Place
    workers: Sequence[WorkerInfo] = ()
    waits_for: Sequence[tuple[Dependency, State]] = ()
    """Of a PENDING job: how what it waits for stands."""
    last_failure: Failure | None = None
    """Of a RETRYING job: why its last attempt failed."""


def is_claimable(job: Job, place: Place) -> bool:
    """Whether a claim by a worker that fits would return the job, once nothing stands before it."""
    return job.state is State.SCHEDULED and place.paused_at is None and not _is_over_lifetime(job, place.now)


def is_served_by(worker: WorkerInfo, job: Job) -> bool:
    """Whether the worker may claim at all, and says that it wants such a job; one that says nothing wants any."""
    return not worker.is_lost and _wants(worker.queues, job.queue) and _wants(worker.types, job.type)


def explain(facts: Facts) -> str:
    job = facts.job
    if not job.state.is_terminal and job.state is not State.RUNNING and _is_over_lifetime(job, facts.place.now):
        assert job.lifetime_ends_at is not None
        over = f"its lifetime ended at {_time(job.lifetime_ends_at)}"
        return f"It will not run: {over}, and the next tick ends it as DEAD_LETTER{_if_nobody_ticks(facts)}."
    match job.state:
        case State.PENDING:
            return _pending(facts)
        case State.DELAYED | State.RETRYING:
            return _due_later(facts)
        case State.SCHEDULED:
            return _scheduled(facts)
        case State.RUNNING:
            return _running(facts)
        case State.COMPLETED | State.FAILED | State.DEAD_LETTER | State.CANCELLED:
            return _ended(job)
        case _:
            assert_never(job.state)


def _is_over_lifetime(job: Job, now: datetime) -> bool:
    return job.lifetime_ends_at is not None and job.lifetime_ends_at <= now


def _wants(served: Sequence[str], name: str) -> bool:
    return not served or name in served


# waiting


def _pending(facts: Facts) -> str:
    dead = next((one for one in facts.waits_for if one[1].is_terminal and ends_dependent(one[0].kind, one[1])), None)
    if dead is not None:
        end = f"its dependency {dead[0].job_id} ended {dead[1]}"
        return f"It will not run: {end}, and the next tick ends this job so, too{_if_nobody_ticks(facts)}."
    needed = [one for one in facts.waits_for if one[0].kind is not DependencyKind.AFTER_ANY]
    alternatives = [one for one in facts.waits_for if one[0].kind is DependencyKind.AFTER_ANY]
    parts = []
    if still_open := [one for one in needed if not one[1].is_terminal]:
        count = f"{len(still_open)} of {len(needed)} jobs" if len(needed) > 1 else "this job"
        parts.append(f"for {count} to complete: {_named(still_open)}")
    if alternatives and not any(state.is_terminal for _, state in alternatives):
        parts.append(f"for the first of these to end: {_named(alternatives)}")
    if not parts:
        return f"What it waited for has ended, and the next tick releases it{_if_nobody_ticks(facts)}."
    return f"It waits {', and '.join(parts)}."


def _named(jobs: Sequence[tuple[Dependency, State]]) -> str:
    names = [f"{dependency.job_id} ({state})" for dependency, state in jobs[:MAX_NAMED]]
    return ", ".join(names) + _and_more(len(jobs))


def _and_more(count: int) -> str:
    return f" and {count - MAX_NAMED} more" if count > MAX_NAMED else ""


def _due_later(facts: Facts) -> str:
    job, now = facts.job, facts.place.now
    assert job.due_at is not None
    when = _time(job.due_at)
    if job.due_at <= now:
        is_due = f"it is due since {when}, and the next tick makes it claimable{_if_nobody_ticks(facts)}"
    else:
        is_due = f"it is due at {when}, in {_duration(job.due_at - now)}"
        if nobody := _nobody(facts):
            is_due += f"; besides, {nobody}"
    if job.state is not State.RETRYING:
        return f"{is_due[0].upper()}{is_due[1:]}."
    error = f": {_error(facts.last_failure)}" if facts.last_failure is not None else ""
    return f"Attempt {job.attempt} of {job.retry.max_attempts} failed{error}; {is_due}."


def _if_nobody_ticks(facts: Facts) -> str:
    """Workers keep time, too; where there is none, nothing moves on."""
    return "" if _live(facts) else "; but no worker is running, and nobody ticks: start one with holdfast worker"


# claimable


def _scheduled(facts: Facts) -> str:
    job, place = facts.job, facts.place
    if not is_claimable(job, place):
        assert place.paused_at is not None
        since = _time(place.paused_at)
        return f"Its queue {job.queue!r} is paused since {since}; go on with: holdfast queues resume {quote(job.queue)}"
    if nobody := _nobody(facts):
        return f"{nobody[0].upper()}{nobody[1:]}."
    ahead = place.ahead or 0
    if ahead:
        count = f"at least {ahead}" if ahead >= limits.MAX_PLACE_JOBS else str(ahead)
        jobs = "1 job stands" if ahead == 1 else f"{count} jobs stand"
        return f"It may be claimed, but {jobs} before it in queue {job.queue!r}."
    return f"It is the next one in queue {job.queue!r}: a worker with a free slot claims it any moment."


def _nobody(facts: Facts) -> str | None:
    """Why no live worker would take the job, as a clause; None where one would."""
    job, live = facts.job, _live(facts)
    if any(is_served_by(worker, job) for worker in live):
        return None
    if not live:
        return "no worker is running: start one with holdfast worker"
    serving = [worker for worker in live if _wants(worker.queues, job.queue)]
    if serving:
        return f"no live worker of queue {job.queue!r} has a handler for its type {job.type!r}"
    queues = sorted({queue for worker in live for queue in worker.queues})
    served = ", ".join(repr(queue) for queue in queues[:MAX_NAMED]) + _and_more(len(queues))
    return f"no live worker serves its queue {job.queue!r}, only {served}"


def _live(facts: Facts) -> list[WorkerInfo]:
    return [worker for worker in facts.workers if not worker.is_lost]


# running, ended


def _running(facts: Facts) -> str:
    job, now = facts.job, facts.place.now
    assert job.lease is not None
    assert job.started_at is not None
    owner = next((worker for worker in facts.workers if worker.id == job.lease.owner), None)
    name = f"worker {owner.name!r}" if owner is not None else f"worker {job.lease.owner}"
    text = f"It is running: attempt {job.attempt} of {job.retry.max_attempts}, by {name}, since {_time(job.started_at)}"
    if owner is not None and owner.is_lost:
        text += "; that worker is lost, and the next tick takes the job from it"
    elif job.lease.expires_at <= now:
        text += f"; its lease ended at {_time(job.lease.expires_at)}, and the next tick takes it back"
    else:
        text += f", leased until {_time(job.lease.expires_at)}"
    return f"{text}; it was asked to stop." if job.cancel_requested else f"{text}."


def _ended(job: Job) -> str:
    assert job.completed_at is not None
    at = _time(job.completed_at)
    if job.ended_by is not None:
        ended = f"It ended {job.state} at {at} because its dependency {job.ended_by} did"
        if not job.state.is_replayable:
            return f"{ended}."
        return f"{ended}; it comes back with that: holdfast replay {job.ended_by}"
    if job.state is State.COMPLETED:
        return f"It completed at {at}, in attempt {job.attempt}."
    if job.state is State.CANCELLED:
        return f"It was cancelled at {at}."
    error = f" ({_error(job.failure)})" if job.failure is not None else ""
    how = "failed for good" if job.state is State.FAILED else "was given up"
    return f"It {how} at {at}, after {_attempts(job.attempt)}{error}; run it again with: holdfast replay {job.id}"


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"


# words


def _error(failure: Failure) -> str:
    """In one line: whatever a handler raised must not make two sentences of one."""
    said = " ".join(failure.message.split())
    if len(said) > MAX_ERROR_CHARACTERS:
        said = f"{said[:MAX_ERROR_CHARACTERS]}…"
    return ": ".join(part for part in (failure.category, failure.error_type, said) if part)


def _time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def _duration(delta: timedelta) -> str:
    """In its largest unit and the next: 4 min 10 s."""
    rest = max(1, round(delta.total_seconds()))
    parts = []
    for unit, seconds in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, seconds)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])
