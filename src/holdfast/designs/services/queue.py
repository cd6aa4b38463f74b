"""The FIFO queue of job IDs, with askers that wait for one.

QUEUE-1. An ID is in the queue once, however often it is enqueued.
QUEUE-2. An ID is popped only in the same step in which its asker goes on: never for one whose call was cancelled while
    it waited, nor for one that has under 200 ms left. An asker that goes without passes the wake-up on.
QUEUE-3. Nobody waits longer than 700 ms, and nobody waits while there is a job.
QUEUE-4. An ID that was given to a caller which settles its IDs, and was not settled for 5 s, is in front of the queue
    again: the caller may have been killed since. Whoever takes it knows that its job runs, or finds out. So it is with
    an ID that was removed: a cancel may not have come to its end.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from time import monotonic
from typing import Final

from holdfast.designs.services.clock import Stopwatch
from holdfast.rpc import limits
from holdfast.rpc.checks import check_job_id, check_worker_id
from holdfast.rpc.generated import taskqueue_internal_pb2 as internal

WAIT_SECONDS: Final = limits.DEQUEUE_WAIT_MS / 1000
MINIMUM_LEFT_SECONDS: Final = limits.DEQUEUE_MINIMUM_LEFT_MS / 1000

SETTLE_SECONDS: Final = 5.0
"""Longer than a dispatch takes whose every call takes as long as it may."""

Asker = asyncio.Future[None]


class FifoQueue:
    """Fulfils ``protocols.Queue`` in memory."""

    def __init__(self, *, stopwatch: Stopwatch = monotonic) -> None:
        self._stopwatch = stopwatch
        # Not a dict: its first entry is found by walking over all that were removed before it.
        self._waiting: OrderedDict[str, int] = OrderedDict()
        self._askers: OrderedDict[Asker, None] = OrderedDict()
        self._unsettled: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    async def enqueue_job(self, request: internal.EnqueueJobRequest) -> internal.EnqueueJobResponse:
        job_id = check_job_id(request.job_id)
        if job_id not in self._waiting:
            self._waiting[job_id] = request.enqueued_at_ms
            self._wake_one()
        return internal.EnqueueJobResponse(accepted=True)

    async def dequeue_job(
        self,
        request: internal.DequeueJobRequest,
        *,
        seconds_left: float | None = None,
        settled: Sequence[str] | None = None,
    ) -> internal.DequeueJobResponse:
        check_worker_id(request.worker_id)
        if settled is not None:
            self._settle(settled)
        loop = asyncio.get_running_loop()
        wait = WAIT_SECONDS if seconds_left is None else min(WAIT_SECONDS, seconds_left - MINIMUM_LEFT_SECONDS)
        until = loop.time() + wait
        while loop.time() < until:
            if self._waiting:
                job_id, _ = self._waiting.popitem(last=False)
                if settled is not None:
                    self._remember(job_id)
                return internal.DequeueJobResponse(found=True, job_id=job_id)
            await self._wait(loop, until)
        self._wake_one()
        return internal.DequeueJobResponse(found=False)

    async def remove_job_if_present(
        self, request: internal.RemoveJobIfPresentRequest
    ) -> internal.RemoveJobIfPresentResponse:
        removed = self._waiting.pop(check_job_id(request.job_id), None) is not None
        if removed:
            self._remember(request.job_id)
        return internal.RemoveJobIfPresentResponse(removed=removed)

    def _remember(self, job_id: str) -> None:
        self._unsettled[job_id] = self._stopwatch()
        self._unsettled.move_to_end(job_id)

    def _settle(self, settled: Sequence[str]) -> None:
        for job_id in settled:
            self._unsettled.pop(job_id, None)
        long_ago = self._stopwatch() - SETTLE_SECONDS
        while self._unsettled and next(iter(self._unsettled.values())) <= long_ago:
            job_id, _ = self._unsettled.popitem(last=False)
            self._waiting.setdefault(job_id, 0)
            self._waiting.move_to_end(job_id, last=False)
            self._wake_one()

    async def _wait(self, loop: asyncio.AbstractEventLoop, until: float) -> None:
        asker: Asker = loop.create_future()
        self._askers[asker] = None
        timer = loop.call_at(until, _wake, asker)
        try:
            await asker
        except asyncio.CancelledError:
            # It may have been woken before it was cancelled, and then no other one was.
            self._askers.pop(asker, None)
            self._wake_one()
            raise
        finally:
            timer.cancel()
            self._askers.pop(asker, None)

    def _wake_one(self) -> None:
        while self._waiting and self._askers:
            asker, _ = self._askers.popitem(last=False)
            if not asker.done():
                asker.set_result(None)
                return


def _wake(asker: Asker) -> None:
    if not asker.done():
        asker.set_result(None)
