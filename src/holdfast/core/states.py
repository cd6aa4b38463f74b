"""The nine states and the one table of transitions that code, documentation and databases are held to.

Invariants (tests cite them by number):

STATE-1. A job is in exactly one state.
STATE-2. A state changes only along a row of ``TRANSITIONS``, for the trigger named there.
STATE-3. COMPLETED and CANCELLED are never left; FAILED and DEAD_LETTER only by replay.
STATE-4. RUNNING is entered only by claim.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

from holdfast.core.errors import InvalidTransition


class State(StrEnum):
    PENDING = "PENDING"
    """Waits for dependencies."""
    DELAYED = "DELAYED"
    """Waits for its time."""
    SCHEDULED = "SCHEDULED"
    """May be claimed."""
    RUNNING = "RUNNING"
    """Leased to one worker."""
    RETRYING = "RETRYING"
    """Waits for its backoff."""
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    DEAD_LETTER = "DEAD_LETTER"
    CANCELLED = "CANCELLED"

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL

    @property
    def is_replayable(self) -> bool:
        return self in REPLAYABLE


WAITING: Final = (State.PENDING, State.DELAYED, State.RETRYING)
LIVE: Final = (State.PENDING, State.DELAYED, State.SCHEDULED, State.RUNNING, State.RETRYING)
TERMINAL: Final = (State.COMPLETED, State.FAILED, State.DEAD_LETTER, State.CANCELLED)
DONE: Final = (State.COMPLETED, State.CANCELLED)
"""Nothing can change these any more."""
REPLAYABLE: Final = (State.FAILED, State.DEAD_LETTER)


class Trigger(StrEnum):
    SUBMIT = "submit"
    RELEASE = "dependencies met"
    PROPAGATE = "dependency ended so"
    DUE = "time reached"
    CLAIM = "claim"
    COMPLETE = "ack"
    RETRY = "failure, attempts remain"
    EXHAUST = "failure, no attempt remains"
    FAIL = "permanent failure"
    RECLAIM = "lease expired or worker dead"
    HAND_BACK = "hand-back"
    CANCEL = "cancel"
    LIFETIME = "lifetime exceeded"
    REPLAY = "replay"
    REVIVE = "its dependency is replayed"


@dataclass(frozen=True, slots=True)
class Transition:
    source: State | None
    target: State
    trigger: Trigger


def _rows() -> tuple[Transition, ...]:
    s, t = State, Trigger
    single = (
        (None, s.PENDING, t.SUBMIT),
        (s.PENDING, s.SCHEDULED, t.RELEASE),
        (s.PENDING, s.DELAYED, t.RELEASE),
        (s.PENDING, s.FAILED, t.PROPAGATE),
        (s.PENDING, s.DEAD_LETTER, t.PROPAGATE),
        (s.PENDING, s.CANCELLED, t.PROPAGATE),
        (s.DELAYED, s.SCHEDULED, t.DUE),
        (s.SCHEDULED, s.RUNNING, t.CLAIM),
        (s.RUNNING, s.COMPLETED, t.COMPLETE),
        (s.RUNNING, s.RETRYING, t.RETRY),
        (s.RUNNING, s.DEAD_LETTER, t.EXHAUST),
        (s.RUNNING, s.FAILED, t.FAIL),
        (s.RUNNING, s.SCHEDULED, t.RECLAIM),
        (s.RUNNING, s.DEAD_LETTER, t.RECLAIM),
        (s.RUNNING, s.SCHEDULED, t.HAND_BACK),
        (s.RUNNING, s.DELAYED, t.HAND_BACK),
        (s.RETRYING, s.SCHEDULED, t.DUE),
        (s.RETRYING, s.DEAD_LETTER, t.EXHAUST),
        (s.FAILED, s.SCHEDULED, t.REPLAY),
        (s.DEAD_LETTER, s.SCHEDULED, t.REPLAY),
        (s.FAILED, s.PENDING, t.REVIVE),
        (s.DEAD_LETTER, s.PENDING, t.REVIVE),
    )
    rows = [Transition(*row) for row in single]
    rows += [Transition(state, s.CANCELLED, t.CANCEL) for state in LIVE]
    rows += [Transition(state, s.DEAD_LETTER, t.LIFETIME) for state in LIVE]
    return tuple(rows)


TRANSITIONS: Final = _rows()
_ALLOWED: Final = frozenset((row.source, row.target, row.trigger) for row in TRANSITIONS)


def is_allowed(source: State | None, target: State, trigger: Trigger) -> bool:
    return (source, target, trigger) in _ALLOWED


def require_transition(job_id: UUID, source: State | None, target: State, trigger: Trigger) -> None:
    """Raise InvalidTransition unless the table has this row (STATE-2)."""
    if (source, target, trigger) not in _ALLOWED:
        raise InvalidTransition(job_id=job_id, source=source, target=target, trigger=trigger)


def mermaid() -> str:
    """The state diagram of the documentation, made from the table so that it cannot drift."""
    lines = ["stateDiagram-v2"]
    lines += [f"    {row.source or '[*]'} --> {row.target}: {row.trigger}" for row in TRANSITIONS]
    lines += [f"    {state} --> [*]" for state in TERMINAL]
    return "\n".join(lines)
