"""Where claims start: after the last job claimed, so that they never walk over the dead rows in front.

Somebody's long transaction keeps every deleted row alive, and a claim that starts at the beginning walks over all of
them: this is where queues on SKIP LOCKED fall over. So each lane (queue and priority) has a cursor, ``after``. What
commits late, or was locked when the cursor passed, lies behind it; once a second, and whenever a claim comes back
short, the cursor returns to ``floor``, behind which nothing can be.

How the floor rises: at time A we note the cursor and the next transaction's number. When, at time B, every transaction
below that number has ended, every row ever placed up to the cursor of A is either visible or never will be: a
transaction has its number before it draws a place, and places only grow. So the floor of B is the cursor of A, or just
before the first row that is still visible, whichever comes first. That read sees locked rows, too: they may come back.
A transaction that only reads has no number, so a pinned snapshot does not hold the floor back.

C1. No visible row lies at or below a lane's floor.
C2. A row behind the cursor is found within a second, or as soon as the lane runs short.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.core.priority import Priority
from holdfast.stores.postgres.rows import Row

REFRESH_SECONDS: Final = 1.0
MAX_QUEUE_SETS: Final = 1000
"""Workers that rotate their queues claim with many orders of the same ones."""

LaneName = tuple[str, int]
Columns = tuple[list[str], list[int], list[int]]


@dataclass(slots=True)
class Lane:
    floor: int = 0
    after: int = 0
    noted_after: int = 0
    noted_transaction: int | None = None


@dataclass(slots=True)
class Served:
    """The lanes of a set of queues, in claim order."""

    queues: list[str]
    priorities: list[int]
    lanes: list[Lane]


class ClaimCursors:
    def __init__(self) -> None:
        self._of_queues: dict[tuple[str, ...], Served] = {}
        self._lanes: dict[LaneName, Lane] = {}
        self._refreshed_at: dict[tuple[str, ...], float] = {}

    def columns(self, queues: Sequence[str], *, from_start: bool = False) -> Columns:
        """The lanes of these queues in claim order, with where to start in each."""
        served = self._served(queues)
        starts = [0] * len(served.lanes) if from_start else [lane.after for lane in served.lanes]
        return served.queues, served.priorities, starts

    def _served(self, queues: Sequence[str]) -> "Served":
        key = tuple(queues)
        if key not in self._of_queues:
            if len(self._of_queues) >= MAX_QUEUE_SETS:
                self._of_queues.clear()
            names = [(queue, int(priority)) for queue in queues for priority in Priority]
            self._of_queues[key] = Served(
                [name[0] for name in names], [name[1] for name in names], [self._lane(name) for name in names]
            )
        return self._of_queues[key]

    def _lane(self, name: LaneName) -> Lane:
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = Lane()
        return lane

    def advance(self, rows: Iterable[Row]) -> None:
        """Rows come in claim order, so the last of each lane is its furthest."""
        furthest = {(row["queue"], row["priority"]): row["place"] for row in rows}
        for name, place in furthest.items():
            lane = self._lane(name)
            lane.after = max(lane.after, place)

    def is_ahead(self, queues: Sequence[str]) -> bool:
        """Whether any lane's cursor is past its floor, so that a claim may have overlooked something."""
        return any(lane.after > lane.floor for lane in self._served(queues).lanes)

    def go_back(self, queues: Sequence[str]) -> None:
        for lane in self._served(queues).lanes:
            lane.after = lane.floor

    def is_refresh_due(self, queues: tuple[str, ...], *, monotonic: float) -> bool:
        last = self._refreshed_at.get(queues)
        if last is None:
            if len(self._refreshed_at) >= MAX_QUEUE_SETS:
                self._refreshed_at.clear()
            self._refreshed_at[queues] = monotonic
            return False
        return monotonic - last >= REFRESH_SECONDS and self.is_ahead(queues)

    def floors(self, queues: Sequence[str]) -> Columns:
        served = self._served(queues)
        return served.queues, served.priorities, [lane.floor for lane in served.lanes]

    def refresh(self, queues: tuple[str, ...], rows: Iterable[Row], *, monotonic: float) -> None:
        """Take in the answer of claim_floor.sql."""
        self._refreshed_at[queues] = monotonic
        for row in rows:
            lane = self._lane((row["queue"], row["priority"]))
            if lane.noted_transaction is not None and row["oldest_open"] >= lane.noted_transaction:
                first = row["first_place"]
                reachable = lane.noted_after if first is None else min(lane.noted_after, first - 1)
                lane.floor = max(lane.floor, reachable)
            lane.noted_after = lane.after
            lane.noted_transaction = row["next_transaction"]
            lane.after = lane.floor
