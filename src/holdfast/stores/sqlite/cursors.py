"""Where claims that name types start: after the jobs of other types, which stay where they are.

Each lane (queue, priority and set of types) has a cursor: up to it there is no job of these types that can be claimed.
A claim moves it to the last job it took and, in lanes that it has looked through, to the last job that is left. There
is one writer at a time, and places only grow with the commits, so nothing can come to stand behind a cursor, whichever
process writes it: a job that comes back takes a new place. So there is no floor, as there is on PostgreSQL.

Only what is committed counts: a claim notes how far it came, and the cursor moves when it is answered. All cursors
start again from the beginning when a claim finds that the last place is before one of them, and once a minute: a file
can be restored under an open store, and a clock that is set back makes jobs claimable that were over their lifetime.
"""

import time
from typing import Final

from holdfast.core.priority import Priority

SEARCH_SECONDS: Final = 60.0
MAX_LANES: Final = 50_000
FROM_START: Final = (0,) * len(Priority)

Types = tuple[str, ...] | None
LaneName = tuple[str, int, Types]


class ClaimCursors:
    """Asked on the writer's thread, moved on the caller's; each step reads or replaces one value."""

    def __init__(self) -> None:
        self._after: dict[LaneName, int] = {}
        self._furthest = 0
        self._searched_at = time.monotonic()

    def starts(self, queue: str, types: Types) -> tuple[int, ...]:
        """By priority."""
        if time.monotonic() - self._searched_at >= SEARCH_SECONDS or len(self._after) > MAX_LANES:
            self._forget()
        after = self._after
        return tuple([after.get((queue, priority, types), 0) for priority in range(len(Priority))])

    def are_ahead_of(self, last_place: int) -> bool:
        """Whether what they passed cannot be of this file; then they have forgotten it."""
        if last_place >= self._furthest:
            return False
        self._forget()
        return True

    def _forget(self) -> None:
        self._after, self._furthest, self._searched_at = {}, 0, time.monotonic()

    def advance(self, passed: dict[LaneName, int]) -> None:
        """After the commit of a claim."""
        for lane, place in passed.items():
            if place > self._after.get(lane, 0):
                self._after[lane] = place
                self._furthest = max(self._furthest, place)
