"""Where tick's search for marks that others left starts, so that dead ones are not walked over.

Nearly every mark is gone a moment after it came, removed by the call that left it. While somebody's snapshot keeps dead
rows from being vacuumed they pile up at the beginning. So a mark carries the number of its transaction, and a search
starts with the first number that may have come since the last one.

A mark that is committed later than OVERLAP_SECONDS after its transaction got its number may lie before the start. A
search from the beginning finds it, once in FULL_LOOK_SECONDS. Transactions are numbered by one server; after a failover
that lost some, numbers come again that were passed by. So after a lost connection the next search is from the
beginning, too.

A search goes on where the last tick's page ended, until it has seen all. What it finds is remembered until it was told:
what somebody holds is tried again before the next search, and stands in nobody's way. Beyond KEPT nothing is
remembered; the next search from the beginning finds it again.
"""

import itertools
import time
from collections import deque
from collections.abc import Collection, Sequence
from typing import Final

OVERLAP_SECONDS: Final = 5.0
FULL_LOOK_SECONDS: Final = 60.0
NOTE_SECONDS: Final = 1.0
KEPT: Final = 100_000
BEFORE_ALL_JOBS: Final = -(2**63)


class MarkSearch:
    def __init__(self) -> None:
        self._after = 0
        self._next_full_look = time.monotonic()
        self._notes: deque[tuple[float, int]] = deque()
        """When a number was the next to be given out."""
        self._began_at = 0.0
        self._is_full = False
        self._at: tuple[int, int] | None = None
        """The place and job up to which the search has come; None: the next one has not begun."""
        self._left: dict[int, None] = {}
        """The jobs that were found and not told yet, the one that was tried last at the end."""

    @property
    def is_under_way(self) -> bool:
        return self._at is not None

    def begin(self) -> tuple[int, int]:
        """The place and job behind which to look."""
        if self._at is None:
            self._began_at = time.monotonic()
            self._is_full = self._began_at >= self._next_full_look
            return (0 if self._is_full else self._after, BEFORE_ALL_JOBS)
        return self._at

    def found(self, marks: Sequence[tuple[int, int]], *, limit: int) -> list[int]:
        """A page of places and jobs. Returns the jobs that were not known."""
        if len(marks) < limit:
            self.finished()
        else:
            self._at = marks[-1]
        new = [job for _, job in marks if job not in self._left]
        self.put_off(new)
        return new

    def note(self, next_number: int) -> None:
        now = time.monotonic()
        if not self._notes or now - self._notes[-1][0] >= min(NOTE_SECONDS, OVERLAP_SECONDS):
            self._notes.append((now, next_number))

    def finished(self) -> None:
        """All were found that there were when the search began."""
        self._at = None
        if self._is_full:
            self._next_full_look = time.monotonic() + FULL_LOOK_SECONDS
        while self._notes and self._notes[0][0] <= self._began_at - OVERLAP_SECONDS:
            self._after = self._notes.popleft()[1]

    def forget(self) -> None:
        """The numbers may be those of another server."""
        self._after, self._at = 0, None
        self._notes.clear()
        self._next_full_look = time.monotonic()

    def owed(self, *, limit: int) -> list[int]:
        """What is to be tried again now."""
        return [] if self.is_under_way else list(itertools.islice(self._left, limit))

    def put_off(self, jobs: Collection[int]) -> None:
        for job in jobs:
            self._left.pop(job, None)
            if len(self._left) < KEPT:
                self._left[job] = None

    def told(self, jobs: Collection[int]) -> None:
        for job in jobs:
            self._left.pop(job, None)
