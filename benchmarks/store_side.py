"""The store's side of every comparison: the port's verbs, as a worker and a client call them."""

import asyncio
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

from benchmarks.workload import DRAIN_BATCH_JOBS, JOB_TYPE, QUEUE, RESULT
from holdfast.core.commands import Claim, Completed, NewJob, Settled, Settlement, Submit
from holdfast.core.errors import HoldfastError
from holdfast.core.job import ClaimedJob
from holdfast.core.ports import Store

DONE: Final = Completed(RESULT)


class StoreSide:
    def __init__(self, store: Store, *, queues: Sequence[str] = (QUEUE,)) -> None:
        self.store = store
        self._queues = tuple(queues)
        self._worker = uuid4()

    async def open(self) -> None:
        await self.store.open()
        await self.store.register(self._worker, name="benchmark")

    async def close(self) -> None:
        await self.store.close()

    async def submit(self, batches: Sequence[tuple[NewJob, ...]]) -> None:
        for batch in batches:
            (answer,) = await self.store.submit([Submit(jobs=batch)])
            if isinstance(answer, HoldfastError):
                raise answer

    async def drain(self, jobs: int) -> None:
        """Claim and settle that many, in batches; they must be there. A claim may come back short, but not empty."""
        left = jobs
        while left > 0:
            claimed = await self._claim(left)
            if not claimed:
                raise AssertionError(f"{left} jobs are not there")
            await self._settle(claimed)
            left -= len(claimed)

    async def drain_ahead(self, jobs: int) -> None:
        """The same as a worker does it: the next batch is claimed while the last one is settled."""
        left = jobs
        claiming = asyncio.create_task(self._claim(left))
        while left > 0:
            claimed = await claiming
            if not claimed:
                raise AssertionError(f"{left} jobs are not there")
            left -= len(claimed)
            claiming = asyncio.create_task(self._claim(left))
            await self._settle(claimed)
        await claiming

    async def _claim(self, left: int) -> list[ClaimedJob]:
        limit = min(left, DRAIN_BATCH_JOBS)
        if limit == 0:
            return []
        # A worker names the types that it knows.
        return await self.store.claim(
            Claim(owner=self._worker, queues=self._queues, limit=limit, nonce=uuid4(), types=(JOB_TYPE,))
        )

    async def _settle(self, claimed: Sequence[ClaimedJob]) -> None:
        answers = await self.store.settle([Settlement(lease=job.lease, outcome=DONE) for job in claimed])
        if len(answers) != len(claimed) or not all(type(answer) is Settled for answer in answers):
            raise AssertionError(f"{len(claimed)} jobs were claimed, and not all of them were settled")
