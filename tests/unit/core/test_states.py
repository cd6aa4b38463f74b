"""The transition table, written out once more by hand, so that a change of it is always meant."""

from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.core.errors import InvalidTransition
from holdfast.core.states import (
    DONE,
    LIVE,
    REPLAYABLE,
    TERMINAL,
    TRANSITIONS,
    WAITING,
    State,
    Trigger,
    is_allowed,
    mermaid,
    require_transition,
)

LIFECYCLE = Path(__file__).parents[3] / "docs" / "explanation" / "lifecycle.md"

ROWS = {
    ("-", "PENDING"),
    ("PENDING", "SCHEDULED"),
    ("PENDING", "DELAYED"),
    ("PENDING", "FAILED"),
    ("PENDING", "DEAD_LETTER"),
    ("PENDING", "CANCELLED"),
    ("DELAYED", "SCHEDULED"),
    ("SCHEDULED", "RUNNING"),
    ("RUNNING", "COMPLETED"),
    ("RUNNING", "RETRYING"),
    ("RUNNING", "DEAD_LETTER"),
    ("RUNNING", "FAILED"),
    ("RUNNING", "SCHEDULED"),
    ("RETRYING", "SCHEDULED"),
    ("RETRYING", "DEAD_LETTER"),
    ("DELAYED", "CANCELLED"),
    ("SCHEDULED", "CANCELLED"),
    ("RUNNING", "CANCELLED"),
    ("RETRYING", "CANCELLED"),
    ("DELAYED", "DEAD_LETTER"),
    ("SCHEDULED", "DEAD_LETTER"),
    ("FAILED", "SCHEDULED"),
    ("DEAD_LETTER", "SCHEDULED"),
    ("FAILED", "PENDING"),
    ("DEAD_LETTER", "PENDING"),
    ("RUNNING", "DELAYED"),  # docs/decisions/0001: a hand-back with a delay
}


def test_the_table_has_these_rows_and_no_other() -> None:
    assert {(row.source or "-", row.target) for row in TRANSITIONS} == ROWS


def test_no_row_stands_twice() -> None:
    assert len(set(TRANSITIONS)) == len(TRANSITIONS)


def test_every_trigger_is_used() -> None:
    assert {row.trigger for row in TRANSITIONS} == set(Trigger)


def test_final_states_are_left_only_by_replay() -> None:
    """STATE-3."""
    left = {(row.source, row.trigger) for row in TRANSITIONS if row.source in TERMINAL}
    assert left == {(state, trigger) for state in REPLAYABLE for trigger in (Trigger.REPLAY, Trigger.REVIVE)}


def test_running_is_entered_only_by_claim() -> None:
    """STATE-4."""
    assert [row.trigger for row in TRANSITIONS if row.target is State.RUNNING] == [Trigger.CLAIM]


def test_the_groups_divide_the_nine_states() -> None:
    assert set(LIVE) | set(TERMINAL) == set(State)
    assert not set(LIVE) & set(TERMINAL)
    assert set(DONE) | set(REPLAYABLE) == set(TERMINAL)
    assert set(WAITING) == set(LIVE) - {State.SCHEDULED, State.RUNNING}


@pytest.mark.parametrize("source", [None, *State])
@pytest.mark.parametrize("target", list(State))
def test_what_the_table_does_not_have_is_refused(source: State | None, target: State) -> None:
    """STATE-2."""
    for trigger in Trigger:
        if is_allowed(source, target, trigger):
            require_transition(uuid4(), source, target, trigger)
        else:
            with pytest.raises(InvalidTransition) as refusal:
                require_transition(uuid4(), source, target, trigger)
            assert (refusal.value.source, refusal.value.target) == (source, target)


def test_the_diagram_in_the_documentation_is_the_table() -> None:
    assert f"```mermaid\n{mermaid()}\n```" in LIFECYCLE.read_text(encoding="utf-8")
