"""What a process remembers between two ticks, so that they stay cheap: where its searches start, and what may rest.

SWEEP-1. What the clock says may be wrong, and a row may become visible, or lose a stranger's lock, long after its time.
    So nothing that must happen rests on where a search starts: at least every ``FULL_SWEEP_SECONDS``, and at once when
    the database's clock went back or a connection was lost, a search starts from the beginning. (A standby that is
    promoted may have lost what was done about a row: it stands where it stood.)
SWEEP-2. A search counts as made only after the commit of what was done about it.
SWEEP-3. Retention looks at a job that must stay once, and then not for ``Retention.again_seconds``.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.stores.postgres.marks import MarkSearch

SWEEP_OVERLAP: Final = timedelta(minutes=1)
FULL_SWEEP_SECONDS: Final = 40.0
"""With the rest between two ticks, less than a minute."""
BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
END: Final = datetime(9999, 1, 1, tzinfo=UTC)

RETENTION_AGAIN_SECONDS: Final = 600.0
RETENTION_REST_SECONDS: Final = 10.0
RETENTION_LOOKS: Final = 10
"""How many jobs retention looks at in one tick, in batches."""

UNKNOWN_LEASES_SECONDS: Final = 30.0
MAX_WORKERS: Final = 1000

Monotonic = Callable[[], float]
Place = tuple[datetime, int]
"""A time, and how many of the jobs that ended at that very time to pass over: those of one batch ended at once."""
FIRST: Final[Place] = (BEGINNING, 0)


@dataclass(frozen=True, slots=True)
class Search:
    """One search of a tick: where it starts, and when that was decided."""

    start: datetime
    is_full: bool
    began: float


class Sweep:
    """Where the search for past times starts. What lies before was dealt with; dead rows there need not be walked."""

    def __init__(self, monotonic: Monotonic = time.monotonic) -> None:
        self._monotonic = monotonic
        self._until: datetime | None = None
        self._full_at: float | None = None
        self._full_until: datetime | None = None

    def begin(self) -> Search:
        monotonic = self._monotonic()
        if self._until is None or self._full_at is None or monotonic - self._full_at >= FULL_SWEEP_SECONDS:
            return Search(BEGINNING, is_full=True, began=monotonic)
        return Search(max(BEGINNING, self._until - SWEEP_OVERLAP), is_full=False, began=monotonic)

    def put_right(self, search: Search, now: datetime) -> Search:
        """A full one where the database's clock went back, or went on by more than a full sweep's time."""
        if search.is_full or self._until is None or self._full_until is None:
            return search
        if self._until <= now <= self._full_until + timedelta(seconds=FULL_SWEEP_SECONDS):
            return search
        return self.from_beginning()

    def from_beginning(self) -> Search:
        return Search(BEGINNING, is_full=True, began=self._monotonic())

    def finished(self, search: Search, now: datetime) -> None:
        """Everything up to ``now`` was found and dealt with."""
        self._until = now
        if search.is_full:
            self._full_at = search.began
            self._full_until = now

    def repeat(self) -> None:
        """The next search is a full one."""
        self._until = None


@dataclass(slots=True)
class Retention:
    """Where the search for jobs past their retention goes on, for one kind of end.

    It looks at a bounded number of jobs at a time. Where few of them may go, it rests before it looks at the next.
    After the last it waits for jobs that come of age, and begins again after ``again_seconds`` with those that had to
    stay.
    """

    monotonic: Monotonic = time.monotonic
    again_seconds: float = RETENTION_AGAIN_SECONDS
    rest_seconds: float = RETENTION_REST_SECONDS
    place: Place = FIRST
    _reached: tuple[float, datetime] | None = None
    _rests_until: float = 0.0

    def start(self) -> Place:
        """From where on to look; behind all jobs while it rests."""
        monotonic = self.monotonic()
        if self._reached is not None and monotonic - self._reached[0] >= self.again_seconds:
            self._restart()
        return (END, 0) if monotonic < self._rests_until else self.place

    def put_right(self, place: Place, now: datetime) -> Place:
        """By the database's clock, too, it may be time to begin again; or that clock went back."""
        if self._reached is None or timedelta(0) <= now - self._reached[1] < timedelta(seconds=self.again_seconds):
            return place
        self._restart()
        return self.place

    def _restart(self) -> None:
        self.place, self._reached, self._rests_until = FIRST, None, 0.0

    def looked(self, until: Place, *, is_worth_it: bool) -> None:
        """At as many jobs as a tick may look at."""
        self.place = until
        if not is_worth_it:
            self._rests_until = self.monotonic() + self.rest_seconds

    def reached(self, end: datetime, now: datetime) -> None:
        """All jobs that ended by this time were looked at."""
        self.place = (end + timedelta(microseconds=1), 0)
        if self._reached is None:
            self._reached = (self.monotonic(), now)


class Tally:
    """When the counts are worth adding up, and how long that may wait for the others to leave the table alone.

    Adding up takes the table for itself. Where it cannot have it (somebody's transaction has counted and is open), it
    rests, longer each time, so that the others are not held up for more than a moment now and then.
    """

    WORTH_BYTES: Final = 16 * 8192
    SHORTEST_WAIT_MILLISECONDS: Final = 5
    LONGEST_WAIT_MILLISECONDS: Final = 40
    SHORTEST_REST_SECONDS: Final = 2.0
    LONGEST_REST_SECONDS: Final = 60.0

    def __init__(self, monotonic: Monotonic = time.monotonic) -> None:
        self._monotonic = monotonic
        self._worth_bytes = self.WORTH_BYTES
        self._rests_until = 0.0
        self._refusals = 0

    def is_worth_it(self, size_bytes: int) -> bool:
        if size_bytes <= self.WORTH_BYTES:
            self._worth_bytes = self.WORTH_BYTES
        return size_bytes > self._worth_bytes and self._monotonic() >= self._rests_until

    def is_all_needed(self, size_bytes: int) -> None:
        """There are so many queues: look again when it has doubled."""
        self._worth_bytes = 2 * size_bytes

    @property
    def wait_milliseconds(self) -> int:
        return min(self.SHORTEST_WAIT_MILLISECONDS << min(self._refusals, 10), self.LONGEST_WAIT_MILLISECONDS)

    def tried(self, *, is_done: bool) -> None:
        rest = min(self.SHORTEST_REST_SECONDS * 2 ** min(self._refusals, 10), self.LONGEST_REST_SECONDS)
        self._refusals = 0 if is_done else self._refusals + 1
        self._rests_until = self._monotonic() + rest


class UnknownLeases:
    """Which workers' leases were compared with what they know, and when.

    It is done at every heartbeat where that is cheap (``heartbeat.extend`` decides), and every
    ``UNKNOWN_LEASES_SECONDS`` where it is not.
    """

    def __init__(self, monotonic: Monotonic = time.monotonic) -> None:
        self._monotonic = monotonic
        self._compared: dict[object, float] = {}

    def is_due(self, worker: object) -> bool:
        compared = self._compared.get(worker)
        return compared is None or self._monotonic() - compared >= UNKNOWN_LEASES_SECONDS

    def done(self, worker: object) -> None:
        if len(self._compared) >= MAX_WORKERS:
            self._compared.clear()
        self._compared[worker] = self._monotonic()


@dataclass(frozen=True, slots=True)
class Searches:
    """Where the searches of one tick start."""

    due: Search
    expired: Search
    orphaned: Search
    done_from: Place
    dead_from: Place

    def asks_for(self, part: str, asked: "Searches") -> bool:
        """Whether a part of tick has to run although the question, as it was asked, found nothing for it to do."""
        match part:
            case "due":
                return self.due is not asked.due
            case "expired":
                return self.expired is not asked.expired
            case "lost_workers":
                return self.orphaned.is_full
            case "retention":
                return self.done_from is not asked.done_from or self.dead_from is not asked.dead_from
        return False


@dataclass(slots=True)
class Sweeps:
    due: Sweep = field(default_factory=Sweep)
    expired: Sweep = field(default_factory=Sweep)
    orphaned: Sweep = field(default_factory=Sweep)
    """Leases without a live worker: found by walking over all of them."""
    done: Retention = field(default_factory=Retention)
    dead: Retention = field(default_factory=Retention)
    tally: Tally = field(default_factory=Tally)
    unknown: UnknownLeases = field(default_factory=UnknownLeases)
    marks: MarkSearch = field(default_factory=MarkSearch)
    ticked_at: datetime | None = None
    """The database's time at this process's last tick."""

    def forget(self) -> None:
        """What was found and dealt with may have been lost: the next searches are full ones."""
        for sweep in (self.due, self.expired, self.orphaned):
            sweep.repeat()
        self.marks.forget()

    def begin(self) -> Searches:
        return Searches(
            self.due.begin(), self.expired.begin(), self.orphaned.begin(), self.done.start(), self.dead.start()
        )

    def put_right(self, searches: Searches, now: datetime) -> Searches:
        """The same at the database's time, which is known only once it was asked."""
        return Searches(
            self.due.put_right(searches.due, now),
            self.expired.put_right(searches.expired, now),
            self.orphaned.put_right(searches.orphaned, now),
            self.done.put_right(searches.done_from, now),
            self.dead.put_right(searches.dead_from, now),
        )
