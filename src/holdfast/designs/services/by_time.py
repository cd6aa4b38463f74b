"""Job IDs in the order in which they were created, for pages.

One index a status. It is kept in order in pieces, so that a job can be put in, taken out and counted without touching
more than one piece: a page costs about the same in a table of a hundred jobs and of a million, and nothing is ever
sorted as a whole.

The order is the contract's: by time, up or down, and within a millisecond by job_id, ascending in both.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Final

PIECE: Final = 1000

Entry = tuple[int, str]
"""(created_at_ms, job_id)"""


class ByTime:
    def __init__(self) -> None:
        self._pieces: list[list[Entry]] = []
        self._lasts: list[Entry] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, entry: Entry) -> None:
        self._count += 1
        if not self._lasts or (entry > self._lasts[-1] and len(self._pieces[-1]) >= PIECE):
            self._pieces.append([entry])
            self._lasts.append(entry)
            return
        at = min(bisect_left(self._lasts, entry), len(self._pieces) - 1)
        piece = self._pieces[at]
        insort(piece, entry)
        if len(piece) > 2 * PIECE:
            self._pieces[at : at + 1] = [piece[:PIECE], piece[PIECE:]]
            self._lasts[at : at + 1] = [piece[PIECE - 1], piece[-1]]
        else:
            self._lasts[at] = piece[-1]

    def remove(self, entry: Entry) -> None:
        at = bisect_left(self._lasts, entry)
        piece = self._pieces[at]
        place = bisect_left(piece, entry)
        assert piece[place] == entry
        del piece[place]
        self._count -= 1
        if piece:
            self._lasts[at] = piece[-1]
        else:
            del self._pieces[at], self._lasts[at]

    def span(self) -> tuple[int, int]:
        """The times of the first and the last one; there must be one."""
        return self._pieces[0][0][0], self._lasts[-1][0]

    def count_before(self, time_ms: int) -> int:
        at, place = self._find(time_ms)
        return sum(map(len, self._pieces[:at])) + place

    def up_from(self, time_ms: int) -> Iterator[Entry]:
        at, place = self._find(time_ms)
        for piece in islice(self._pieces, at, None):
            yield from islice(piece, place, None)
            place = 0

    def down_from(self, time_ms: int) -> Iterator[Entry]:
        """Times go down from this one; the IDs of one time go up."""
        same: list[Entry] = []
        for entry in self._reversed_before(time_ms + 1):
            if same and same[-1][0] != entry[0]:
                yield from reversed(same)
                same = []
            same.append(entry)
        yield from reversed(same)

    def _reversed_before(self, time_ms: int) -> Iterator[Entry]:
        at, place = self._find(time_ms)
        if place:
            yield from reversed(self._pieces[at][:place])
        for piece in reversed(self._pieces[:at]):
            yield from reversed(piece)

    def _find(self, time_ms: int) -> tuple[int, int]:
        """Piece and place of the first one that is not before this time."""
        least = (time_ms, "")
        at = bisect_left(self._lasts, least)
        return at, bisect_left(self._pieces[at], least) if at < len(self._pieces) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    job_ids: list[str]
    next_offset: int | None


def page_of(indexes: Sequence[ByTime], *, offset: int, size: int, is_descending: bool) -> Page:
    """``size`` jobs of all these indexes together, from the ``offset``-th on."""
    filled = [index for index in indexes if len(index)]
    total = sum(map(len, filled))
    if offset >= total:
        return Page(job_ids=[], next_offset=None)
    entries, skipped = (_down if is_descending else _up)(filled, offset)
    ids = [job_id for _, job_id in islice(entries, offset - skipped, offset - skipped + size)]
    behind = offset + len(ids)
    return Page(job_ids=ids, next_offset=behind if behind < total else None)


def _up(indexes: Sequence[ByTime], offset: int) -> tuple[Iterator[Entry], int]:
    """From the time of the ``offset``-th one up, and how many lie before that time."""

    def count_to(time_ms: int) -> int:
        return sum(index.count_before(time_ms + 1) for index in indexes)

    first = min(index.span()[0] for index in indexes)
    last = max(index.span()[1] for index in indexes)
    time_ms = first + bisect_right(range(first, last), offset, key=count_to) if offset else first
    return merge(*(index.up_from(time_ms) for index in indexes)), count_to(time_ms - 1)


def _down(indexes: Sequence[ByTime], offset: int) -> tuple[Iterator[Entry], int]:
    """From the time of the ``offset``-th one down, and how many lie behind that time."""
    total = sum(map(len, indexes))

    def count_from(negative_ms: int) -> int:
        return total - sum(index.count_before(-negative_ms) for index in indexes)

    first = min(index.span()[0] for index in indexes)
    last = max(index.span()[1] for index in indexes)
    time_ms = last - bisect_right(range(-last, -first), offset, key=count_from) if offset else last
    entries = merge(*(index.down_from(time_ms) for index in indexes), key=_time_down)
    return entries, count_from(-(time_ms + 1))


def _time_down(entry: Entry) -> Entry:
    return -entry[0], entry[1]
