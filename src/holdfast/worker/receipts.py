"""Which hints this worker still holds, and for which leases: each goes back to the delivery, finished or released.

RECEIPT-1. A hint is finished once the store has confirmed the end of every lease that was claimed by it; at once, where
    there was nothing to claim (gone, paused), or where it names no job.
RECEIPT-2. A hint of which a job was early, foreign or busy is released once no other of its jobs is held any more, for
    as long as the soonest of them has to wait.
RECEIPT-3. What the delivery does not take back is let go of: it gives the hint out again, and the store knows better.
RECEIPT-4. Where no hint has a receipt, no job costs anything here.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from holdfast.core import limits
from holdfast.core.commands import ClaimIdAnswer, Hint, NotClaimed, Release, WhyNot
from holdfast.core.job import ClaimedJob
from holdfast.core.ports import Delivery
from holdfast.worker import tasks
from holdfast.worker.leases import Leases

LOG: Final = logging.getLogger("holdfast.worker")
BUSY_SECONDS: Final = 1.0
"""Of a job that runs, or that stands behind one that is taken alone."""


@dataclass(slots=True, eq=False)
class Held:
    hint: Hint
    tokens: set[UUID] = field(default_factory=set)
    back_in_seconds: float | None = None


class Receipts:
    def __init__(self, delivery: Delivery, leases: Leases) -> None:
        self._delivery = delivery
        self._leases = leases
        self._loop = asyncio.get_running_loop()
        self._held: dict[UUID, list[Held]] = {}
        """By the token of each lease that is still held."""
        self._finished: list[Hint] = []
        self._released: list[Release] = []
        self._sender: asyncio.Task[None] | None = None

    def hold(self, hint: Hint, answers: Sequence[ClaimIdAnswer] = ()) -> None:
        """Until all that was claimed by it has ended."""
        if hint.receipt is None:
            return
        self._leases.on_ended = self._note_ended
        held = Held(hint, back_in_seconds=_back_in_seconds(answers))
        for answer in answers:
            if isinstance(answer, ClaimedJob):
                held.tokens.add(answer.lease.token)
                self._held.setdefault(answer.lease.token, []).append(held)
        if not held.tokens:
            self._let_go(held)

    def give_back(self, hint: Hint) -> None:
        """Whoever has a free slot may have it now."""
        if hint.receipt is not None:
            self._let_go(Held(hint, back_in_seconds=0.0))

    async def flush(self) -> None:
        """Until everything that can go back has."""
        # What has just ended is told a turn of the loop later.
        await asyncio.sleep(0)
        if self._sender is not None:
            await asyncio.wait([self._sender])

    def _note_ended(self, tokens: Iterable[UUID]) -> None:
        """From any thread."""
        if self._held:
            self._loop.call_soon_threadsafe(self._end, tokens)

    def _end(self, tokens: Iterable[UUID]) -> None:
        for token in tokens:
            for held in self._held.pop(token, ()):
                held.tokens.discard(token)
                if not held.tokens:
                    self._let_go(held)

    def _let_go(self, held: Held) -> None:
        if held.back_in_seconds is None:
            self._finished.append(held.hint)
        else:
            self._released.append(Release(held.hint, held.back_in_seconds))
        if self._sender is None:
            self._sender = tasks.start(self._send())

    async def _send(self) -> None:
        try:
            while self._finished or self._released:
                finished, self._finished = self._finished, []
                released, self._released = self._released, []
                if finished:
                    await self._say(self._delivery.finish(finished))
                if released:
                    await self._say(self._delivery.release(released))
        finally:
            self._sender = None

    async def _say(self, call: Coroutine[Any, Any, None]) -> None:
        try:
            await call
        except Exception as error:
            LOG.warning("hints were not taken back, and will come again: %s", error, extra={"event": "hints_lost"})


def _back_in_seconds(answers: Sequence[ClaimIdAnswer]) -> float | None:
    """None: there is nothing to come back for."""
    waits = {WhyNot.FOREIGN: limits.UNKNOWN_TYPE_DELAY_SECONDS, WhyNot.BUSY: BUSY_SECONDS}
    found = [
        waits.get(answer.why, answer.in_seconds)
        for answer in answers
        if isinstance(answer, NotClaimed) and answer.why not in (WhyNot.GONE, WhyNot.PAUSED)
    ]
    return min(found, default=None)
