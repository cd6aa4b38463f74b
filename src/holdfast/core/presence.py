"""When a worker's process counts as dead: its proof of life is gone, and did not come back.

A store may have a proof that a process lives, which ends with the process: its session at PostgreSQL, or its lock on a
file beside SQLite's. A process that lives can lose its proof for a moment, when somebody terminates its session. So the
proof has to stay away for a while (``GONE_PART`` of the worker timeout), and whoever watches must have looked all the
time. A process that cannot prove itself again stops its handlers before that (``SILENT_PART`` in ``worker/pulse``).

Where there is no proof, or death cannot be told from a network that is down, silence for the whole worker timeout is
the rule.

PRESENCE-1. Only a proof that was away at every look of one watcher, for the whole time, makes its worker dead.
PRESENCE-2. A watcher that did not look for that long, or whose own session was broken, begins again. After a broken
    session it waits for a worker timeout first, because what broke it has most likely broken the others' proofs as
    well.
"""

import math
from collections.abc import Collection
from typing import Final
from uuid import UUID

GONE_PART: Final = 1 / 6
"""Of the worker timeout: how long a proof has to be away."""
LOOK_PART: Final = 1 / 10
"""Of the worker timeout: how often a watcher looks. The two together are less than a third of it."""
SUSPICIOUS_PART: Final = GONE_PART / 4
"""How often while a proof is away."""
LONE_PART: Final = 4.0
"""How often while there is nobody else: a worker that has nothing to watch costs next to nothing. Its ticks say when
somebody has come."""


class Absences:
    """What one watcher has seen of others' proofs, without a break."""

    def __init__(self, *, worker_timeout_seconds: float, counts_from: float) -> None:
        self._timeout_seconds = worker_timeout_seconds
        self._window_seconds = GONE_PART * worker_timeout_seconds
        self._counts_from = counts_from
        self._looked_at = -math.inf
        self._since: dict[UUID, float] = {}

    def seconds_until_look(self, *, is_alone: bool) -> float:
        part = SUSPICIOUS_PART if self._since else LONE_PART if is_alone else LOOK_PART
        return part * self._timeout_seconds

    def saw(self, absent: Collection[UUID], *, monotonic: float) -> list[UUID]:
        """Whose proofs are away now. Returns those that are dead."""
        if monotonic - self._looked_at > self._window_seconds:
            # Somebody may have been back in between.
            self._since.clear()
        self._looked_at = monotonic
        now = max(monotonic, self._counts_from)
        self._since = {worker: self._since.get(worker, now) for worker in absent}
        return [worker for worker, since in self._since.items() if monotonic - since >= self._window_seconds]
