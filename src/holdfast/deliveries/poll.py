"""The delivery that needs nothing but the store: its hints say "look", and workers claim by queue.

A worker looks whenever the store has news of its queues, and otherwise once in its poll interval, because news can be
missed. No hint names a job, so there is nothing to finish or to release.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.core.commands import Hint, Release
from holdfast.core.ports import Store

LOOK: Final = (Hint(),)


class PollDelivery:
    tells_all: Final = False

    def __init__(self, store: Store) -> None:
        self._store = store

    async def open(self) -> None:
        """The store is open, or will be when it is asked."""

    async def close(self) -> None:
        """The store is not this delivery's to close."""

    async def receive(
        self,
        room: Mapping[str, int],
        *,
        limit: int,  # noqa: ARG002 - how many there are, the claim says
        timeout_seconds: float,
    ) -> Sequence[Hint]:
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._store.news.next(tuple(room))
        except TimeoutError:
            return ()
        return LOOK

    async def finish(self, hints: Sequence[Hint]) -> None:
        """Nothing is held."""

    async def release(self, releases: Sequence[Release]) -> None:
        """Nothing is held."""
