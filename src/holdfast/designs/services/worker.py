"""The worker: as many slots as it has capacity, each of which asks for a job, does its work and reports it.

An idle slot waits inside its FetchWork, which the coordinator holds open for a while; it asks again at once when that
was at least as long as the hint said, and else after the rest of it. So nobody polls, and a job is taken when it comes.

WORKERSERVICE-1. A report is repeated until it is accepted or refused: it is idempotent. Until then its slot takes no
    other job.
WORKERSERVICE-2. A heartbeat names every job whose FetchWork has been answered and whose report has not: the coordinator
    learns by it what a lost answer, or its own restart, has made it wrong about.
WORKERSERVICE-3. The coordinator's being away ends nothing: the worker asks again, at most a second later, and is known
    again with its next heartbeat.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

import grpc

from holdfast.designs.services.clock import WallClock, now_ms
from holdfast.designs.services.protocols import Coordinator
from holdfast.designs.services.settings import MAX_SLOTS
from holdfast.rpc import limits
from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.refusals import Refusal
from holdfast.rpc.work import NO_BYTES_CHECKSUM, Output, do_work, failed_summary

Work = Callable[[public.JobSpec], Awaitable[Output]]

REFUSED: Final = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
    }
)
"""The same report would be answered so again. A job that is RUNNING all the same is missed by the next heartbeat."""
FIRST_PAUSE_SECONDS: Final = limits.RETRY_INITIAL_DELAY_MS / 1000
LONGEST_PAUSE_SECONDS: Final = limits.RETRY_MAX_DELAY_MS / 1000
HEARTBEAT_AGAIN_SECONDS: Final = 0.25
SHORTEST_HEARTBEAT_SECONDS: Final = 0.05


class WorkerService:
    def __init__(
        self,
        coordinator: Coordinator,
        *,
        worker_id: str,
        slots: int,
        log: logging.Logger,
        work: Work = do_work,
        clock: WallClock = now_ms,
    ) -> None:
        if not 1 <= slots <= MAX_SLOTS:
            raise ValueError(f"a worker has 1 to {MAX_SLOTS} slots, not {slots}")
        self._coordinator = coordinator
        self._worker_id = worker_id
        self._slots = slots
        self._log = log
        self._work = work
        self._clock = clock
        self._holding: set[str] = set()
        self._is_stopping = False
        self._is_away = False
        self._heart: asyncio.Task[None] | None = None
        self._running: list[asyncio.Task[None]] = []
        self._busy: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._heart = asyncio.ensure_future(self._beat())
        self._running = [asyncio.ensure_future(self._serve()) for _ in range(self._slots)]

    async def stop(self, grace_seconds: float = limits.STOP_GRACE_SECONDS) -> None:
        """Take no more jobs, and finish those that are held, if the grace is long enough for it."""
        self._is_stopping = True
        for task in self._running:
            if task not in self._busy:
                task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=grace_seconds)
        tasks = [*self._running, *([] if self._heart is None else [self._heart])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _beat(self) -> None:
        while True:
            seconds = await self._beat_once()
            await asyncio.sleep(seconds)

    async def _beat_once(self) -> float:
        """Seconds until the next one."""
        request = internal.WorkerHeartbeatRequest(
            worker_id=self._worker_id, heartbeat_at_ms=self._clock(), capacity_hint=self._slots
        )
        try:
            answer = await self._coordinator.worker_heartbeat(request, holding=tuple(self._holding))
        except Refusal as refusal:
            self._say_away(refusal)
            return HEARTBEAT_AGAIN_SECONDS
        except Exception:
            self._log.exception("a heartbeat failed", extra={"event": "unexpected"})
            return HEARTBEAT_AGAIN_SECONDS
        self._say_back()
        return max(answer.next_heartbeat_in_ms / 1000, SHORTEST_HEARTBEAT_SECONDS)

    async def _serve(self) -> None:
        """One slot, until the worker stops."""
        failures = 0
        while not self._is_stopping:
            try:
                await self._serve_once()
                failures = 0
            except Refusal as refusal:
                self._say_away(refusal)
                failures += 1
            except Exception:
                self._log.exception("a slot failed and goes on", extra={"event": "unexpected"})
                failures += 1
            if failures:
                await asyncio.sleep(pause_seconds(failures))

    async def _serve_once(self) -> None:
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        answer = await self._coordinator.fetch_work(internal.FetchWorkRequest(worker_id=self._worker_id))
        if answer.assigned:
            await self._run(answer)
        else:
            await asyncio.sleep(answer.retry_after_ms / 1000 - (loop.time() - asked_at))

    async def _run(self, job: internal.FetchWorkResponse) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._holding.add(job.job_id)
        self._busy.add(task)
        try:
            await self._report(await self._report_of(job))
        finally:
            self._busy.discard(task)
            self._holding.discard(job.job_id)

    async def _report_of(self, job: internal.FetchWorkResponse) -> internal.ReportWorkOutcomeRequest:
        try:
            output = await self._work(job.spec)
        except Exception as error:
            self._log.exception("the work failed", extra={"event": "work_failed", "job_id": job.job_id})
            reason = f"{type(error).__name__}: {error}"[: limits.MAX_REASON_CHARACTERS]
            output = Output(
                output_summary=failed_summary(type(error).__name__), checksum=NO_BYTES_CHECKSUM, failure_reason=reason
            )
        return internal.ReportWorkOutcomeRequest(
            worker_id=self._worker_id,
            job_id=job.job_id,
            outcome=internal.FAILED if output.failure_reason else internal.SUCCEEDED,
            runtime_ms=output.runtime_ms,
            failure_reason=output.failure_reason,
            output_summary=output.output_summary,
            output_bytes=output.output_bytes,
            checksum=output.checksum,
        )

    async def _report(self, report: internal.ReportWorkOutcomeRequest) -> None:
        tries = 0
        while True:
            try:
                await self._coordinator.report_work_outcome(report)
                return
            except Refusal as refusal:
                if refusal.code in REFUSED:
                    extra = {"event": "report_refused", "job_id": report.job_id, "grpc_code": refusal.code.name}
                    self._log.warning("the outcome was refused: %s", refusal.message, extra=extra)
                    return
                self._say_away(refusal)
            tries += 1
            await asyncio.sleep(pause_seconds(tries))

    def _say_away(self, refusal: Refusal) -> None:
        if not self._is_away:
            extra = {"event": "coordinator_away", "worker_id": self._worker_id, "grpc_code": refusal.code.name}
            self._log.warning("no work for now, trying again: %s", refusal.message, extra=extra)
        self._is_away = True

    def _say_back(self) -> None:
        if self._is_away:
            extra = {"event": "coordinator_back", "worker_id": self._worker_id}
            self._log.info("the coordinator answers again", extra=extra)
        self._is_away = False


def pause_seconds(failures: int) -> float:
    """Doubled each time up to a second, and somewhere in the upper half of that: slots do not come back together."""
    longest: float = min(FIRST_PAUSE_SECONDS * 2 ** min(failures - 1, 10), LONGEST_PAUSE_SECONDS)
    return longest * random.uniform(0.5, 1.0)
