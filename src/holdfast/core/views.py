"""What a job's state is called in the other four vocabularies: gRPC v1, leases, REST, tasks. One table.

A view never decides anything; it is how a surface names what the engine knows.
"""

from dataclasses import dataclass, replace
from typing import Final

from holdfast.core.states import State


@dataclass(frozen=True, slots=True)
class View:
    """One row: what each of them calls a state."""

    grpc: str
    lease: str
    rest: str
    task: str


VIEWS: Final[dict[State, View]] = {
    #                       grpc         lease        rest           task
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


def view_of(state: State, *, was_started: bool, is_handed_to_broker: bool = False) -> View:
    """``was_started``: gRPC v1 knows no way back, so such a job reads RUNNING until it has ended.

    ``is_handed_to_broker``: a task whose message lies with a broker is ENQUEUED.
    """
    view = VIEWS[state]
    if was_started and not state.is_terminal:
        view = replace(view, grpc=VIEWS[State.RUNNING].grpc)
    if is_handed_to_broker and state is State.SCHEDULED:
        view = replace(view, task="ENQUEUED")
    return view
