"""How long a claim and a tick take for somebody who asks: a worker with a queue of its own, now and then."""

import time
from statistics import median
from typing import Final
from uuid import uuid4

from holdfast.core.commands import Claim, Completed, NewJob, Settlement, Submit, Tick
from holdfast.core.ports import Store
from holdfast.core.states import State

QUEUE: Final = "probe"
CLAIMS_A_LOOK: Final = 5


class Probe:
    def __init__(self, store: Store, *, retention_seconds: float) -> None:
        self._store = store
        self._tick = Tick(completed_retention_seconds=retention_seconds, dead_retention_seconds=retention_seconds)
        self._worker = uuid4()

    async def look(self) -> dict[str, float]:
        # It may have been silent for so long that it is lost.
        await self._store.register(self._worker, name="probe", queues=[QUEUE])
        claims = [await self._claim() for _ in range(CLAIMS_A_LOOK)]
        started = time.perf_counter()
        await self._store.tick(self._tick)
        tick = time.perf_counter() - started
        return {"claim, from outside, ms": 1000 * median(claims), "tick, from outside, ms": 1000 * tick}

    async def _claim(self) -> float:
        (answer,) = await self._store.submit([Submit(jobs=(NewJob(id=uuid4(), type="probe", queue=QUEUE),))])
        if isinstance(answer, Exception):
            raise answer
        started = time.perf_counter()
        claimed = await self._store.claim(Claim(owner=self._worker, queues=(QUEUE,), limit=1, nonce=uuid4()))
        seconds = time.perf_counter() - started
        await self._store.settle([Settlement(lease=job.lease, outcome=Completed()) for job in claimed])
        return seconds

    async def leave(self) -> None:
        await self._store.leave(self._worker)

    async def backlog(self) -> int:
        """Jobs that wait for a worker, in all queues."""
        return sum(queue.counts.get(State.SCHEDULED, 0) for queue in await self._store.read_queues())
