"""By when somebody must have moved a job that has not ended, and since when it is overdue.

The one place that says what "overdue" means: ``holdfast doctor`` and the conformance suite ask here. Who does the
moving, through which index, and who does it instead if that process dies stands as a table in ``README.md``.

Times are those that are written in the rows. A transaction may be committed long after the times it wrote, and nothing
in a row says when. So a job that is overdue at one look may just have come to light; one that is still overdue a minute
later is stuck. Whoever looks at a live database looks twice.

LIVENESS-1. Every job that is not terminal has a bound: its lifetime, if nothing else.
LIVENESS-2. A PENDING job whose dependency has ended is told of it by whoever consumes the mark. Without a mark nobody
    is bound to: then it is overdue from that end on; and one that waits for nothing, since it came to stand so.
LIVENESS-3. DELAYED and RETRYING end within a second of their time where they were committed by then, else within a
    minute of the commit.
LIVENESS-4. SCHEDULED has a bound only while claims pass it by: with nobody to serve it, behind others or in a paused
    queue it may wait as long as its lifetime allows.
LIVENESS-5. RUNNING is found from its lease, whatever became of its worker's row.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, assert_never

from holdfast.core import limits
from holdfast.core.states import State

TICK_SECONDS: Final = 1.0
"""Within which tick moves what it can see when its time comes."""
LATE_SECONDS: Final = 60.0
"""Within which everything else is found: what was committed late, left behind by a crash, or held by somebody."""


class Owner(StrEnum):
    """What is known of the worker that holds a lease."""

    KNOWN = "KNOWN"
    LOST = "LOST"
    """It was given up for lost."""
    UNKNOWN = "UNKNOWN"
    """It has no row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    tick_seconds: float = TICK_SECONDS
    late_seconds: float = LATE_SECONDS
    worker_timeout_seconds: float = limits.WORKER_TIMEOUT_SECONDS


DEFAULT_TIMING: Final = Timing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What must be known of a job that has not ended. Facts that its state does not have stay as they are."""

    state: State
    since: datetime
    """When it came to stand so, as its transaction wrote it: a claim, a release, a failure."""
    lifetime_ends_at: datetime
    committed_at: datetime | None = None
    """When that transaction was committed, where somebody knows."""
    due_at: datetime | None = None
    waits: bool = True
    """PENDING: it has an open edge."""
    dependency_ended_at: datetime | None = None
    """PENDING: the first end of a dependency that it has not been told of."""
    has_mark: bool = True
    """PENDING: that dependency's mark is there."""
    is_passed_by: bool = False
    """SCHEDULED: a worker that is alive and takes such jobs holds one that came later, or none at all."""
    expires_at: datetime | None = None
    owner: Owner = Owner.KNOWN
    owner_seen_at: datetime | None = None


def overdue_since(standing: Standing, *, now: datetime, timing: Timing = DEFAULT_TIMING) -> datetime | None:
    """The bound that has passed; None where there is still time."""
    bound = must_move_by(standing, timing=timing)
    return bound if bound <= now else None


def must_move_by(standing: Standing, *, timing: Timing = DEFAULT_TIMING) -> datetime:
    late = timedelta(seconds=timing.late_seconds)
    lifetime = standing.lifetime_ends_at + late
    match standing.state:
        case State.PENDING:
            return min(lifetime, _told_by(standing, late=late) or lifetime)
        case State.DELAYED | State.RETRYING:
            return min(lifetime, _due_by(standing, timing))
        case State.SCHEDULED:
            return min(lifetime, standing.since + late) if standing.is_passed_by else lifetime
        case State.RUNNING:
            return min(lifetime, _reclaimed_by(standing, timing))
        case State.COMPLETED | State.FAILED | State.DEAD_LETTER | State.CANCELLED:
            raise ValueError(f"a job that is {standing.state} has ended: nobody has to move it")
        case _:
            assert_never(standing.state)


def _told_by(standing: Standing, *, late: timedelta) -> datetime | None:
    if not standing.waits:
        return standing.since
    if standing.dependency_ended_at is None:
        return None
    return standing.dependency_ended_at + (late if standing.has_mark else timedelta(0))


def _due_by(standing: Standing, timing: Timing) -> datetime:
    assert standing.due_at is not None
    late = timedelta(seconds=timing.late_seconds)
    if standing.committed_at is None:
        return standing.due_at + late
    if standing.committed_at <= standing.due_at:
        return standing.due_at + timedelta(seconds=timing.tick_seconds)
    return standing.committed_at + late


def _reclaimed_by(standing: Standing, timing: Timing) -> datetime:
    assert standing.expires_at is not None
    late = timedelta(seconds=timing.late_seconds)
    timeout = timedelta(seconds=timing.worker_timeout_seconds)
    bounds = [standing.expires_at + late]
    match standing.owner:
        case Owner.UNKNOWN:
            bounds.append(standing.since + late)
        case Owner.LOST:
            # A claim that ran beside its worker's loss is younger than that.
            lost_at = standing.owner_seen_at + timeout if standing.owner_seen_at is not None else standing.since
            bounds.append(max(lost_at, standing.since) + late)
        case Owner.KNOWN:
            # After an outage silence counts one timeout later.
            if standing.owner_seen_at is not None:
                bounds.append(standing.owner_seen_at + 2 * timeout + late)
        case _:
            assert_never(standing.owner)
    return min(bounds)
