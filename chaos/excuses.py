"""What excuses a job that stands past its bound: all of it is stated here, and faults say here when it begins and ends.

EXCUSE-1. The store cannot be asked, or nobody can write: the server was killed or cannot be reached, connections were
    ended, a migration has the tables for itself, the disk under the file is full, somebody's transaction has the file.
    Nobody is late while it lasts, nor for one worker timeout after it: that much the outage rule gives to everybody.
    The watch itself notices a store that does not answer, and a store's clock that jumped, which looks like a gap to
    ticks.
EXCUSE-2. A row that the fault ``held-transaction`` has locked delays its own job, while it is locked. Afterwards the
    job has the bound of whatever became visible late. No other job is excused.
EXCUSE-3. A worker that is stopped, stalled, slowed, cut off or told to end is nobody who could claim or tick, and not
    for as long after it as a statement may hang in a dead connection. The job of a type that no other worker serves
    waits for it; any other does not. A worker that was killed needs no excuse: its heartbeats end.

A worker that is busy, or runs as many jobs of a queue as it may, is no excuse but a fact of the bound (``overdue``).
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from chaos import scale

Monotonic = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What holds at one moment."""

    away_until: float = float("-inf")
    """The store was away until then, or is away now."""
    locked: frozenset[UUID] = frozenset()
    impaired: frozenset[str] = frozenset()
    """Workers, by name."""

    def joined(self, other: "Circumstances") -> "Circumstances":
        """Whatever held before a look or after it may have held while it was made."""
        return Circumstances(
            away_until=max(self.away_until, other.away_until),
            locked=self.locked | other.locked,
            impaired=self.impaired | other.impaired,
        )


class Excuses:
    def __init__(self, monotonic: Monotonic = time.monotonic) -> None:
        self._monotonic = monotonic
        self._away = 0
        self._away_until = float("-inf")
        self._locked: Counter[UUID] = Counter()
        self._impaired: Counter[str] = Counter()
        self._impaired_until: dict[str, float] = {}

    def note_outage(self) -> None:
        """EXCUSE-1, in a moment that is already over."""
        self._away_until = self._monotonic()

    @contextmanager
    def away(self) -> Iterator[None]:
        """EXCUSE-1."""
        self._away += 1
        try:
            yield
        finally:
            self._away -= 1
            self.note_outage()

    @contextmanager
    def locked(self, job_ids: Iterable[UUID]) -> Iterator[None]:
        """EXCUSE-2."""
        ids = list(job_ids)
        self._locked.update(ids)
        try:
            yield
        finally:
            self._locked.subtract(ids)

    @contextmanager
    def impaired(self, worker: str) -> Iterator[None]:
        """EXCUSE-3."""
        self._impaired[worker] += 1
        try:
            yield
        finally:
            self._impaired[worker] -= 1
            self._impaired_until[worker] = self._monotonic() + scale.COMMAND_SECONDS

    def now(self) -> Circumstances:
        monotonic = self._monotonic()
        late = {name for name, until in self._impaired_until.items() if until > monotonic}
        return Circumstances(
            away_until=monotonic if self._away else self._away_until,
            locked=frozenset(job_id for job_id, count in self._locked.items() if count > 0),
            impaired=frozenset(late | {name for name, count in self._impaired.items() if count > 0}),
        )
