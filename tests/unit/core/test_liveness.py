"""By when a job must have moved: core/liveness, LIVENESS-1 to LIVENESS-5."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.core.liveness import Owner, Standing, Timing, must_move_by, overdue_since
from holdfast.core.states import TERMINAL, State

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TIMING = Timing(tick_seconds=1.0, late_seconds=60.0, worker_timeout_seconds=15.0)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def standing(state: State, **facts: object) -> Standing:
    given: dict[str, object] = {"since": NOW, "lifetime_ends_at": at(1000), **facts}
    return Standing(state=state, **given)  # type: ignore[arg-type]


PENDING = standing(State.PENDING)
RUNNING = standing(State.RUNNING, expires_at=at(300), owner_seen_at=at(290))


@pytest.mark.parametrize(
    ("one", "bound"),
    [
        (PENDING, 1060),
        (replace(PENDING, waits=False), 0),
        (replace(PENDING, dependency_ended_at=at(10)), 70),
        (replace(PENDING, dependency_ended_at=at(10), has_mark=False), 10),
        (replace(PENDING, dependency_ended_at=at(5000)), 1060),
        (standing(State.DELAYED, due_at=at(100)), 160),
        (standing(State.DELAYED, due_at=at(100), committed_at=at(100)), 101),
        (standing(State.RETRYING, due_at=at(100), committed_at=at(101)), 161),
        (standing(State.RETRYING, due_at=at(5000)), 1060),
        (standing(State.SCHEDULED), 1060),
        (standing(State.SCHEDULED, is_passed_by=True), 60),
        (RUNNING, 360),
        (replace(RUNNING, lifetime_ends_at=at(200)), 260),
        (replace(RUNNING, owner=Owner.UNKNOWN, owner_seen_at=None), 60),
        (replace(RUNNING, owner=Owner.LOST, owner_seen_at=at(20)), 95),
        (replace(RUNNING, owner=Owner.LOST, owner_seen_at=at(-500)), 60),
        (replace(RUNNING, owner_seen_at=at(20)), 110),
    ],
)
def test_a_job_must_have_moved_by_its_bound(one: Standing, bound: float) -> None:
    assert must_move_by(one, timing=TIMING) == at(bound)
    assert overdue_since(one, now=at(bound - 0.001), timing=TIMING) is None
    assert overdue_since(one, now=at(bound), timing=TIMING) == at(bound)


@pytest.mark.parametrize("state", TERMINAL)
def test_nobody_has_to_move_what_has_ended(state: State) -> None:
    with pytest.raises(ValueError, match="has ended"):
        must_move_by(standing(state))
