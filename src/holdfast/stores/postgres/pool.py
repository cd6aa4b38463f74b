"""Our connections: few, kept open, handed out at once.

asyncpg's own pool spends several turns of the event loop on every hand-out, which a single durable submit can feel.
Connections here carry no session state (see ``store``), so giving one back is putting it down.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from holdfast.core.errors import HoldfastError, Unavailable

Answer = TypeVar("Answer")

WAIT_SECONDS: Final = 30.0
CLOSE_SECONDS: Final = 5.0


class Pool:
    def __init__(self, connect: Callable[[], Awaitable[Any]], *, size: int) -> None:
        self._connect = connect
        self._size = size
        self._idle: deque[Any] = deque()
        self._busy: set[Any] = set()
        self._connecting = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_closed = False
        self._retiring: set[asyncio.Task[None]] = set()

    async def lend(self, work: Callable[[Any], Awaitable[Answer]]) -> Answer:
        """A connection for as long as the work takes."""
        connection = await self.take()
        is_clean = False
        try:
            answer = await work(connection)
            is_clean = True
            return answer
        except Exception as error:
            # A refusal by the server leaves the connection in order; anything else may not have.
            is_clean = getattr(error, "sqlstate", None) is not None or isinstance(error, HoldfastError)
            raise
        finally:
            self.give(connection, is_clean=is_clean and not connection.is_in_transaction())

    async def take(self) -> Any:
        while True:
            if self._is_closed:
                raise Unavailable("the store is closed")
            while self._idle:
                connection = self._idle.pop()
                if not connection.is_closed():
                    self._busy.add(connection)
                    return connection
            if len(self._busy) + self._connecting < self._size:
                return await self._take_new()
            await self._wait_for_one()

    async def _take_new(self) -> Any:
        self._connecting += 1
        try:
            connection = await self._connect()
        except BaseException:
            self._wake_one()
            raise
        finally:
            self._connecting -= 1
        self._busy.add(connection)
        return connection

    async def _wait_for_one(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await asyncio.wait_for(turn, WAIT_SECONDS)
        except TimeoutError:
            raise Unavailable(
                f"no connection became free within {WAIT_SECONDS} s; give the URL more: ?pool=20"
            ) from None
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._wake_one()
            raise

    def give(self, connection: Any, *, is_clean: bool) -> None:
        self._busy.discard(connection)
        if connection.is_closed():
            pass
        elif is_clean and not self._is_closed:
            self._idle.append(connection)
        else:
            # Interrupted half-way: what state it is in is unknown, so nobody gets it again.
            task = asyncio.get_running_loop().create_task(_retire(connection))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)
        self._wake_one()

    def _wake_one(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    async def close(self) -> None:
        self._is_closed = True
        for connection in self._busy:
            connection.terminate()
        while self._idle:
            await _retire(self._idle.pop())
        while self._waiting:
            self._wake_one()
        await asyncio.gather(*self._retiring)


async def _retire(connection: Any) -> None:
    """In good order: what still runs is cancelled on the server, where it would go on holding its locks."""
    try:
        await connection.close(timeout=CLOSE_SECONDS)
    except Exception:
        connection.terminate()
