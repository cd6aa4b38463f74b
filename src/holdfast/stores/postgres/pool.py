"""Our connections: few, kept open, handed out at once.

asyncpg's own pool spends several turns of the event loop on every hand-out, which a single durable submit can feel.
Connections here carry no session state (see ``database``), so giving one back is putting it down.

POOL-1. Nobody waits for a connection of their own to be opened (tens of milliseconds) when another is given back first:
    whoever finds none free waits for either.
POOL-2. They are served in the order they came.
POOL-3. That no other can be opened is the error of those who wait only where none is open: of all, or, while others are
    still being opened, of the one who has waited longest. Else one will be given back, and opening is tried again.
POOL-4. Whoever gives up waiting takes an opening along: one that hangs must not be what the next one waits for.
POOL-5. Where an answer did not come in time, the idle connections are not used again either: a network that swallowed
    one has most often swallowed all, and each would cost its next user the whole time once more.
POOL-6. A connection to a server that cannot be written to is not used again, and neither are the idle ones, which most
    likely lead there, too: another may find the primary.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from holdfast.core.errors import HoldfastError, Unavailable
from holdfast.stores.postgres.errors import READ_ONLY

Answer = TypeVar("Answer")

WAIT_SECONDS: Final = 30.0
CLOSE_SECONDS: Final = 5.0
OPEN_AGAIN_SECONDS: Final = 0.5


class Pool:
    def __init__(self, connect: Callable[[], Coroutine[Any, Any, Any]], *, size: int) -> None:
        self._connect = connect
        self._size = size
        self._idle: deque[Any] = deque()
        self._busy: set[Any] = set()
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._opening: dict[asyncio.Task[Any], None] = {}
        """The oldest first."""
        self._refusal: BaseException | None = None
        """Why the last one could not be opened."""
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
            sqlstate = getattr(error, "sqlstate", None)
            is_read_only = sqlstate == READ_ONLY
            is_clean = (sqlstate is not None and not is_read_only) or isinstance(error, HoldfastError)
            if isinstance(error, TimeoutError) or is_read_only:
                self._retire_idle()
            raise
        finally:
            # One that was closed meanwhile cannot be asked anything.
            is_clean = is_clean and not connection.is_closed() and not connection.is_in_transaction()
            self.give(connection, is_clean=is_clean)

    async def take(self) -> Any:
        if self._is_closed:
            raise Unavailable("the store is closed")
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                self._busy.add(connection)
                return connection
        return await self._wait_for_one()

    async def _wait_for_one(self) -> Any:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Any] = loop.create_future()
        self._waiting.append(turn)
        self._open_for_waiting()
        timer = loop.call_later(WAIT_SECONDS, self._give_up, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._leave(turn)
            elif not turn.cancelled() and turn.exception() is None:
                self.give(turn.result(), is_clean=True)
            raise
        finally:
            timer.cancel()

    def _give_up(self, turn: asyncio.Future[Any]) -> None:
        if turn.done():
            return
        self._leave(turn)
        if not self._busy and self._refusal is None:
            why = f"PostgreSQL did not answer within {WAIT_SECONDS} s; is the URL's host the right one?"
        elif self._refusal is not None:
            why = f"no connection became free within {WAIT_SECONDS} s, and no other could be opened: {self._refusal}"
        else:
            why = f"no connection became free within {WAIT_SECONDS} s; give the URL more: ?pool=20"
        turn.set_exception(Unavailable(why))

    def _leave(self, turn: asyncio.Future[Any]) -> None:
        self._waiting.remove(turn)
        # One that was cancelled before is there until it has ended.
        live = [task for task in self._opening if not task.cancelling()]
        if len(live) > len(self._waiting):
            live[0].cancel()

    # opening

    def _open_for_waiting(self) -> None:
        """One for each who waits, as far as the size goes."""
        while len(self._opening) < min(len(self._waiting), self._size - len(self._busy)):
            task = asyncio.get_running_loop().create_task(self._connect())
            self._opening[task] = None
            task.add_done_callback(self._opened)

    def _opened(self, task: asyncio.Task[Any]) -> None:
        del self._opening[task]
        if task.cancelled():
            self._open_for_waiting()
            return
        self._refusal = task.exception()
        if self._refusal is None:
            self.give(task.result(), is_clean=True)
            return
        if not self._busy:
            self._refuse(self._refusal, 1 if self._opening else len(self._waiting))
        if self._waiting:
            asyncio.get_running_loop().call_later(OPEN_AGAIN_SECONDS, self._open_for_waiting)

    # giving back

    def give(self, connection: Any, *, is_clean: bool) -> None:
        self._busy.discard(connection)
        if connection.is_closed():
            self._open_for_waiting()
        elif is_clean and not self._is_closed:
            self._hand_out(connection)
        else:
            # Interrupted half-way: what state it is in is unknown, so nobody gets it again.
            self._retire(connection)
            self._open_for_waiting()

    def _retire_idle(self) -> None:
        while self._idle:
            self._retire(self._idle.pop())

    def _retire(self, connection: Any) -> None:
        task = asyncio.get_running_loop().create_task(_retire(connection))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    def _hand_out(self, connection: Any) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                self._busy.add(connection)
                turn.set_result(connection)
                return
        self._idle.append(connection)

    def _refuse(self, error: BaseException, count: int) -> None:
        """The first so many who wait."""
        while self._waiting and count:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(error)
                count -= 1

    async def close(self) -> None:
        self._is_closed = True
        self._refuse(Unavailable("the store is closed"), len(self._waiting))
        for task in self._opening:
            task.cancel()
        if self._opening:
            await asyncio.wait(self._opening, timeout=CLOSE_SECONDS)
        for connection in self._busy:
            connection.terminate()
        while self._idle:
            await _retire(self._idle.pop())
        await asyncio.gather(*self._retiring)


async def _retire(connection: Any) -> None:
    """In good order: what still runs is cancelled on the server, where it would go on holding its locks."""
    try:
        await connection.close(timeout=CLOSE_SECONDS)
    except Exception:
        connection.terminate()
