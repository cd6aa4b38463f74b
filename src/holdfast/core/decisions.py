"""What happens to a job: one Record and one event in, the next Record out.

Pure, and the only place where a state is chosen. Fast paths in SQL may write the outcome of ``claim``, ``due`` and of
a plain ``settle`` for whole batches at once; the differential test holds them to these functions.

Invariants (tests cite them by number):

DECIDE-1. Every change of state is a row of the transition table.
DECIDE-2. ``attempt`` is counted when it starts, at claim; a hand-back gives it back, the lease version never goes back.
DECIDE-3. Out of RUNNING the token is cleared, so whoever held it is refused from then on.
DECIDE-4. Once a cancel was requested, only an ack ends the job otherwise than in CANCELLED.
DECIDE-5. A lifetime ends every state that is not terminal.
DECIDE-6. A spent attempt leaves an Attempt behind, linked to the one before; success and hand-back leave none.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, assert_never
from uuid import UUID

from holdfast.core import limits
from holdfast.core.commands import (
    BUSY,
    ClaimIds,
    Completed,
    Failed,
    HandedBack,
    NewJob,
    NotClaimed,
    Outcome,
    Stopped,
    WhyNot,
)
from holdfast.core.errors import InvalidTransition
from holdfast.core.failures import Category, Failure
from holdfast.core.job import Attempt, Record
from holdfast.core.priority import Priority
from holdfast.core.states import State, Trigger, require_transition


@dataclass(frozen=True, slots=True)
class Decision:
    record: Record
    attempt: Attempt | None = None


LEASE_EXPIRED = Failure(category=Category.SYSTEM, message="the lease expired", code="lease_expired")
WORKER_LOST = Failure(category=Category.SYSTEM, message="the worker stopped answering", code="worker_lost")
LIFETIME_OVER = Failure(category=Category.TIMEOUT, message="the job's lifetime is over", code="lifetime")
CANCEL = Failure(category=Category.CANCELLED, message="cancelled", code="cancelled")
RETRIES_EXHAUSTED = Failure(category=Category.TEMPORARY, message="no attempt is left", code="retries_exhausted")


def accept(job: NewJob, *, seq: int, now: datetime, priority: Priority, depth: int) -> Record:
    """A submitted job, PENDING; ``release`` follows in the same transaction where nothing is open."""
    require_transition(job.id, None, State.PENDING, Trigger.SUBMIT)
    return Record(
        seq=seq,
        id=job.id,
        type=job.type,
        queue=job.queue,
        priority=priority,
        depth=depth,
        max_attempts=job.retry.max_attempts,
        visibility_seconds=job.timeouts.visibility,
        lifetime_seconds=job.timeouts.lifetime,
        lifetime_ends_at=now + timedelta(seconds=job.timeouts.lifetime),
        created_at=now,
        run_at=due_time(job, now=now),
        state=State.PENDING,
        updated_at=now,
    )


def due_time(job: NewJob, *, now: datetime) -> datetime | None:
    """When a job wants to run at the earliest; a delay counts from submit. None: at once."""
    if job.run_at is not None:
        return job.run_at
    return now + timedelta(seconds=job.delay_seconds) if job.delay_seconds else None


def release(record: Record, *, now: datetime) -> Record:
    """Nothing is waited for any more."""
    if record.run_at is not None and record.run_at > now:
        return _move(record, State.DELAYED, Trigger.RELEASE, now=now, due_at=record.run_at)
    return _move(record, State.SCHEDULED, Trigger.RELEASE, now=now, scheduled_at=now)


def end_by_dependency(record: Record, parent: Record, *, now: datetime) -> Record:
    """What the dependent waited for ended, and so does it, with the dependency's category."""
    failure = Failure(
        category=parent.failure.category if parent.failure else Category.CANCELLED,
        message=f"its dependency {parent.id} ended in {parent.state}",
        code="dependency",
    )
    return _end(record, parent.state, Trigger.PROPAGATE, now=now, failure=failure, ended_by=parent.seq)


def due(record: Record, *, now: datetime) -> Decision:
    """A delay or a backoff is over."""
    if record.state is State.RETRYING and record.attempt >= record.max_attempts:
        return Decision(_end(record, State.DEAD_LETTER, Trigger.EXHAUST, now=now, failure=RETRIES_EXHAUSTED))
    return Decision(_move(record, State.SCHEDULED, Trigger.DUE, now=now, due_at=None, scheduled_at=now))


def claim(record: Record, *, owner: UUID, token: UUID, now: datetime) -> Record:
    return _move(
        record,
        State.RUNNING,
        Trigger.CLAIM,
        now=now,
        attempt=record.attempt + 1,
        version=record.version + 1,
        token=token,
        owner=owner,
        started_at=now,
        expires_at=lease_end(record, now=now),
    )


def choose(
    records: Mapping[UUID, Record], claim: ClaimIds, *, paused: Container[str], now: datetime
) -> tuple[list[Record], dict[UUID, NotClaimed]]:
    """A claim by ID: the jobs it can have, and why it cannot have the others. A fragile one is taken alone."""
    chosen: list[Record] = []
    left: dict[UUID, NotClaimed] = {}
    is_full = False
    for job_id in claim.ids:
        record = records.get(job_id)
        why = why_not(record, claim, paused=paused, now=now)
        if record is None or why is not None:
            left[job_id] = why or NotClaimed(WhyNot.GONE)
        elif is_full or (record.is_fragile and chosen):
            left[job_id] = BUSY
            is_full = True
        else:
            chosen.append(record)
            is_full = record.is_fragile
    return chosen, left


def why_not(record: Record | None, claim: ClaimIds, *, paused: Container[str], now: datetime) -> NotClaimed | None:
    """None where a claim can have the job, once it is due. What stands in the way for good comes first."""
    if record is None or record.state.is_terminal or record.state is State.PENDING or record.lifetime_ends_at <= now:
        return NotClaimed(WhyNot.GONE)
    if record.queue not in claim.queues or (claim.types is not None and record.type not in claim.types):
        return NotClaimed(WhyNot.FOREIGN)
    if record.queue in paused:
        return NotClaimed(WhyNot.PAUSED)
    if record.due_at is not None and record.due_at > now:
        return NotClaimed(WhyNot.EARLY, (record.due_at - now).total_seconds())
    if record.state is State.RETRYING and record.attempt >= record.max_attempts:
        return NotClaimed(WhyNot.GONE)
    return BUSY if record.state is State.RUNNING else None


def claim_due(record: Record, *, owner: UUID, token: UUID, now: datetime) -> Record:
    """One that may have come due by now, and that nobody has moved yet."""
    return claim(
        record if record.state is State.SCHEDULED else due(record, now=now).record, owner=owner, token=token, now=now
    )


def lease_end(record: Record, *, now: datetime) -> datetime:
    """A lease never outlives its job: so the search for expired leases also finds lifetimes that end in RUNNING."""
    return min(now + timedelta(seconds=record.visibility_seconds), record.lifetime_ends_at)


def extend(record: Record, *, now: datetime) -> Record:
    return replace(record, expires_at=lease_end(record, now=now))


def is_worth_extending(record: Record, *, now: datetime) -> bool:
    """A heartbeat extends a lease once a third of its visibility timeout has passed."""
    assert record.expires_at is not None
    left = timedelta(seconds=record.visibility_seconds * (1 - limits.EXTEND_AFTER_FRACTION))
    return record.expires_at - now < left


def settle(record: Record, outcome: Outcome, *, now: datetime) -> Decision:
    """The holder says how it went. The caller has checked the token."""
    match outcome:
        case Completed(result=result):
            # An ack that comes before the holder saw the cancel request wins: the work is done.
            return Decision(
                _end(record, State.COMPLETED, Trigger.COMPLETE, now=now, result=result, last_token=record.token)
            )
        case Stopped():
            if not record.cancel_requested:
                raise InvalidTransition(
                    job_id=record.id, source=record.state, target=State.CANCELLED, trigger="stopping without a request"
                )
            return _end_attempt(record, State.CANCELLED, Trigger.CANCEL, CANCEL, now=now)
        case HandedBack(due_in_seconds=seconds):
            return hand_back(record, now=now, due_in_seconds=seconds)
        case Failed(failure=failure, retry_in_seconds=seconds):
            return _fail(record, failure, now=now, retry_in_seconds=seconds)
        case _:
            assert_never(outcome)


def _fail(record: Record, failure: Failure, *, now: datetime, retry_in_seconds: float | None) -> Decision:
    if record.cancel_requested or failure.category is Category.CANCELLED:
        return settle(record, Stopped(), now=now)
    if failure.category is Category.PERMANENT:
        return _end_attempt(record, State.FAILED, Trigger.FAIL, failure, now=now)
    if retry_in_seconds is None or record.attempt >= record.max_attempts:
        return _end_attempt(record, State.DEAD_LETTER, Trigger.EXHAUST, failure, now=now)
    retrying = _leave_running(
        record,
        State.RETRYING,
        Trigger.RETRY,
        now=now,
        due_at=now + timedelta(seconds=retry_in_seconds),
        last_token=record.token,
    )
    return Decision(retrying, _attempt(record, failure, now=now, is_ended_by_holder=True))


def hand_back(record: Record, *, now: datetime, due_in_seconds: float = 0.0) -> Decision:
    """Interrupted is not failed: shutdown, prefetched and not started, type unknown here, claim's answer lost."""
    if record.cancel_requested:
        return _end_attempt(record, State.CANCELLED, Trigger.CANCEL, CANCEL, now=now)
    unspent = record.attempt - 1
    target = State.DELAYED if due_in_seconds > 0 else State.SCHEDULED
    return Decision(
        _leave_running(
            record,
            target,
            Trigger.HAND_BACK,
            now=now,
            attempt=unspent,
            started_at=record.started_at if unspent else None,
            due_at=now + timedelta(seconds=due_in_seconds) if due_in_seconds > 0 else None,
            scheduled_at=now if target is State.SCHEDULED else record.scheduled_at,
        )
    )


def reclaim(record: Record, failure: Failure, *, now: datetime) -> Decision:
    """The holder is gone, or was silent for too long. Its attempt is spent: it may have run."""
    if record.lifetime_ends_at <= now:
        return end_lifetime(record, now=now)
    if record.cancel_requested:
        return _end_attempt(record, State.CANCELLED, Trigger.CANCEL, CANCEL, now=now, is_ended_by_holder=False)
    if record.attempt >= record.max_attempts:
        return _end_attempt(
            record, State.DEAD_LETTER, Trigger.RECLAIM, failure, now=now, is_ended_by_holder=False, is_fragile=True
        )
    back = _leave_running(
        record,
        State.SCHEDULED,
        Trigger.RECLAIM,
        now=now,
        scheduled_at=now,
        is_fragile=True,
        last_token=record.token,
    )
    return Decision(back, _attempt(record, failure, now=now, is_ended_by_holder=False))


def cancel(record: Record, *, now: datetime) -> Record:
    """A person's wish. RUNNING is only asked to stop; a repeat and a terminal state change nothing."""
    if record.state.is_terminal:
        return record
    if record.state is State.RUNNING:
        return replace(record, cancel_requested=True)
    return _end(record, State.CANCELLED, Trigger.CANCEL, now=now, failure=CANCEL)


def end_lifetime(record: Record, *, now: datetime) -> Decision:
    """Whatever it is doing (DECIDE-5); a running handler's token is void from here on."""
    if record.state is not State.RUNNING:
        return Decision(_end(record, State.DEAD_LETTER, Trigger.LIFETIME, now=now, failure=LIFETIME_OVER))
    if record.cancel_requested:
        return _end_attempt(record, State.CANCELLED, Trigger.CANCEL, CANCEL, now=now, is_ended_by_holder=False)
    return _end_attempt(record, State.DEAD_LETTER, Trigger.LIFETIME, LIFETIME_OVER, now=now, is_ended_by_holder=False)


def replay(record: Record, *, now: datetime) -> Record:
    """By a person: attempts and lifetime start again. History, checkpoint and key stay."""
    return _move(
        _forget_end(record, now=now), State.SCHEDULED, Trigger.REPLAY, now=now, scheduled_at=now, source=record.state
    )


def revive(record: Record, *, now: datetime) -> Record:
    """The dependency that had ended this job comes back, and so does the job, waiting."""
    return _move(_forget_end(record, now=now), State.PENDING, Trigger.REVIVE, now=now, source=record.state)


def _forget_end(record: Record, *, now: datetime) -> Record:
    return replace(
        record,
        attempt=0,
        replays=record.replays + 1,
        lifetime_ends_at=now + timedelta(seconds=record.lifetime_seconds),
        completed_at=None,
        scheduled_at=None,
        started_at=None,
        failure=None,
        result=None,
        ended_by=None,
        owner=None,
    )


def _end_attempt(
    record: Record,
    target: State,
    trigger: Trigger,
    failure: Failure,
    *,
    now: datetime,
    is_ended_by_holder: bool = True,
    is_fragile: bool = False,
) -> Decision:
    ended = _end(
        record,
        target,
        trigger,
        now=now,
        failure=failure.bounded(),
        last_token=record.token,
        is_fragile=is_fragile or record.is_fragile,
    )
    return Decision(ended, _attempt(record, failure, now=now, is_ended_by_holder=is_ended_by_holder))


def _end(record: Record, target: State, trigger: Trigger, *, now: datetime, **changes: Any) -> Record:
    owner = record.owner
    ended = _leave_running(record, target, trigger, now=now, due_at=None, completed_at=now, **changes)
    # Who ran it last stays known after the end; the lease itself does not (DECIDE-3).
    return replace(ended, owner=owner)


def _leave_running(record: Record, target: State, trigger: Trigger, *, now: datetime, **changes: Any) -> Record:
    return _move(
        record,
        target,
        trigger,
        now=now,
        token=None,
        owner=None,
        expires_at=None,
        cancel_requested=False,
        **changes,
    )


def _move(
    record: Record, target: State, trigger: Trigger, *, now: datetime, source: State | None = None, **changes: Any
) -> Record:
    require_transition(record.id, source or record.state, target, trigger)
    return replace(record, state=target, updated_at=now, **changes)


def _attempt(record: Record, failure: Failure, *, now: datetime, is_ended_by_holder: bool) -> Attempt:
    assert record.token is not None
    assert record.owner is not None
    assert record.started_at is not None
    return Attempt(
        id=record.token,
        job_id=record.id,
        number=record.attempt,
        version=record.version,
        owner=record.owner,
        started_at=record.started_at,
        ended_at=now,
        failure=failure.bounded(),
        previous_id=record.last_token,
        is_ended_by_holder=is_ended_by_holder,
    )
