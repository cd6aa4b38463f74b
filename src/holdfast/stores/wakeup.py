"""News inside a process (``core.ports.News``): a commit wakes whoever waits for work in its queues."""

import asyncio
from collections.abc import Iterable, Sequence


class Wakeups:
    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def wake(self, queues: Iterable[str]) -> None:
        """Only from the loop that waits; elsewhere, through ``loop.call_soon_threadsafe``."""
        for queue in queues:
            for future in self._waiting.pop(queue, ()):
                if not future.done():
                    future.set_result(None)

    def wake_all(self) -> None:
        self.wake(list(self._waiting))

    @property
    def is_awaited(self) -> bool:
        return bool(self._waiting)

    async def next(self, queues: Sequence[str]) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for queue in queues:
            self._waiting.setdefault(queue, set()).add(future)
        try:
            await future
        finally:
            for queue in queues:
                waiting = self._waiting.get(queue)
                if waiting is not None:
                    waiting.discard(future)
                    if not waiting:
                        del self._waiting[queue]
