"""Notices a worker that waits for itself: handlers that wait for other jobs hold all slots, and those jobs need one.

Nothing is wrong with such a worker, so nothing ends it. A person is told, with the remedy. Handlers in child processes
are not seen: what they wait for, only the child knows.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Sequence
from math import inf
from typing import Final

from holdfast.core.errors import HoldfastError
from holdfast.core.job import Job
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.worker.running import Running

LOG: Final = logging.getLogger("holdfast.worker")
STARVING_SECONDS: Final = 10.0
"""So long all slots have to be held by handlers that wait."""
SAID_EVERY_SECONDS: Final = 60.0
READ_SECONDS: Final = 5.0
READ_JOBS: Final = 100


class Starvation:
    def __init__(self, store: Store, *, concurrency: int, queues: Collection[str]) -> None:
        self._store = store
        self._concurrency = concurrency
        self._queues = frozenset(queues)
        self._since: float | None = None
        self._said_at = -inf

    async def look(self, running: Sequence[Running]) -> None:
        """Called every now and then."""
        now = time.monotonic()
        if len(running) < self._concurrency or not all(one.capture.awaited for one in running):
            self._since = None
            return
        if self._since is None:
            self._since = now
        if now - self._since >= STARVING_SECONDS and now - self._said_at >= SAID_EVERY_SECONDS:
            await self._look_closer(running, now)

    async def _look_closer(self, running: Sequence[Running], now: float) -> None:
        awaited = {job_id for one in running for job_id in one.capture.awaited}
        try:
            async with asyncio.timeout(READ_SECONDS):
                jobs = await self._store.read(list(awaited)[:READ_JOBS])
        except (HoldfastError, TimeoutError):
            return
        if any(job is not None and self._needs_a_slot(job) for job in jobs):
            self._said_at = now
            names = ", ".join(sorted({one.handler.name for one in running}))
            LOG.warning(
                "all %d slots are held by handlers that wait for other jobs, which wait for a slot: %s; let them "
                "return and continue in another job (ctx.spawn, chain, fan_in), or raise the concurrency",
                len(running),
                names,
                extra={"event": "starvation"},
            )

    def _needs_a_slot(self, job: Job) -> bool:
        return job.state is State.SCHEDULED and job.queue in self._queues
