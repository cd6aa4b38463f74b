"""A store that does what it is told to before a verb, or between a verb's commit and its answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.core.ports import Store
from holdfast.testing.faults import FaultyStore

Deed = Callable[[], Awaitable[None]]


class Awkward(FaultyStore):
    """``Awkward(store, claim=…)`` before the claim; ``after={"claim": …}`` when it is done and not yet answered."""

    def __init__(self, store: Store, *, after: dict[str, Deed] | None = None, **before: Deed) -> None:
        super().__init__(store)
        self.before = before
        self.after = after or {}

    async def _do(self, verb: str, call: Any) -> Any:
        if verb in self.before:
            await self.before[verb]()
        answer = await super()._do(verb, call)
        if verb in self.after:
            await self.after[verb]()
        return answer


class Gate:
    """Once it is shut, whoever comes waits before it: ``met`` says that somebody does."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.met = asyncio.Event()
        self._open = asyncio.Event()
        if is_open:
            self._open.set()

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    async def __call__(self) -> None:
        if not self._open.is_set():
            self.met.set()
            await self._open.wait()


def raising(error: Exception) -> Deed:
    async def deed() -> None:
        raise error

    return deed


async def never() -> None:
    """No answer, ever."""
    await asyncio.Event().wait()
