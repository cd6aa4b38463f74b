"""Waiting for a store that is away: longer each time, bounded, and said a few times.

A store that is away makes everything fail at once, again and again: heartbeat, tick, claim, settle. All of them report
to one ``Outage``, which says so at once, then less and less often, and says when all of them work again.
"""

import asyncio
import logging
import random
import time
from threading import Lock
from typing import Final

from holdfast.core.errors import HoldfastError

LOG: Final = logging.getLogger("holdfast.worker")
FIRST_SECONDS: Final = 0.05
LONGEST_SECONDS: Final = 2.0
SAID_AFTER_SECONDS: Final = (5.0, 30.0)
SAID_EVERY_SECONDS: Final = 60.0
"""An outage is spoken of when it begins, after these times, and then once a minute."""
FORGOTTEN_SECONDS: Final = 90.0
"""What has not failed again for longer than a statement may hang is not counted as failing any more."""


class Outage:
    """What does not work at the moment, and when that was last said. Any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._failed_at: dict[str, float] = {}
        self._began_at = 0.0
        self._said = 0

    def note_failure(self, what: str, error: Exception) -> None:
        now = time.monotonic()
        with self._lock:
            self._forget_old(now)
            if not self._failed_at:
                self._began_at, self._said = now, 0
            self._failed_at[what] = now
            lasted = now - self._began_at
            is_due = lasted >= _said_after(self._said)
            if is_due:
                self._said = max(self._said + 1, _times_due(lasted))
        if is_due:
            self._say(what, error, lasted)

    def note_success(self, what: str) -> None:
        if what not in self._failed_at:
            return
        now = time.monotonic()
        with self._lock:
            self._forget_old(now)
            is_over = self._failed_at.pop(what, None) is not None and not self._failed_at
            lasted = now - self._began_at
        if is_over:
            LOG.info("the store is back after %.1f s", lasted, extra={"event": "available"})

    def _forget_old(self, now: float) -> None:
        """What was given up in the meantime: a checkpoint of a handler that has ended, say."""
        for what in [what for what, at in self._failed_at.items() if now - at > FORGOTTEN_SECONDS]:
            del self._failed_at[what]

    def _say(self, what: str, error: Exception, lasted: float) -> None:
        how_long = f" (for {lasted:.0f} s)" if lasted >= 1.0 else ""
        if isinstance(error, HoldfastError | TimeoutError):
            reason = str(error) or "no answer"
            LOG.warning("%s: trying again%s: %s", what, how_long, reason, extra={"event": "unavailable"})
        else:
            LOG.error(
                "%s: trying again after an error%s", what, how_long, exc_info=error, extra={"event": "unavailable"}
            )


def _said_after(times: int) -> float:
    """How long an outage has to last before it is spoken of again, having been so often."""
    if times == 0:
        return 0.0
    if times <= len(SAID_AFTER_SECONDS):
        return SAID_AFTER_SECONDS[times - 1]
    return SAID_EVERY_SECONDS * (times - len(SAID_AFTER_SECONDS))


def _times_due(lasted: float) -> int:
    """How often it would have been spoken of by now: what was missed is not made up for."""
    return 1 + sum(lasted >= seconds for seconds in SAID_AFTER_SECONDS) + int(lasted // SAID_EVERY_SECONDS)


class Patience:
    """For one piece of work that is repeated until it is done."""

    def __init__(self, what: str, outage: Outage | None = None) -> None:
        self._what = what
        self._outage = outage or Outage()
        self._mistakes = Outage()
        """Of errors that no store should raise: never hidden behind an outage."""
        self._next_seconds = FIRST_SECONDS

    @property
    def is_tried(self) -> bool:
        return self._next_seconds > FIRST_SECONDS

    async def wait(self, error: Exception) -> None:
        outage = self._outage if isinstance(error, HoldfastError | TimeoutError) else self._mistakes
        outage.note_failure(self._what, error)
        await asyncio.sleep(self._next_seconds * random.uniform(0.5, 1.0))
        self._next_seconds = min(self._next_seconds * 2, LONGEST_SECONDS)

    def done(self) -> None:
        if self.is_tried:
            self._outage.note_success(self._what)
            self._mistakes.note_success(self._what)
        self._next_seconds = FIRST_SECONDS
