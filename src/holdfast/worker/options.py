"""What a worker is told: how much at once, from where, how long to finish."""

import os
import random
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from holdfast.core.checks import require_valid_queue
from holdfast.core.commands import Tick
from holdfast.core.errors import UsageError
from holdfast.core.limits import (
    DEFAULT_CONCURRENCY,
    DEFAULT_GRACE_SECONDS,
    DEFAULT_QUEUE,
    HEARTBEAT_SECONDS,
    MAX_CONCURRENCY,
    MAX_WORKER_NAME_CHARACTERS,
    POLL_SECONDS,
    TICK_SECONDS,
)

NAME_VARIABLE: Final = "WORKER_ID"

Queues = Sequence[str] | Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """``queues`` in order: the first one that has work comes first; or with weights: how often each comes first.

    ``limits`` bounds how many jobs of a queue this worker runs at a time.
    """

    concurrency: int = DEFAULT_CONCURRENCY
    queues: Queues = (DEFAULT_QUEUE,)
    limits: Mapping[str, int] = field(default_factory=dict)
    grace_seconds: float = DEFAULT_GRACE_SECONDS
    name: str | None = None
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    tick: Tick | None = Tick()  # noqa: RUF009 - frozen
    """What tick keeps and for how long; None: this worker runs neither tick nor cron."""
    tick_seconds: float = TICK_SECONDS
    poll_seconds: float = POLL_SECONDS

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= MAX_CONCURRENCY:
            raise UsageError(f"concurrency is {self.concurrency}; it must lie between 1 and {MAX_CONCURRENCY}")
        if isinstance(self.queues, str) or not self.queues:
            raise UsageError(f"queues is {self.queues!r}; write queues=['high', 'default']")
        for queue in self.queues:
            require_valid_queue(queue)
        if isinstance(self.queues, Mapping):
            _require_positive("weight", self.queues)
        _require_positive("limit", self.limits)
        for queue in self.limits:
            if queue not in self.queues:
                raise UsageError(f"limits names queue {queue!r}, which is not among the queues served")
        if self.grace_seconds < 0:
            raise UsageError(f"grace is {self.grace_seconds} s; it must not be negative")

    @property
    def queue_names(self) -> tuple[str, ...]:
        return tuple(self.queues)

    @property
    def worker_name(self) -> str:
        return (self.name or os.environ.get(NAME_VARIABLE) or socket.gethostname())[:MAX_WORKER_NAME_CHARACTERS]

    def in_claim_order(self) -> tuple[str, ...]:
        """The queues as the next claim should look at them; drawn again each time where there are weights."""
        if not isinstance(self.queues, Mapping):
            return tuple(self.queues)
        # Weighted order without replacement: u ** (1 / weight), largest first.
        drawn = {queue: random.random() ** (1 / weight) for queue, weight in self.queues.items()}
        return tuple(sorted(drawn, key=drawn.__getitem__, reverse=True))


def _require_positive(what: str, numbers: Mapping[str, int]) -> None:
    for queue, number in numbers.items():
        if type(number) is not int or number < 1:
            raise UsageError(f"the {what} of queue {queue!r} is {number!r}; write a whole number from 1 up")
