"""Dependents that somebody held when they were to be told are told a moment later.

Mostly it is another settle of ours that holds one, to tell it of another job, and is done in milliseconds: for that a
settle waits. Where it was in vain somebody's open transaction has it, and for a second no settle waits: the marks are
durable, and a task tells them again a few times. What is held for longer is left to tick.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from holdfast.stores.verbs.change import MARKS_A_STEP

TRIES: Final = 8
KEPT: Final = 1000
FIRST_PAUSE_SECONDS: Final = 0.005
LONGEST_PAUSE_SECONDS: Final = 0.1
IMPATIENCE_SECONDS: Final = 1.0


class Retelling:
    def __init__(self, tell: Callable[[Collection[int]], Awaitable[set[int]]]) -> None:
        self._tell = tell
        """Returns which are still held."""
        self._tries_left: dict[int, int] = {}
        self._task: asyncio.Task[None] | None = None
        self._impatient_until = time.monotonic()

    def may_wait(self) -> bool:
        return time.monotonic() >= self._impatient_until

    def waited_in_vain(self) -> None:
        self._impatient_until = time.monotonic() + IMPATIENCE_SECONDS

    def add(self, marked: Collection[int]) -> None:
        for seq in marked:
            if len(self._tries_left) < KEPT:
                self._tries_left.setdefault(seq, TRIES)
        if self._tries_left and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._tries_left.clear()

    async def _run(self) -> None:
        pause_seconds = FIRST_PAUSE_SECONDS
        while self._tries_left:
            await asyncio.sleep(random.uniform(0.5, 1.5) * pause_seconds)
            # One step, the newest first: what was tried often is probably held for long.
            step = sorted(self._tries_left, key=lambda seq: -self._tries_left[seq])[:MARKS_A_STEP]
            held = await self._tell(step)
            for seq in step:
                tries_left = self._tries_left.pop(seq) - 1
                if seq in held and tries_left:
                    self._tries_left[seq] = tries_left
            for seq in held.difference(step):
                self._tries_left.setdefault(seq, TRIES)
            is_vain = held.issuperset(step)
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS) if is_vain else FIRST_PAUSE_SECONDS
