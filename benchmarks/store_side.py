"""The store's side of every comparison: the port's verbs, as a worker and a client call them."""

from collections.abc import Sequence
from uuid import uuid4

from benchmarks.workload import DRAIN_BATCH_JOBS, QUEUE, RESULT
from holdfast.core.commands import Claim, Completed, NewJob, Settled, Settlement, Submit
from holdfast.core.errors import HoldfastError
from holdfast.core.ports import Store


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
        done = Completed(RESULT)
        left = jobs
        while left > 0:
            limit = min(left, DRAIN_BATCH_JOBS)
            claim = Claim(owner=self._worker, queues=self._queues, limit=limit, nonce=uuid4())
            claimed = await self.store.claim(claim)
            answers = await self.store.settle([Settlement(lease=job.lease, outcome=done) for job in claimed])
            if not answers or not all(type(answer) is Settled for answer in answers):
                raise AssertionError(f"{len(claimed)} of {limit} jobs were claimed, and not all of them were settled")
            left -= len(answers)
