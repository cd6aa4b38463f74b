"""How many shared calls are under way at a time: one, or as many as the store can take.

While one call is at the database the program can make the next. But two calls of five jobs cost both sides more than
one of ten: where there is nothing to overlap, because others need the processors, one at a time is faster. What is the
case depends on the machine and on what else runs there, so it is tried out, while there is no pause.

LANE-1. With a pause it begins again, with all lanes: a long call then holds up nobody.
LANE-2. The more often the other way was no better, the less often it is tried.
"""

import time
from collections.abc import Callable
from typing import Final

TRIAL_CALLS: Final = 100
FIRST_CALLS: Final = 300
MOST_CALLS: Final = 10_000
"""So many calls in the usual way before the other is tried: the first time, and at the most."""
MARGIN: Final = 1.05
"""How much faster the other way has to be to become the usual one."""


class Lanes:
    def __init__(self, most: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._usual_rate = 0.0
        """Submits a second, when the usual way was last measured."""
        self.note_pause()

    def note_call(self, submits: int) -> None:
        """One has ended."""
        self._submits += submits
        self._calls += 1
        if self._calls >= (self._usual_calls if self.count == self._usual else TRIAL_CALLS):
            self._compare(self._submits / max(self._clock() - self._started_at, 1e-9))

    def note_pause(self) -> None:
        """Nobody waited (LANE-1)."""
        self._usual = self._most
        self._usual_calls = FIRST_CALLS
        self._start(self._usual)

    def _compare(self, rate: float) -> None:
        if self.count == self._usual:
            self._usual_rate = rate
            self._start(1 + self._most - self._usual)
            return
        if rate > MARGIN * self._usual_rate:
            self._usual = self.count
            self._usual_calls = FIRST_CALLS
        else:
            self._usual_calls = min(2 * self._usual_calls, MOST_CALLS)
        self._start(self._usual)

    def _start(self, count: int) -> None:
        self.count = count
        self._started_at = self._clock()
        self._submits = 0
        self._calls = 0
