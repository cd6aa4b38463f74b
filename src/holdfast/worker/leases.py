"""The leases that this worker holds or may be about to get: what its heartbeat tells the store.

The heartbeat runs in another thread than the claims. The store hands back what a heartbeat does not name, so the two
must never cross:

LEASE-1. Every lease that the store may have given this worker is named by each heartbeat: held, or with a token of a
    claim that is under way. A claim does not start while a heartbeat is under way, and is named before it is sent.
LEASE-2. A lease is held until the store has confirmed its end, so that it is extended even while its settle is retried.
"""

import asyncio
from collections.abc import Callable, Iterable
from threading import Lock
from uuid import UUID

from holdfast.core.commands import Heartbeat, lease_tokens
from holdfast.core.job import ClaimedJob, Lease


class Leases:
    """``worker_id`` changes when the store has given this worker up and it registers again."""

    def __init__(self, worker_id: UUID) -> None:
        self.worker_id = worker_id
        self._lock = Lock()
        self._held: dict[UUID, Lease] = {}
        self._claiming: dict[UUID, int] = {}
        self._is_beating = False
        self._turn: asyncio.Event | None = None
        self.on_ended: Callable[[Iterable[UUID]], None] | None = None
        """Told, in whichever thread, which tokens are held no more."""

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, token: UUID) -> bool:
        return token in self._held

    async def begin_claim(self, nonce: UUID, limit: int) -> None:
        """Name the claim; waits while a heartbeat is under way."""
        while True:
            with self._lock:
                if not self._is_beating:
                    self._claiming[nonce] = limit
                    return
                turn = self._turn = self._turn or asyncio.Event()
            await turn.wait()

    def end_claim(self, nonce: UUID, jobs: list[ClaimedJob]) -> None:
        with self._lock:
            for job in jobs:
                self._held[job.lease.token] = job.lease
            del self._claiming[nonce]

    def end(self, *tokens: UUID) -> None:
        with self._lock:
            for token in tokens:
                self._held.pop(token, None)
        if self.on_ended is not None:
            self.on_ended(tokens)

    def begin_heartbeat(self) -> Heartbeat:
        with self._lock:
            self._is_beating = True
            held = tuple(self._held.values())
            claiming = frozenset(
                token for nonce, limit in self._claiming.items() for token in lease_tokens(nonce, limit)
            )
        return Heartbeat(worker=self.worker_id, held=held, claiming=claiming)

    def end_heartbeat(self, loop: asyncio.AbstractEventLoop) -> None:
        """``loop`` is the one that claims."""
        with self._lock:
            self._is_beating = False
            turn, self._turn = self._turn, None
        if turn is not None:
            loop.call_soon_threadsafe(turn.set)
