"""Transactions that are held open for long, and faults that would end or block all of them: never at the same time.

A server that is killed every half minute would end nearly every transaction that stays open for three sweep windows,
and a migration wants the tables for itself. So whoever has such a fault to strike waits for the open ones, and no new
one is begun meanwhile.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._open = 0
        self._waiting = 0
        self._is_alone = False

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._waiting and not self._is_alone)
            self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            await self._tell()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        async with self._changed:
            self._waiting += 1
            try:
                await self._changed.wait_for(lambda: not self._open and not self._is_alone)
            finally:
                self._waiting -= 1
            self._is_alone = True
        try:
            yield
        finally:
            self._is_alone = False
            await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()
