"""The other vocabularies for a job's state (D0, D2, D3, D4), each a view of the nine, in one table.

A view never decides anything; it is how a surface names what the engine knows.
"""

from dataclasses import dataclass
from typing import Final

from holdfast.core.states import State


@dataclass(frozen=True, slots=True)
class View:
    """One row: how the four documents call a state."""

    grpc: str
    lease: str
    rest: str
    task: str


VIEWS: Final[dict[State, View]] = {
    #                       D0 gRPC v1   D2           D3             D4
    State.PENDING: View("QUEUED", "Ready", "PENDING", "PENDING"),
    State.DELAYED: View("QUEUED", "Ready", "PENDING", "PENDING"),
    State.SCHEDULED: View("QUEUED", "Ready", "PENDING", "PENDING"),
    State.RETRYING: View("RUNNING", "Ready", "PENDING", "ENQUEUED"),
    State.RUNNING: View("RUNNING", "InFlight", "IN_PROGRESS", "PROCESSING"),
    State.COMPLETED: View("DONE", "Succeeded", "COMPLETED", "SUCCEEDED"),
    State.FAILED: View("FAILED", "Failed", "FAILED", "DEAD"),
    State.DEAD_LETTER: View("FAILED", "Failed", "FAILED", "DEAD"),
    State.CANCELLED: View("CANCELED", "Failed", "FAILED", "CANCELED"),
}


def grpc_status(state: State, *, was_started: bool) -> str:
    """D0: it knows no way back, so a job once started reads RUNNING until it is terminal."""
    if was_started and not state.is_terminal:
        return VIEWS[State.RUNNING].grpc
    return VIEWS[state].grpc


def lease_status(state: State) -> str:
    """D2."""
    return VIEWS[state].lease


def rest_status(state: State) -> str:
    """D3."""
    return VIEWS[state].rest


def task_status(state: State, *, is_handed_to_broker: bool) -> str:
    """D4: ENQUEUED once the message lies with a broker."""
    if state is State.SCHEDULED and is_handed_to_broker:
        return "ENQUEUED"
    return VIEWS[state].task
