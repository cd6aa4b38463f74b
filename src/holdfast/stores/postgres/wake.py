"""LISTEN and NOTIFY, off the write path.

Notifications are sent after the commit, coalesced, at most one batch every few milliseconds, on any connection. Only a
single submit that comes after a pause carries its own, which spares it a round trip: a NOTIFY makes the commits that
carry one wait for each other, and so seldom that does not matter. LISTEN has a connection of its own. With either
switched off, or lost, everything stays right and is only found later, by polling.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from holdfast.stores.wakeup import Wakeups

LAST_WORD_SECONDS: Final = 1.0
"""How long closing waits for the last notification."""
SHORT_PAUSE_SECONDS: Final = 0.003
LONG_PAUSE_SECONDS: Final = 0.01
"""Between two notifications of this process: short at first, long while there is always something to tell."""
RECONNECT_AFTER_SECONDS: Final = 1.0
PROBE_EVERY_SECONDS: Final = 30.0
MAX_PAYLOAD_BYTES: Final = 7999
"""PostgreSQL refuses a longer one; a queue's name is far shorter."""

logger = logging.getLogger(__name__)


def payloads_of(queues: Iterable[str]) -> list[str]:
    """The queues' names a line each, in as few notifications as they fit in."""
    payloads: list[list[str]] = []
    room = 0
    for queue in sorted(queues):
        size = len(queue.encode()) + 1
        if size > room:
            payloads.append([])
            room = MAX_PAYLOAD_BYTES
        payloads[-1].append(queue)
        room -= size
    return ["\n".join(names) for names in payloads]


class Notifier:
    """Tells other processes in which queues there is work."""

    def __init__(self, send: Callable[[list[str]], Awaitable[None]]) -> None:
        self._send = send
        self._pending: set[str] = set()
        self._under_way: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def may_carry(self) -> bool:
        """Whether a statement may carry its notification itself. Then the next ones wait for their time."""
        if self._is_under_way():
            return False
        self._task = asyncio.get_running_loop().create_task(self._run(is_sent=True))
        return True

    def announce(self, queues: Iterable[str]) -> None:
        self._pending.update(queues)
        if self._pending and not self._is_under_way():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def _is_under_way(self) -> bool:
        # One that somebody cancelled before it began has not said so.
        return self._task is not None and not self._task.done()

    async def _run(self, *, is_sent: bool = False) -> None:
        pause_seconds = SHORT_PAUSE_SECONDS
        try:
            if is_sent:
                await asyncio.sleep(pause_seconds)
            while self._pending:
                self._under_way, self._pending = self._pending, set()
                # Only a hint: pollers find the work without it.
                with contextlib.suppress(Exception):
                    await self._send(sorted(self._under_way))
                self._under_way = set()
                await asyncio.sleep(pause_seconds)
                pause_seconds = LONG_PAUSE_SECONDS
        finally:
            self._task = None

    async def close(self) -> None:
        """What has not been told is told now: a program that submits and ends must not leave its jobs to the poll."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        unsent, self._pending, self._under_way = self._pending | self._under_way, set(), set()
        if unsent:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(LAST_WORD_SECONDS):
                    await self._send(sorted(unsent))


class Listener:
    """Hears of work in other processes, from when somebody first asks; reconnects for as long as it is open."""

    def __init__(self, connect: Callable[[], Awaitable[Any]], channel: str, wakeups: Wakeups, *, probe: str) -> None:
        self._connect = connect
        self._channel = channel
        self._wakeups = wakeups
        self._probe = probe
        self._task: asyncio.Task[None] | None = None
        self.is_listening = asyncio.Event()

    async def next(self, queues: Sequence[str]) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        await self._wakeups.next(queues)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except asyncio.CancelledError:
                raise
            except Exception as error:
                logger.info("listening for work was interrupted, polling goes on: %s", error)
            finally:
                self.is_listening.clear()
            await asyncio.sleep(RECONNECT_AFTER_SECONDS)

    async def _listen(self) -> None:
        connection = await self._connect()
        try:
            is_lost = asyncio.Event()
            connection.add_termination_listener(lambda _: is_lost.set())
            await connection.add_listener(self._channel, self._heard)
            self.is_listening.set()
            # What happened while nobody listened is unknown: everyone looks once.
            self._wakeups.wake_all()
            while not is_lost.is_set():
                # The connection's end is heard at once. A network that swallows everything is not, nor is a server
                # that was the primary and is fenced off.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PROBE_EVERY_SECONDS):
                        await is_lost.wait()
                    break
                if await connection.fetchval(self._probe, timeout=PROBE_EVERY_SECONDS):
                    raise ConnectionError("this server cannot be written to, so nobody submits here")
        finally:
            connection.terminate()

    def _heard(self, _connection: Any, _process_id: int, _channel: str, payload: object) -> None:
        self._wakeups.wake(str(payload).split("\n"))
