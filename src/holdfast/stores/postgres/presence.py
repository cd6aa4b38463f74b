"""The proof that a worker's process lives: a session of its own, which holds an advisory lock.

The server ends the session, and with it the lock, as soon as the process has died. Every worker keeps such a session,
and looks every now and then, on it, whose lock is gone (``core/presence``). The worker's row says which lock it holds.

A session that ends while its process lives is opened again at once. Where that does not succeed the worker takes back,
on any other connection, that it holds a lock: then silence is the rule for it, as for workers behind a pooler, which
have no session of their own. Where nothing succeeds, ``absent_since`` says since when others may take it for dead,
unless the server has said that it restarts: then others cannot look either. That nobody listens proves nothing; it may
be so on this worker's way to the server alone, through a proxy that is down.

A session that does not answer has not ended: the server may well see it. Another one is opened beside it, and only
then is the first one closed.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from holdfast.core.errors import HoldfastError
from holdfast.core.presence import GONE_PART, Absences
from holdfast.stores import descriptors
from holdfast.stores.postgres.database import Database
from holdfast.stores.postgres.errors import sqlstate_of
from holdfast.stores.postgres.hosts import CONNECT_SECONDS

MAX_LOCK_KEY: Final = (1 << 63) - 1
RESTARTING: Final = "57P03"
"""The server does not take connections now: it shuts down, starts, or recovers from a crash."""
PATIENCE_PART: Final = 1 / 3
"""Of the worker timeout: how long a look may take before another session is opened."""
HEARD_SECONDS: Final = 0.5
"""How often it is noted that the session still stands."""
AGAIN_SECONDS: Final = 0.1
"""Between two tries to put a lost proof right."""
HURRY_PART: Final = GONE_PART / 4
"""Of the worker timeout: how long one try to put a lost proof right may take."""


class Session:
    def __init__(self, connection: Any, proven_at: float) -> None:
        self.connection = connection
        self.proven_at = proven_at
        """When it had not ended yet: its end is heard of at once, by a loop that runs."""
        self.is_lost = asyncio.Event()
        self._descriptor = _descriptor_of(connection)
        descriptors.keep_from_children(self._descriptor)
        connection.add_termination_listener(lambda _: self._note_end())

    def _note_end(self) -> None:
        descriptors.forget(self._descriptor)
        self.is_lost.set()

    def end(self) -> None:
        descriptors.forget(self._descriptor)
        self.connection.terminate()

    async def stands_until(self, end: Callable[[], float]) -> None:
        """Return at that time, which may change meanwhile, or when it has ended."""
        while not self.is_lost.is_set():
            self.proven_at = now = time.monotonic()
            if now >= end():
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(end() - now, HEARD_SECONDS)):
                    await self.is_lost.wait()


class Presence:
    def __init__(
        self,
        database: Database,
        worker_id: UUID,
        *,
        worker_timeout_seconds: float,
        on_gone: Callable[[Sequence[UUID]], Awaitable[None]] | None,
    ) -> None:
        self._database = database
        self._worker_id = worker_id
        self._key = worker_id.int & MAX_LOCK_KEY
        self._timeout_seconds = worker_timeout_seconds
        self._on_gone = on_gone
        self._session: Session | None = None
        self._is_excused = False
        self._is_alone = False

    def note_attended(self, workers: int) -> None:
        """How many workers hold a proof, or did when they died, this one included: a tick has counted them."""
        self._is_alone = workers <= 1

    @property
    def absent_since(self) -> float | None:
        session = self._session
        if session is None or self._is_excused or not session.is_lost.is_set():
            return None
        return session.proven_at

    async def run(self) -> None:
        """Until cancelled."""
        counts_from = 0.0
        try:
            while True:
                session = await self._begin()
                self._replace(session)
                await self._keep(session, counts_from)
                counts_from = time.monotonic() + self._timeout_seconds
        finally:
            self._replace(None)

    def _replace(self, session: Session | None) -> None:
        before, self._session, self._is_excused = self._session, session, False
        if before is not None:
            before.end()

    # to be there

    async def _begin(self) -> Session:
        while True:
            try:
                async with asyncio.timeout(self._hurry_seconds()):
                    return await self._prove()
            except Exception as error:
                self._note_failure(error)
            await self._take_back()
            await asyncio.sleep(AGAIN_SECONDS)

    def _hurry_seconds(self) -> float:
        is_lost = self._session is not None and self._session.is_lost.is_set()
        return HURRY_PART * self._timeout_seconds if is_lost else CONNECT_SECONDS

    async def _prove(self) -> Session:
        connection = await self._database.connect()
        try:
            proven_at = time.monotonic()
            await connection.execute(self._database.sql["presence.session"])
            await connection.fetchval(self._database.sql["presence.lock"], self._key)
            await self._say(connection)
        except BaseException:
            connection.terminate()
            raise
        return Session(connection, proven_at)

    async def _say(self, connection: Any) -> None:
        await connection.execute(self._database.sql["presence.say"], self._worker_id, self._key)

    async def _take_back(self) -> None:
        """There is nothing to see of this worker: its silence counts, and nothing else."""
        if self._session is None or not self._session.is_lost.is_set():
            return
        try:
            async with asyncio.timeout(self._hurry_seconds()):
                await self._database.fetch(self._database.sql["presence.say"], self._worker_id, None)
        except Exception as error:
            self._note_failure(error)
        else:
            self._session = None

    def _note_failure(self, error: Exception) -> None:
        """What the server has said once counts until it is back: while it is down nobody is there to say it."""
        self._is_excused = self._is_excused or _is_restarting(error)

    # to look

    async def _keep(self, session: Session, counts_from: float) -> None:
        """Until the session has ended, or does not answer."""
        absences = Absences(worker_timeout_seconds=self._timeout_seconds, counts_from=counts_from)
        while not session.is_lost.is_set():
            asked = asyncio.ensure_future(self._look(session.connection))
            try:
                await asyncio.wait({asked}, timeout=PATIENCE_PART * self._timeout_seconds)
            except asyncio.CancelledError:
                asked.cancel()
                raise
            if not asked.done():
                asked.add_done_callback(_heard_too_late)
                return
            if asked.exception() is None:
                absent, self._is_alone = asked.result()
                await self._deal_with(absences.saw(absent, monotonic=time.monotonic()))
            elif session.connection.is_closed():
                session.end()
                session.is_lost.set()
            await session.stands_until(partial(self._next_look, absences, time.monotonic()))

    def _next_look(self, absences: Absences, looked_at: float) -> float:
        return looked_at + absences.seconds_until_look(is_alone=self._is_alone or self._on_gone is None)

    async def _look(self, connection: Any) -> tuple[list[UUID], bool]:
        """Whose proofs are away, and whether there is nobody else."""
        sql = self._database.sql["presence.absent"]
        row = await connection.fetchrow(sql, self._worker_id, self._key, self._timeout_seconds)
        if not row["is_noted"]:
            await self._say(connection)
        return [worker for worker in row["absent"] if worker != self._worker_id], row["is_alone"]

    async def _deal_with(self, gone: Sequence[UUID]) -> None:
        if gone and self._on_gone is not None:
            # Those that are left are still gone at the next look.
            with contextlib.suppress(HoldfastError):
                await self._on_gone(gone)


def _descriptor_of(connection: Any) -> int:
    # The driver does not tell; a test sees that this is it.
    descriptor: int = connection._transport.get_extra_info("socket").fileno()  # noqa: SLF001
    return descriptor


def _heard_too_late(asked: "asyncio.Future[Any]") -> None:
    """Its error is nobody's."""
    if not asked.cancelled():
        asked.exception()


def _is_restarting(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ExceptionGroup):
            return any(_is_restarting(one) for one in error.exceptions)
        if sqlstate_of(error) == RESTARTING:
            return True
        error = error.__cause__ or error.__context__
    return False
