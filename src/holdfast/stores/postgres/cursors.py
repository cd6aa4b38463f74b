"""Where claims start: after the last job claimed, so that they never walk over the rows in front.

Somebody's long transaction keeps every deleted row alive, and jobs of types that this program does not know stay where
they are. A claim that starts at the beginning walks over all of them: this is where queues on SKIP LOCKED fall over. So
each lane (queue, priority and set of types) has a cursor, ``after``. A claim moves it to the last row it took or, in a
lane that it searched to the end, to the last row it saw, of whatever type. A claim that got less than it asked for has
searched all its lanes; any other, those before the last that it took from. Claims say what they saw once in a moment
(``LOOK_BACK_SECONDS``), and whenever they found nothing.

What commits late, or was locked when the cursor passed, lies behind the cursor. There are two ways back to it:

- After a claim that got less than it asked for, the next one starts where the cursor was a moment ago
  (``LOOK_BACK_SECONDS``). That finds submits that were under way at that moment, and costs the rows of a moment.
- Once a second, a refresh asks for the first row that can be seen behind ``floor``, beside the claims. If that row is
  behind the cursor, the cursor returns to it. When nothing is ahead of its floor, no refresh is owed.

How the floor rises. Whoever places a row in ``ready`` locks that table for writing before it draws the place, and keeps
the lock until it ends (POSTGRES-3). At time A we read the last place drawn and then who holds such a lock. At time B, a
second later, we read the holders again. If none of A's is among them, each has ended, and every row placed up to A's
place is visible or never will be: a commit becomes visible before its locks are released. So the floor of B is A's
place, or just before the first row of the lane that a snapshot taken after that shows, whichever comes first. Rows that
others have locked are shown, too: they may come back. No transaction's number is asked for, so a transaction that
reads, or that writes other tables, holds no floor back, however long it stays open. A prepared transaction has another
name than before, so while one holds the table no floor rises.

All this is true of one server and of places that only grow. So floors are forgotten when a connection is lost, when the
server is not the one asked before, and when the sequence is behind a cursor; and once a minute a refresh looks from the
beginning all the same.

CURSOR-1. No visible row of a lane's types lies at or below its floor.
CURSOR-2. A row behind the cursor is found within a second or, after a failover or a restore, within a minute.
CURSOR-3. An answer does not move a cursor that went back after its question was asked.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.core.priority import Priority
from holdfast.stores.postgres.rows import Row

REFRESH_SECONDS: Final = 1.0
SEARCH_SECONDS: Final = 60.0
"""How often a refresh looks from the beginning."""
LOOK_BACK_SECONDS: Final = 0.1
MOST_CLAIMS: Final = 100
"""Claims until refreshes, even if no cursor has moved: what other processes have left may lie in front of it."""
CLAIMS_A_READ: Final = 10
"""For how many claims a read of the queues counts there."""
MAX_READ_QUEUES: Final = 1000
REFRESHES_TO_PASS: Final = 2
"""One notes who might still place a row, the next raises the floors, and the cursors with them."""
MAX_LANES: Final = 50_000
PRIORITIES: Final = tuple(int(priority) for priority in Priority)
PREPARED: Final = "-1/"
"""How the names of prepared transactions begin."""

LaneName = tuple[str, int, tuple[str, ...] | None]
Columns = tuple[list[str], list[int], list[int]]


@dataclass(slots=True, eq=False)
class Lane:
    queue: str
    priority: int
    types: tuple[str, ...] | None
    floor: int = 0
    after: int = 0
    recent: int = 0
    """Where the cursor was a moment ago, and a moment before that."""
    past: int = 0
    returned: int = 0
    """The turn at which the cursor last went back."""
    is_short: bool = False
    """The last claim got less than it asked for."""
    is_asked: bool = False
    """A claim of this moment says what it saw."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A claim's lanes in its order, and where it starts."""

    lanes: list[Lane]
    starts: list[int]
    turn: int
    says_seen: bool
    """It is to say what it saw, even if it takes something."""

    @property
    def columns(self) -> Columns:
        return [lane.queue for lane in self.lanes], [lane.priority for lane in self.lanes], self.starts

    @property
    def is_ahead(self) -> bool:
        """Whether it may have overlooked something that a claim from a moment ago would find."""
        return any(start > _a_moment_ago(lane) for lane, start in zip(self.lanes, self.starts, strict=True))


@dataclass(frozen=True, slots=True)
class Holders:
    """Who could still place a row up to ``place``, when they were asked for."""

    place: int
    names: frozenset[str]
    server: object

    def have_ended(self, now: "Holders") -> bool:
        is_any_prepared = any(name.startswith(PREPARED) for name in now.names)
        return not is_any_prepared and not self.names & now.names


@dataclass(frozen=True, slots=True)
class Question:
    """What a refresh asks about: all lanes, with their cursors at that moment and where the search starts."""

    lanes: list[Lane]
    afters: list[int]
    starts: list[int]
    settled: int
    """Up to this place nothing can appear any more."""
    from_start_at: float | None
    turn: int

    @property
    def columns(self) -> Columns:
        return [lane.queue for lane in self.lanes], [lane.priority for lane in self.lanes], self.starts


class ClaimCursors:
    def __init__(self) -> None:
        self._lanes: dict[LaneName, Lane] = {}
        self._noted: Holders | None = None
        self._turn = 0
        self._rotated_at = -math.inf
        self._refreshed_at = -math.inf
        self._searched_at: float | None = None
        """When a refresh last looked from the beginning; None: the next one must."""
        self._claims = 0
        self._owed = 0
        """Refreshes, even if no cursor is ahead of its floor."""

    # claims

    def ask(self, queues: tuple[str, ...], types: tuple[str, ...] | None, *, monotonic: float) -> Asked:
        """Where a claim of these queues and types starts."""
        if monotonic - self._rotated_at >= LOOK_BACK_SECONDS:
            self._rotated_at = monotonic
            for lane in self._lanes.values():
                lane.past, lane.recent, lane.is_asked = lane.recent, lane.after, False
        if self._searched_at is None and not self._lanes:
            # Nothing has been passed by yet: the first claims look from the beginning themselves.
            self._searched_at = monotonic
        self._note_use(1)
        if len(self._lanes) > MAX_LANES:
            self._lanes.clear()
        # Not kept by queues: with weights, nearly every claim has an order of its own.
        lanes = [self._lane(queue, priority, types) for queue in queues for priority in PRIORITIES]
        starts = [_a_moment_ago(lane) if lane.is_short else lane.after for lane in lanes]
        return Asked(lanes, starts, self._turn, says_seen=types is not None and _ask_once(lanes))

    def _note_use(self, weight: int) -> None:
        self._claims += weight
        if self._claims >= MOST_CLAIMS:
            self._claims = 0
            self._owed = REFRESHES_TO_PASS

    def _lane(self, queue: str, priority: int, types: tuple[str, ...] | None) -> Lane:
        lane = self._lanes.get((queue, priority, types))
        if lane is None:
            lane = self._lanes[queue, priority, types] = Lane(queue, priority, types)
            self._owed = REFRESHES_TO_PASS
        return lane

    def took(self, asked: Asked, rows: Iterable[Row], *, is_short: bool) -> None:
        """Rows come in claim order, so the last of each lane is its furthest."""
        furthest = {(row["queue"], row["priority"]): row["place"] for row in rows}
        for lane in asked.lanes:
            lane.is_short = is_short
            place = furthest.get((lane.queue, lane.priority))
            if place is not None:
                _advance(lane, place, asked)

    def saw(self, asked: Asked, seen: Sequence[int | None]) -> None:
        """The last row of each lane, of whatever type; None where there is none, or the search ended before it."""
        for lane, place in zip(asked.lanes, seen, strict=True):
            if place is not None:
                _advance(lane, place, asked)

    # reads

    def floors(self) -> dict[str, int]:
        """Before which no job of any type waits, by priority and queue: for whoever looks for the oldest one."""
        return {
            f"{priority} {queue}": one.floor for (queue, priority, types), one in self._lanes.items() if types is None
        }

    def note_read(self, queues: Collection[str]) -> None:
        """Somebody looked for the oldest jobs of these queues, and will again."""
        if len(queues) <= MAX_READ_QUEUES:
            for queue in queues:
                for priority in PRIORITIES:
                    self._lane(queue, priority, None)
        self._note_use(CLAIMS_A_READ)

    # refreshes

    def is_refresh_owed(self, *, monotonic: float) -> bool:
        """Whether anything may be behind a cursor, or cursors may be behind what others have left."""
        if self._owed or self._is_search_due(monotonic):
            return bool(self._lanes)
        return any(lane.after > lane.floor for lane in self._lanes.values())

    def _is_search_due(self, monotonic: float) -> bool:
        return self._searched_at is None or monotonic - self._searched_at >= SEARCH_SECONDS

    def seconds_until_refresh(self, *, monotonic: float) -> float:
        return max(0.0, self._refreshed_at + REFRESH_SECONDS - monotonic)

    def note_refresh(self, *, monotonic: float) -> None:
        """It was tried, with success or without."""
        self._refreshed_at = monotonic
        self._owed = max(0, self._owed - 1)

    def furthest(self) -> int:
        return max((lane.after for lane in self._lanes.values()), default=0)

    def question(self, holders: Holders, *, furthest: int, monotonic: float) -> Question:
        """``furthest`` is that of before the holders were asked for."""
        if self._noted is not None and self._noted.server != holders.server:
            self.forget()
        elif holders.place < furthest:
            # The sequence was set back: by a restore, or a failover that lost the last moments.
            self.forget()
            self._go_back_to(holders.place)
        is_settled = self._noted is not None and self._noted.have_ended(holders)
        settled = self._noted.place if self._noted is not None and is_settled else 0
        self._noted = holders
        lanes = list(self._lanes.values())
        from_start_at = monotonic if self._is_search_due(monotonic) else None
        starts = [lane.floor if from_start_at is None else 0 for lane in lanes]
        return Question(lanes, [lane.after for lane in lanes], starts, settled, from_start_at, self._turn)

    def refresh(self, question: Question, first_places: Sequence[int | None]) -> set[str]:
        """Take in the first visible place of each lane. Returns the queues in which there is one.

        Not only those where it is behind the cursor: the cursor may have gone back for another row, and a claim have
        looked ahead of it before this one was committed.
        """
        if question.turn != self._turn:
            # Forgotten meanwhile: this is the answer of a server of before.
            return set()
        self._turn += 1
        if question.from_start_at is not None:
            self._searched_at = question.from_start_at
        for lane, after, first in zip(question.lanes, question.afters, first_places, strict=True):
            lane.floor = max(lane.floor, question.settled)
            if first is not None:
                lane.floor = min(lane.floor, first - 1)
                if first <= after:
                    self._return(lane, first - 1)
            if lane.after < lane.floor:
                lane.after = lane.floor
        return {lane.queue for lane, first in zip(question.lanes, first_places, strict=True) if first is not None}

    def forget(self) -> None:
        """What was known of the server need not be true any more."""
        self._turn += 1
        self._noted = None
        self._searched_at = None
        for lane in self._lanes.values():
            lane.floor = 0

    def _go_back_to(self, place: int) -> None:
        for lane in self._lanes.values():
            if lane.after > place:
                self._return(lane, place)

    def _return(self, lane: Lane, place: int) -> None:
        lane.after, lane.returned = place, self._turn
        lane.recent, lane.past = min(lane.recent, place), min(lane.past, place)


def _a_moment_ago(lane: Lane) -> int:
    return min(lane.after, max(lane.floor, lane.past))


def _ask_once(lanes: Sequence[Lane]) -> bool:
    """Whether one of them was not asked about in this moment."""
    if all(lane.is_asked for lane in lanes):
        return False
    for lane in lanes:
        lane.is_asked = True
    return True


def _advance(lane: Lane, place: int, asked: Asked) -> None:
    if lane.returned <= asked.turn and place > lane.after:
        lane.after = place


def of_types(lanes: Collection[Lane]) -> dict[tuple[str, ...] | None, list[int]]:
    """The positions of lanes by their types: what one statement can be asked about."""
    found: dict[tuple[str, ...] | None, list[int]] = {}
    for position, lane in enumerate(lanes):
        found.setdefault(lane.types, []).append(position)
    return found
