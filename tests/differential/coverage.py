"""What a run must have met before it may stop: every outcome of every verb, and every row of the transition table.

Rows are seen as a job's state before a command and after it, so one that is passed through within a command is not
seen: – → PENDING where the job leaves PENDING at once (it is seen for jobs that wait). One row cannot be met at all:
RETRYING → DEAD_LETTER by exhaustion, because a job is only sent to RETRYING with an attempt left; the conformance suite
changes the limit behind the store's back to reach it.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

from holdfast.core.commands import BUSY, AlreadyFired, Completed, Failed, Fire, Fired, ReplayOutcome, Settled, Submitted
from holdfast.core.errors import HoldfastError, IdempotencyConflict, InvalidInput, StaleLease
from holdfast.core.job import ClaimedJob, Job
from holdfast.core.states import TRANSITIONS, WAITING, State, Transition, Trigger
from holdfast.testing.model.world import World
from tests.differential.commands import Call
from tests.differential.sides import Jobs

NOT_SEEN: Final = frozenset({Transition(State.RETRYING, State.DEAD_LETTER, Trigger.EXHAUST)})
_FAULT_FIELDS: Final = (
    *("type", "queue", "payload", "priority", "delay_seconds", "run_at", "timeouts.visibility", "retry.max_attempts"),
    *("key", "dependencies", "tags[", "correlation_id", "callback_url", "group", "jobs", "id"),
)
_TABLE: Final[dict[str, str]] = {
    "submit": "created duplicate repeat conflict:payload conflict:partial several-submits refused-beside-accepted "
    "starts:PENDING starts:DELAYED starts:SCHEDULED starts:FAILED starts:DEAD_LETTER starts:CANCELLED "
    "waits:AFTER waits:AFTER_ANY waits:CHAIN waits:FAN_OUT waits:FAN_IN inherits-priority many-faults "
    + " ".join(f"fault:{name}" for name in _FAULT_FIELDS),
    "claim": "none some full repeat repeat-claims-again fragile-alone stops-before-fragile types-left-out "
    "paused-left-out over-lifetime-left-out by-priority WorkerNotFound InvalidInput "
    "in-order:submit in-order:dependencies-met in-order:time-reached in-order:replay in-order:hand-back",
    "claim_ids": "claimed due GONE EARLY PAUSED FOREIGN BUSY fragile-alone stops-before-fragile repeat mixed "
    "WorkerNotFound InvalidInput",
    "settle": "COMPLETED RETRYING DEAD_LETTER FAILED CANCELLED SCHEDULED DELAYED repeat late with-progress spawned "
    "spawned-for-fan-in StaleLease InvalidTransition JobNotFound InvalidInput IdempotencyConflict mixed "
    "stale-beside-a-lease stale-ack-beside-a-lease stale-failure-beside-a-lease repeat-beside-a-lease "
    "TEMPORARY:RETRYING TIMEOUT:RETRYING SYSTEM:RETRYING TEMPORARY:DEAD_LETTER PERMANENT:FAILED HandedBack:SCHEDULED "
    "HandedBack:DELAYED asked:Completed:COMPLETED asked:Stopped:CANCELLED asked:HandedBack:CANCELLED "
    "asked:TEMPORARY:CANCELLED asked:PERMANENT:CANCELLED asked:CANCELLED:CANCELLED",
    "extend": "Extended Extended:cancel cut-by-lifetime StaleLease StaleLease:unknown mixed stale-beside-a-lease",
    "report": "None StaleLease InvalidInput mixed stale-beside-a-lease",
    "cancel": "CANCELLED REQUESTED ALREADY_ENDED NOT_FOUND asked-again propagated",
    "replay": "REPLAYED UNCHANGED ENDED_BY_DEPENDENCY NOT_FOUND revived revived-transitively stays-ended twice "
    "named-beside-its-dependency",
    "fire": "fired anchored duplicate repeat already older future refused conflict twice-in-a-call",
    "replay_where": "none some many",
    "read_page": "none some",
    "tick": "due reclaimed lifetimes_ended removed has_more nothing reclaim:SCHEDULED reclaim:DEAD_LETTER "
    "reclaim:CANCELLED reclaim:lifetime lease_expired worker_lost silence-excused "
    "kept-for-a-live-job kept-for-its-key due-on-the-dot expired-on-the-dot lifetime-on-the-dot silent-on-the-dot",
    "heartbeat": "known unknown lost lost-to-another cancel_requested handed_back asked:CANCELLED spared-by-claiming "
    "extended",
    "leave": "gone handed-back asked:CANCELLED",
}


@dataclass(slots=True)
class Coverage:
    seen: Counter[str] = field(default_factory=Counter)
    ways: dict[UUID, str] = field(default_factory=dict)
    """By which trigger a job became claimable."""

    def missing(self) -> list[str]:
        return sorted(EXPECTED - self.seen.keys())

    def add(self, verb: str, outcomes: Iterable[str]) -> None:
        self.seen.update(f"{verb} {outcome}" for outcome in outcomes)


def _row(row: Transition) -> str:
    return f"row {row.source or '–'} → {row.target} by {row.trigger}"


EXPECTED: Final = frozenset(
    [f"{verb} {outcome}" for verb, outcomes in _TABLE.items() for outcome in outcomes.split()]
    + [_row(row) for row in TRANSITIONS if row not in NOT_SEEN]
)


def observe(coverage: Coverage, call: Call, answer: Any, *, before: Jobs, after: Jobs, world: World) -> None:
    """Note what this step met; fail on a change of state that the table does not have."""
    look = _LOOKS.get(call.verb)
    if look is not None:
        coverage.add(call.verb, look(call.given, answer, before, after, world))
    if call.verb == "claim" and not isinstance(answer, HoldfastError):
        coverage.add("claim", _in_order(answer, coverage, before))
    for job_id, job in after.items():
        row = _row_of(call.verb, before.get(job_id), job)
        if job.state is State.SCHEDULED and before.get(job_id) != job:
            coverage.ways[job_id] = str(row.trigger if row else Trigger.SUBMIT).replace(" ", "-")
        if row is not None:
            assert row in TRANSITIONS, f"{job_id}: {row} is not a row of the transition table"
            coverage.seen[_row(row)] += 1


def _row_of(verb: str, old: Job | None, new: Job) -> Transition | None:
    if old is None:
        return Transition(None, State.PENDING, Trigger.SUBMIT) if new.state is State.PENDING else None
    if old.state is new.state or (verb == "claim_ids" and old.state in WAITING):
        # A claim by ID takes what is due through SCHEDULED, in one step.
        return None
    return Transition(old.state, new.state, _trigger(verb, old, new))


def _trigger(verb: str, old: Job, new: Job) -> Trigger:
    code = new.failure.code if new.failure else ""
    if new.state.is_terminal and code in _TRIGGER_OF_CODE:
        return _TRIGGER_OF_CODE[code]
    match old.state, new.state:
        case State.PENDING, _:
            return Trigger.RELEASE
        case State.DELAYED | State.RETRYING, State.SCHEDULED:
            return Trigger.DUE
        case State.FAILED | State.DEAD_LETTER, State.PENDING:
            return Trigger.REVIVE
        case State.FAILED | State.DEAD_LETTER, _:
            return Trigger.REPLAY
        case State.RUNNING, State.SCHEDULED | State.DELAYED:
            return Trigger.RECLAIM if verb == "tick" else Trigger.HAND_BACK
        case State.RUNNING, state:
            return _TRIGGER_OF_END[state]
        case _:
            return Trigger.CLAIM


_TRIGGER_OF_CODE: Final = {
    "dependency": Trigger.PROPAGATE,
    "lifetime": Trigger.LIFETIME,
    "cancelled": Trigger.CANCEL,
    "lease_expired": Trigger.RECLAIM,
    "worker_lost": Trigger.RECLAIM,
}
_TRIGGER_OF_END: Final = {
    State.COMPLETED: Trigger.COMPLETE,
    State.RETRYING: Trigger.RETRY,
    State.DEAD_LETTER: Trigger.EXHAUST,
    State.FAILED: Trigger.FAIL,
}

# one look a verb: the call's input and answer, the jobs before and after it, and the model's world after it


def _submit(given: Any, answers: Any, before: Jobs, after: Jobs, world: World) -> Iterable[str]:
    if len(given) > 1:
        yield "several-submits"
        if len({isinstance(answer, HoldfastError) for answer in answers}) > 1:
            yield "refused-beside-accepted"
    for submit, answer in zip(given, answers, strict=True):
        if isinstance(answer, InvalidInput):
            yield from _faults(answer)
        elif isinstance(answer, IdempotencyConflict):
            yield "conflict:partial" if "keys are taken" in str(answer) else "conflict:payload"
        else:
            for job, submitted in zip(submit.jobs, answer, strict=True):
                yield from _accepted(job, submitted, before, after)


def _faults(answer: InvalidInput) -> Iterable[str]:
    names = [name for fault in answer.faults for name in _FAULT_FIELDS if fault.field.startswith(name)]
    yield from (f"fault:{name}" for name in names)
    if len(names) > 1:
        yield "many-faults"


def _accepted(job: Any, submitted: Submitted, before: Jobs, after: Jobs) -> Iterable[str]:
    if submitted.is_duplicate:
        yield "duplicate"
    elif job.id in before or job.id not in after:
        yield "repeat"
    else:
        new = after[job.id]
        yield "created"
        yield f"starts:{new.state}"
        yield from (f"waits:{dependency.kind}" for dependency in new.dependencies)
        if new.priority < job.priority:
            yield "inherits-priority"


def _claim(given: Any, answer: Any, before: Jobs, after: Jobs, world: World) -> Iterable[str]:
    if isinstance(answer, HoldfastError):
        yield type(answer).__name__
        return
    taken = [job.id for job in answer]
    yield "some" if taken else "none"
    if len(taken) == given.limit:
        yield "full"
    if given.is_repeat:
        yield "repeat" if any(before[i].state is State.RUNNING for i in taken) else "repeat-claims-again"
    if len(taken) < given.limit and not given.is_repeat:
        yield from _left_out(given, taken, world)
    seqs = [world.jobs[job_id].seq for job_id in taken]
    if seqs != sorted(seqs) and len({job.priority for job in answer}) > 1:
        yield "by-priority"


def _claim_ids(given: Any, answer: Any, before: Jobs, after: Jobs, world: World) -> Iterable[str]:
    if isinstance(answer, HoldfastError):
        yield type(answer).__name__
        return
    _, is_repeated = given
    answers = answer[0] if is_repeated else answer
    taken = [one.id for one in answers if isinstance(one, ClaimedJob)]
    yield from ("claimed" if isinstance(one, ClaimedJob) else str(one.why) for one in answers)
    if is_repeated and taken:
        yield "repeat"
    if any(before[job_id].state is not State.SCHEDULED for job_id in taken):
        yield "due"
    if taken and len(taken) < len(answers):
        yield "mixed"
        yield from _kept_apart(given[0].ids, taken, answers, world)


def _kept_apart(ids: Any, taken: list[UUID], answers: Any, world: World) -> Iterable[str]:
    """A job that was free and did not run, so it was for the sake of a fragile one."""
    for job_id, answer in zip(ids, answers, strict=True):
        if answer == BUSY and world.jobs[job_id].state is not State.RUNNING:
            yield "fragile-alone" if world.jobs[taken[0]].is_fragile else "stops-before-fragile"


def _left_out(given: Any, taken: list[UUID], world: World) -> Iterable[str]:
    """Why a job was not taken though there was room: the only reason there is."""
    if len(taken) == 1 and world.jobs[taken[0]].is_fragile:
        yield "fragile-alone"
        return
    for job in world.jobs.values():
        if job.state is State.SCHEDULED and job.given.queue in given.queues:
            reasons = {
                "paused-left-out": job.given.queue in world.paused,
                "over-lifetime-left-out": job.lifetime_ends_at <= world.now,
                "types-left-out": given.types is not None and job.given.type not in given.types,
                "stops-before-fragile": bool(taken) and job.is_fragile,
            }
            why = [reason for reason, holds in reasons.items() if holds]
            yield from why if len(why) == 1 else []


def _in_order(taken: Any, coverage: Coverage, before: Jobs) -> Iterable[str]:
    """Two jobs of one queue and priority that became claimable at once, in the same way: FIFO has to order them."""
    for one, two in pairwise(before[job.id] for job in taken):
        places = [(job.queue, job.priority, job.scheduled_at, coverage.ways[job.id]) for job in (one, two)]
        if places[0] == places[1]:
            yield f"in-order:{places[0][-1]}"


def _settle(given: Any, answers: Any, before: Jobs, after: Jobs, world: World) -> Iterable[str]:
    names = [_settled(answer) for answer in answers]
    yield from names
    yield from _beside_a_lease(answers, before)
    for (_, outcome, _), answer in zip(given, answers, strict=False):
        if list(_beside_a_lease([answer], before)):
            yield f"stale-{'ack' if isinstance(outcome, Completed) else 'failure'}-beside-a-lease"
    if any(isinstance(answer, Settled) and answer.state is State.RUNNING for answer in answers):
        yield "repeat-beside-a-lease"
    if len(set(names)) > 1:
        yield "mixed"
    for (job_id, outcome, progress), answer in zip(given, answers, strict=False):
        if not isinstance(answer, Settled) or answer.is_repeat:
            continue
        kind = str(outcome.failure.category) if isinstance(outcome, Failed) else type(outcome).__name__
        yield f"asked:{kind}:{answer.state}" if before[job_id].cancel_requested else f"{kind}:{answer.state}"
        if progress is not None:
            yield "with-progress"
        if isinstance(outcome, Completed) and outcome.spawn:
            yield "spawned"
    for old in before.values():
        ended = after[old.id].state is not State.RUNNING
        if old.state is State.RUNNING and ended and old.lease is not None and old.lease.expires_at < world.now:
            yield "late"
        if len(after[old.id].dependencies) > len(old.dependencies):
            yield "spawned-for-fan-in"


def _beside_a_lease(answers: Any, before: Jobs) -> Iterable[str]:
    """A stale lease on a job that somebody else holds by now."""
    stale = [before.get(answer.job_id) for answer in answers if isinstance(answer, StaleLease)]
    if any(job is not None and job.state is State.RUNNING for job in stale):
        yield "stale-beside-a-lease"


def _settled(answer: Any) -> str:
    if isinstance(answer, Settled):
        return "repeat" if answer.is_repeat else str(answer.state)
    return type(answer).__name__


def _extend(given: Any, answers: Any, before: Jobs, after: Jobs, world: World) -> Iterable[str]:
    names = [type(answer).__name__ for answer in answers]
    yield from names
    yield from _beside_a_lease(answers, before)
    if len(set(names)) > 1:
        yield "mixed"
    for answer in answers:
        if isinstance(answer, HoldfastError):
            if getattr(answer, "current_version", 0) is None:
                yield "StaleLease:unknown"
        elif answer.cancel_requested:
            yield "Extended:cancel"
    for job in after.values():
        if job.lease is not None and job.lease.expires_at == job.lifetime_ends_at and before[job.id] != job:
            yield "cut-by-lifetime"


def _report(given: Any, answers: Any, before: Jobs, after: Jobs, world: World) -> Iterable[str]:
    if isinstance(answers, HoldfastError):
        yield type(answers).__name__
        return
    names = ["None" if answer is None else type(answer).__name__ for answer in answers]
    yield from names
    yield from _beside_a_lease(answers, before)
    if len(set(names)) > 1:
        yield "mixed"


def _cancel(given: Any, answers: Any, before: Jobs, after: Jobs, world: World) -> Iterable[str]:
    yield from (str(answer.outcome) for answer in answers)
    if any(job_id in before and before[job_id].cancel_requested for job_id in given):
        yield "asked-again"
    if any(job.ended_by is not None and before[job.id].state is State.PENDING for job in after.values()):
        yield "propagated"


def _replay(given: Any, answers: Any, before: Jobs, after: Jobs, world: World) -> Iterable[str]:
    yield from (str(answer.outcome) for answer in answers)
    replayed = [answer.job_id for answer in answers if answer.outcome is ReplayOutcome.REPLAYED]
    if any(given.count(job_id) > 1 for job_id in replayed):
        yield "twice"
    if any(before[job_id].ended_by is not None for job_id in replayed):
        yield "named-beside-its-dependency"
    back = [old for old in before.values() if old.state.is_terminal and after[old.id].state is State.PENDING]
    if back:
        yield "revived"
    if any(old.ended_by in {other.id for other in back} for old in back):
        yield "revived-transitively"
    if any(after[old.id].ended_by not in {None, old.ended_by} for old in before.values()):
        yield "stays-ended"


def _some(given: Any, answers: Any, before: Jobs, after: Jobs, world: World) -> Iterable[str]:
    yield "some" if answers else "none"
    if len(answers) > given[1]:
        yield "many"


def _fire(given: Any, answers: Any, before: Jobs, after: Jobs, world: World) -> Iterable[str]:
    if isinstance(answers, HoldfastError):
        yield "twice-in-a-call"
        return
    for call in answers:
        yield from (_fired(fire, answer) for fire, answer in zip(given, call, strict=True))


def _fired(fire: Fire, answer: Any) -> str:
    match answer:
        case Fired(job_id=None):
            return "anchored"
        case Fired(is_repeat=True):
            return "repeat"
        case Fired(is_duplicate=True):
            return "duplicate"
        case Fired():
            return "fired"
        case AlreadyFired(slot=slot):
            return "already" if slot == fire.slot else "older"
        case IdempotencyConflict():
            return "conflict"
        case _:
            return "future" if "future" in str(answer) else "refused"


def _tick(given: Any, report: Any, before: Jobs, after: Jobs, world: World) -> Iterable[str]:
    met = [name for name in ("due", "reclaimed", "lifetimes_ended", "removed", "has_more") if getattr(report, name)]
    yield from met or ["nothing"]
    yield from _on_the_dot(given, before, world)
    for old in before.values():
        new = after.get(old.id)
        if new is not None and old.state is State.RUNNING and new.state is not State.RUNNING:
            yield f"reclaim:{new.state}"
            code = world.jobs[old.id].attempts[-1].failure.code
            yield "reclaim:lifetime" if code == "lifetime" else code
        if new is not None and new.completed_at is not None and not report.has_more:
            yield from _kept(given, new, after, world)
    if world.silence_counts_from is not None and world.silence_counts_from > world.now:
        silent = [(world.now - worker.seen_at).total_seconds() for worker in world.workers.values()]
        if max(silent, default=0.0) > given.worker_timeout_seconds:
            yield "silence-excused"


def _on_the_dot(given: Any, before: Jobs, world: World) -> Iterable[str]:
    """Times that are reached exactly now: where < and <= part."""
    for old in before.values():
        if old.due_at == world.now:
            yield "due-on-the-dot"
        if old.lease is not None and old.lease.expires_at == world.now:
            yield "expired-on-the-dot"
        if old.lease is None and old.lifetime_ends_at == world.now:
            yield "lifetime-on-the-dot"
    is_excused = world.silence_counts_from is None or world.silence_counts_from > world.now
    silent = [(world.now - worker.seen_at).total_seconds() for worker in world.workers.values()]
    if not is_excused and given.worker_timeout_seconds in silent:
        yield "silent-on-the-dot"


def _kept(given: Any, job: Job, after: Jobs, world: World) -> Iterable[str]:
    seconds = given.dead_retention_seconds if job.state.is_replayable else given.completed_retention_seconds
    assert job.completed_at is not None
    if (world.now - job.completed_at).total_seconds() < seconds:
        return
    if any(job.id in other.waits and not other.state.is_terminal for other in world.jobs.values()):
        yield "kept-for-a-live-job"
    if any(key.job_id == job.id for key in world.keys.values()):
        yield "kept-for-its-key"


def _heartbeat(given: Any, answer: Any, before: Jobs, after: Jobs, world: World) -> Iterable[str]:
    worker, _, claiming = given
    yield from _stopped(before, after)
    yield "known" if answer.is_known else "unknown"
    yield from (name for name in ("lost", "cancel_requested", "handed_back") if getattr(answer, name))
    gone = {job.last_attempt_id for job in after.values() if job.state is State.RUNNING}
    if answer.lost & gone:
        yield "lost-to-another"
    for job in after.values():
        old = before[job.id]
        if job.lease is not None and old.lease is not None and job.lease.expires_at > old.lease.expires_at:
            yield "extended"
    if any(job.token in claiming for job in world.leases_of(worker)):
        yield "spared-by-claiming"


def _stopped(before: Jobs, after: Jobs) -> Iterable[str]:
    """Handed back, but asked to stop before."""
    if any(job.state is State.CANCELLED and before[job.id].cancel_requested for job in after.values()):
        yield "asked:CANCELLED"


def _leave(given: Any, answer: Any, before: Jobs, after: Jobs, world: World) -> Iterable[str]:
    yield from _stopped(before, after)
    if any(job.lease is not None and job.lease.owner == given for job in before.values()):
        yield "handed-back"
    yield "gone"


_LOOKS: Final = {
    "submit": _submit,
    "claim": _claim,
    "claim_ids": _claim_ids,
    "settle": _settle,
    "extend": _extend,
    "report": _report,
    "cancel": _cancel,
    "replay": _replay,
    "replay_where": _some,
    "fire": _fire,
    "read_page": _some,
    "tick": _tick,
    "heartbeat": _heartbeat,
    "leave": _leave,
}
