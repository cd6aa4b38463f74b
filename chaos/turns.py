"""Transactions that are held open for long, and faults that would end or block all of them: never at the same time.

A server that is killed every half minute would end nearly every transaction that stays open for three sweep windows,
and a migration wants the tables for itself. So whoever has such a fault to strike waits for the open ones. Everybody
comes in the order in which they asked.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._numbers = itertools.count()
        self._waiting: dict[int, bool] = {}
        """Who waits, by number, and whether to be alone."""
        self._open = 0
        self._is_alone = False

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        await self._wait(is_alone=False)
        try:
            yield
        finally:
            self._open -= 1
            await self._tell()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        await self._wait(is_alone=True)
        try:
            yield
        finally:
            self._is_alone = False
            await self._tell()

    async def _wait(self, *, is_alone: bool) -> None:
        number = next(self._numbers)
        self._waiting[number] = is_alone
        async with self._changed:
            try:
                await self._changed.wait_for(lambda: self._may_come(number))
            finally:
                del self._waiting[number]
                self._changed.notify_all()
            if is_alone:
                self._is_alone = True
            else:
                self._open += 1

    def _may_come(self, number: int) -> bool:
        before = [is_alone for other, is_alone in self._waiting.items() if other < number]
        if self._waiting[number]:
            return not self._is_alone and not self._open and not before
        return not self._is_alone and not any(before)

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()
