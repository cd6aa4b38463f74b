"""What a load generator notes while it runs, and the one JSON object that it becomes.

A closed loop's call counts if its answer came within the window; an open loop's if it was due within it, and its time
runs from when it was due, not from when it could be sent: a server that stalls is charged for all who had to wait.
Errors count wherever they happen, also outside the window.
"""

import time
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.designs.evaluation.histograms import Times
from holdfast.rpc.generated.taskqueue_public_pb2 import CANCELED, DONE, FAILED, GetJobStatusResponse

OPERATIONS: Final = ("submit", "status", "result")
ENDS: Final = {DONE: "done", FAILED: "failed", CANCELED: "canceled"}


@dataclass(slots=True, kw_only=True)
class Window:
    """Monotonic seconds, which all processes of a machine share."""

    opens_at: float
    closes_at: float
    wall_offset: float = field(default_factory=lambda: time.time() - time.monotonic())

    def has(self, at: float) -> bool:
        return self.opens_at <= at < self.closes_at

    def has_wall(self, wall_ms: int) -> bool:
        return self.has(wall_ms / 1000 - self.wall_offset)

    def wall_ms(self, at: float) -> float:
        return (at + self.wall_offset) * 1000


@dataclass(slots=True)
class Job:
    """One that was accepted."""

    job_id: str
    began_at: float
    """When its submit was sent, or due."""
    is_measured: bool
    end: str | None = None


class Tally:
    def __init__(self, window: Window, *, targets: int) -> None:
        self.window = window
        self.times = {name: array("Q") for name in OPERATIONS}
        self.lateness = array("Q")
        """How late an open loop's call was sent: the generator's own fault, part of the time."""
        self.errors: Counter[str] = Counter()
        self.sent = {name: [0] * targets for name in OPERATIONS}
        self.jobs: list[Job] = []
        self.done_times = array("Q")
        self.waits = array("Q")
        self.done_in_window = 0

    def note(self, operation: str, *, began_at: float, ended_at: float, counts: bool) -> None:
        if counts:
            self.times[operation].append(_microseconds(ended_at - began_at))

    def error(self, operation: str, code: str) -> None:
        self.errors[f"{operation} {code}"] += 1

    def end(self, job: Job, answer: GetJobStatusResponse) -> None:
        """A job has ended. Its times are the server's, in whole milliseconds; the clock is the machine's."""
        job.end = ENDS[answer.status]
        if job.end != "done":
            return
        self.done_in_window += self.window.has_wall(answer.finished_at_ms)
        if job.is_measured:
            took_ms = answer.finished_at_ms - self.window.wall_ms(job.began_at)
            self.done_times.append(max(0, round(took_ms * 1000)))
            self.waits.append(max(0, answer.started_at_ms - answer.created_at_ms) * 1000)

    def data(self) -> dict[str, Any]:
        ends = Counter(job.end or "unknown" for job in self.jobs)
        return {
            "times": {name: Times(values).encode() for name, values in self.times.items() if values},
            "calls": {name: len(values) for name, values in self.times.items()},
            "lateness": Times(self.lateness).encode(),
            "errors": dict(self.errors),
            "sent": self.sent,
            "accepted": len(self.jobs),
            "ends": dict(ends),
            "done_in_window": self.done_in_window,
            "submit_to_done": Times(self.done_times).encode(),
            "queue_wait": Times(self.waits).encode(),
        }


def _microseconds(seconds: float) -> int:
    return max(0, round(seconds * 1_000_000))
