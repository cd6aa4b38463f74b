"""Somebody's snapshot, held throughout: with autovacuum off, every row that dies meanwhile stays where it is.

A circumstance of the whole run, and no strike. Where the server is killed the snapshot goes with it; another is taken
as soon as there is a server, and nothing is vacuumed in between.
"""

import asyncio
import contextlib
import time
from typing import Final

import asyncpg

from chaos.databases import CALLERS

LOOK_SECONDS: Final = 0.25
PIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT pg_current_snapshot()"


class PinnedSnapshot:
    def __init__(self, url: str) -> None:
        self._url = url
        self._task: asyncio.Task[None] | None = None
        self._held_seconds = 0.0
        self._started_at = self._released_at = 0.0

    @property
    def held_part(self) -> float:
        """Of the time from the start to the release."""
        seconds = self._released_at - self._started_at
        return self._held_seconds / seconds if seconds > 0 else 0.0

    def start(self) -> None:
        self._started_at = time.monotonic()
        self._task = asyncio.create_task(self._hold())

    async def release(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            self._released_at = time.monotonic()

    async def _hold(self) -> None:
        while True:
            with contextlib.suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await self._hold_one()
            await asyncio.sleep(LOOK_SECONDS)

    async def _hold_one(self) -> None:
        connection = await asyncpg.connect(self._url, server_settings={"application_name": CALLERS}, timeout=2)
        try:
            await connection.execute(PIN)
            while not connection.is_closed():
                began = time.monotonic()
                await asyncio.sleep(LOOK_SECONDS)
                self._held_seconds += time.monotonic() - began
        finally:
            connection.terminate()
