"""One claim, of queues or of IDs, asked for until it is answered.

The leases that it may get are named to the heartbeat before it is sent (``leases``), and the same nonce goes with every
try, so that an answer that was lost is given again.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID, uuid4

from holdfast.core.commands import Claim, ClaimIdAnswer, ClaimIds
from holdfast.core.errors import Unavailable, WorkerNotFound
from holdfast.core.job import ClaimedJob
from holdfast.core.ports import Store
from holdfast.engine import work
from holdfast.worker.handler import Registry
from holdfast.worker.leases import Leases
from holdfast.worker.patience import Outage, Patience

Answer = TypeVar("Answer", bound=ClaimIdAnswer)


class Claimer:
    def __init__(self, store: Store, leases: Leases, *, registry: Registry, outage: Outage) -> None:
        self._store = store
        self._leases = leases
        self._registry = registry
        self._outage = outage

    async def claim(self, queues: tuple[str, ...], limit: int) -> list[ClaimedJob]:
        async def ask(nonce: UUID, is_repeat: bool) -> list[ClaimedJob]:
            return await work.claim(
                self._store,
                Claim(
                    owner=self._leases.worker_id,
                    queues=queues,
                    limit=limit,
                    nonce=nonce,
                    is_repeat=is_repeat,
                    types=self._registry.names,
                ),
            )

        return await self._named(ask, limit)

    async def claim_ids(self, ids: tuple[UUID, ...], queue: str) -> list[ClaimIdAnswer]:
        """Where the jobs are in that queue."""

        async def ask(nonce: UUID, is_repeat: bool) -> list[ClaimIdAnswer]:
            return await work.claim_ids(
                self._store,
                ClaimIds(
                    owner=self._leases.worker_id,
                    ids=ids,
                    queues=(queue,),
                    nonce=nonce,
                    is_repeat=is_repeat,
                    types=self._registry.names,
                ),
            )

        return await self._named(ask, len(ids))

    async def _named(self, ask: Callable[[UUID, bool], Awaitable[list[Answer]]], limit: int) -> list[Answer]:
        nonce = uuid4()
        await self._leases.begin_claim(nonce, limit)
        answers: list[Answer] = []
        try:
            answers = await self._patiently(ask, nonce)
        finally:
            self._leases.end_claim(nonce, [one for one in answers if isinstance(one, ClaimedJob)])
        return answers

    async def _patiently(self, ask: Callable[[UUID, bool], Awaitable[list[Answer]]], nonce: UUID) -> list[Answer]:
        patience = Patience("claim", self._outage)
        while True:
            try:
                answers = await ask(nonce, patience.is_tried)
            except (Unavailable, WorkerNotFound) as error:
                # Not registered any more: the next heartbeat finds that out and registers again.
                await patience.wait(error)
            else:
                patience.done()
                return answers
