"""Waiting for a store that is away: longer each time, bounded, and said once."""

import asyncio
import logging
import random
from typing import Final

from holdfast.core.errors import HoldfastError

LOG: Final = logging.getLogger("holdfast.worker")
FIRST_SECONDS: Final = 0.05
LONGEST_SECONDS: Final = 2.0


class Patience:
    """For one piece of work that is repeated until it is done."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._next_seconds = FIRST_SECONDS

    @property
    def is_tried(self) -> bool:
        return self._next_seconds > FIRST_SECONDS

    async def wait(self, error: Exception) -> None:
        if not self.is_tried:
            self._warn(error)
        await asyncio.sleep(self._next_seconds * random.uniform(0.5, 1.0))
        self._next_seconds = min(self._next_seconds * 2, LONGEST_SECONDS)

    def _warn(self, error: Exception) -> None:
        if isinstance(error, HoldfastError):
            LOG.warning("%s: trying again: %s", self._what, error, extra={"event": "unavailable"})
        else:
            LOG.error("%s: trying again after an error", self._what, exc_info=error, extra={"event": "unavailable"})

    def done(self) -> None:
        if self.is_tried:
            LOG.info("%s: the store is back", self._what, extra={"event": "available"})
        self._next_seconds = FIRST_SECONDS
