"""A delivery that adds to what another one says, loses some of it or says it again, as DELIVERY-1 allows."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from holdfast.core.commands import Hint, Release
from holdfast.core.ports import Delivery

Change = Callable[[Sequence[Hint]], Sequence[Hint]]


class Rumours:
    """Hints added with ``say`` have a receipt of ours; what becomes of them is noted."""

    def __init__(self, delivery: Delivery, *, change: Change = list, delay_seconds: float = 0.0) -> None:
        self._delivery = delivery
        self._change = change
        self._delay_seconds = delay_seconds
        self._said: list[Hint] = []
        self._news = asyncio.Event()
        self.finished: list[Hint] = []
        self.released: list[Release] = []
        self.on_finish: Callable[[], None] = _nothing

    @property
    def tells_all(self) -> bool:
        return self._delivery.tells_all

    def say(self, *ids: UUID, queue: str | None = "default") -> Hint:
        hint = Hint(queue, ids, receipt=self)
        self.say_again(hint)
        return hint

    def say_again(self, hint: Hint) -> None:
        self._said.append(hint)
        self._news.set()

    async def open(self) -> None:
        await self._delivery.open()

    async def close(self) -> None:
        await self._delivery.close()

    async def receive(self, room: Mapping[str, int], *, limit: int, timeout_seconds: float) -> Sequence[Hint]:
        real = asyncio.ensure_future(self._delivery.receive(room, limit=limit, timeout_seconds=timeout_seconds))
        ours = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait([real, ours], return_when=asyncio.FIRST_COMPLETED)
            if real.done():
                await asyncio.sleep(self._delay_seconds)
                return self._change(real.result())
            self._news.clear()
            said, self._said = self._said, []
            return said
        finally:
            real.cancel()
            ours.cancel()
            await asyncio.gather(real, ours, return_exceptions=True)

    async def finish(self, hints: Sequence[Hint]) -> None:
        if ours := [hint for hint in hints if hint.receipt is self]:
            self.on_finish()
            self.finished += ours
        await self._delivery.finish([hint for hint in hints if hint.receipt is not self])

    async def release(self, releases: Sequence[Release]) -> None:
        self.released += [release for release in releases if release.hint.receipt is self]
        await self._delivery.release([release for release in releases if release.hint.receipt is not self])


def _nothing() -> None:
    """Nobody wants to know."""
