"""Says to the store how attempts ended, many in one call.

How it works: one call is under way at a time; what ends meanwhile goes with the next one. While more work is at hand an
outcome waits a few milliseconds for company; when there is none, it goes at once.

SETTLER-1. An outcome is repeated until the store has answered it: its lease is held, and extended, until then. Only one
    that makes the store fail in a way of its own, whenever it is tried, becomes a failure.
SETTLER-2. A stale lease is dropped with a warning: somebody else has the job, or has ended it.
SETTLER-3. What the store refuses (children that cannot be submitted, a result it cannot take) fails the job, with the
    reason.
SETTLER-4. When too much is unsettled, nothing new is started: ``room``.
SETTLER-5. An outcome that the store answers with Unavailable by itself (somebody's transaction holds the job) is kept
    apart and repeated with growing pauses. It delays no other.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from holdfast.core import limits
from holdfast.core.commands import Completed, Failed, SettleAnswer, Settlement
from holdfast.core.errors import ConfigError, HoldfastError, StaleLease, Unavailable, UsageError
from holdfast.core.failures import Category, Failure
from holdfast.core.ports import Store
from holdfast.engine import work
from holdfast.worker import tasks
from holdfast.worker.leases import Leases
from holdfast.worker.patience import Outage, Patience

LOG: Final = logging.getLogger("holdfast.worker")
COMPANY_SECONDS: Final = 0.003
FULL_BATCH: Final = 200
MAX_UNSETTLED: Final = 4000
MAX_TRIES: Final = 5
"""Of an outcome that makes the store fail in a way that no store should."""


class Settler:
    """``on_postponed`` is called when a job may have got a time at which it is due."""

    def __init__(
        self,
        store: Store,
        leases: Leases,
        *,
        is_idle: Callable[[], bool],
        on_room: Callable[[], None],
        on_postponed: Callable[[], None],
        outage: Outage,
    ) -> None:
        self._store = store
        self._leases = leases
        self._is_idle = is_idle
        self._on_room = on_room
        self._on_postponed = on_postponed
        self._outage = outage
        self._waiting: list[Settlement] = []
        self._under_way = 0
        self._sender: asyncio.Task[None] | None = None
        self._held: list[Settlement] = []
        self._repeating = 0
        self._repeater: asyncio.Task[None] | None = None
        self._go = asyncio.Event()
        self._context = tasks.own_context()
        self.settled = 0

    @property
    def room(self) -> int:
        """How many more may be started."""
        return MAX_UNSETTLED - len(self._waiting) - self._under_way - len(self._held) - self._repeating

    def settle(self, settlement: Settlement) -> None:
        self._waiting.append(settlement)
        if self._sender is None:
            # In the worker's context: this is called in that of an attempt.
            self._sender = tasks.start(self._send(), context=self._context.copy())
        elif len(self._waiting) >= FULL_BATCH or self._is_idle():
            self._go.set()

    async def flush(self) -> None:
        """Until everything is settled."""
        while under_way := [task for task in (self._sender, self._repeater) if task is not None]:
            self._go.set()
            await asyncio.wait(under_way)

    async def _send(self) -> None:
        try:
            while self._waiting:
                await self._company()
                batch, self._waiting = self._waiting[: limits.MAX_SETTLE_JOBS], self._waiting[limits.MAX_SETTLE_JOBS :]
                self._under_way = len(batch)
                await self._settle(batch)
                self._under_way = 0
                self._on_room()
        finally:
            self._sender = None

    async def _company(self) -> None:
        self._go.clear()
        if len(self._waiting) >= FULL_BATCH or self._is_idle():
            return
        # A timer and an event, not wait_for: this runs for every batch.
        timer = asyncio.get_running_loop().call_later(COMPANY_SECONDS, self._go.set)
        try:
            await self._go.wait()
        finally:
            timer.cancel()

    async def _settle(self, batch: list[Settlement]) -> None:
        patience = Patience("settle", self._outage)
        tries = 0
        while batch:
            try:
                answers: Sequence[SettleAnswer] = await work.settle(self._store, batch)
            except (Unavailable, ConfigError) as error:
                await patience.wait(error)
                continue
            except Exception as error:
                if len(batch) > 1:
                    # One of them cannot be settled at all: it must not take the others with it.
                    for one in batch:
                        await self._settle([one])
                    return
                tries += 1
                if not isinstance(error, UsageError) and tries < MAX_TRIES:
                    await patience.wait(error)
                    continue
                answers = [error if isinstance(error, HoldfastError) else HoldfastError(f"settle failed: {error!r}")]
            patience.done()
            batch = self._take(batch, answers)

    def _hold(self, settlement: Settlement) -> None:
        self._held.append(settlement)
        if self._repeater is None:
            self._repeater = asyncio.get_running_loop().create_task(self._repeat(), context=self._context.copy())

    async def _repeat(self) -> None:
        """Settle what somebody's transaction holds (SETTLER-5)."""
        patience = Patience("settle")
        try:
            while self._held:
                await patience.wait(Unavailable("somebody's open transaction holds the job"))
                batch, self._held = self._held[: limits.MAX_SETTLE_JOBS], self._held[limits.MAX_SETTLE_JOBS :]
                self._repeating = len(batch)
                await self._settle(batch)
                self._repeating = 0
                self._on_room()
        finally:
            self._repeater = None

    def _take(self, batch: Sequence[Settlement], answers: Sequence[SettleAnswer]) -> list[Settlement]:
        """What has to be settled in another way."""
        again: list[Settlement] = []
        ended: list[UUID] = []
        is_postponed = False
        for settlement, answer in zip(batch, answers, strict=True):
            if not isinstance(answer, HoldfastError):
                ended.append(settlement.lease.token)
                if type(settlement.outcome) is not Completed or settlement.outcome.spawn:
                    is_postponed = True
            elif isinstance(answer, Unavailable):
                self._hold(settlement)
            elif isinstance(answer, StaleLease) or _is_last_word(settlement):
                LOG.warning("an outcome was not accepted: %s", answer, extra=_fields(settlement))
                self._leases.end(settlement.lease.token)
            else:
                again.append(_refused(settlement, answer))
        self.settled += len(ended)
        self._leases.end(*ended)
        if is_postponed:
            self._on_postponed()
        return again


def _refused(settlement: Settlement, refusal: HoldfastError) -> Settlement:
    if settlement.progress is not None:
        # Progress is the lesser thing: without it, perhaps.
        return Settlement(lease=settlement.lease, outcome=settlement.outcome)
    failure = Failure(category=Category.PERMANENT, message=str(refusal), code=refusal.code)
    return Settlement(lease=settlement.lease, outcome=Failed(failure.bounded()))


def _is_last_word(settlement: Settlement) -> bool:
    return isinstance(settlement.outcome, Failed) and settlement.progress is None


def _fields(settlement: Settlement) -> dict[str, str]:
    return {"event": "stale_lease", "job_id": str(settlement.lease.job_id)}
