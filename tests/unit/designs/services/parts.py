"""The real parts, wired in one process, each behind a door at which a test can lose a call or hold it up."""

import asyncio
import logging
from collections import defaultdict, deque
from typing import Any, Literal, cast
from uuid import uuid4

from holdfast.designs.services.coordinator import WorkCoordinator
from holdfast.designs.services.gateway import Gateway
from holdfast.designs.services.jobs import JobTable
from holdfast.designs.services.protocols import Jobs, Queue, Results
from holdfast.designs.services.queue import FifoQueue
from holdfast.designs.services.results import ResultTable
from holdfast.designs.services.roster import Roster
from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.refusals import unavailable

LOG = logging.getLogger("holdfast.designs.services.test")
SPEC = public.JobSpec(job_type="test", payload_size_bytes=3)


class Clock:
    """Stands still until it is told."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def stopwatch(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


class Hold:
    """A call that waits at the door: ``reached`` when it is there, and goes on, or fails, when ``released``."""

    def __init__(self, *, is_failing: bool) -> None:
        self.is_failing = is_failing
        self.reached = asyncio.Event()
        self.released = asyncio.Event()


Fault = Literal["before", "after"] | Hold


class Door:
    """A part whose calls fail when a test says so: ``before`` they have done anything, or ``after``, when they have and
    only the answer is lost. Everything else is the part itself."""

    def __init__(self, part: object) -> None:
        self.part = part
        self.calls: list[str] = []
        self._faults: defaultdict[str, deque[Fault]] = defaultdict(deque)

    def fail(self, method: str, fault: Literal["before", "after"] = "before", *, times: int = 1) -> None:
        self._faults[method].extend([fault] * times)

    def hold(self, method: str, *, is_failing: bool = False) -> Hold:
        hold = Hold(is_failing=is_failing)
        self._faults[method].append(hold)
        return hold

    def __getattr__(self, name: str) -> Any:
        async def call(request: Any, **options: Any) -> Any:
            self.calls.append(name)
            fault = self._faults[name].popleft() if self._faults[name] else None
            if isinstance(fault, Hold):
                fault.reached.set()
                await fault.released.wait()
            if fault == "before" or (isinstance(fault, Hold) and fault.is_failing):
                raise unavailable(f"{name}: away")
            answer = await getattr(self.part, name)(request, **options)
            if fault == "after":
                raise unavailable(f"{name}: the answer was lost")
            return answer

        return call


class Parts:
    def __init__(self) -> None:
        self.clock = Clock()
        self.job_table = JobTable(log=LOG, clock=self.clock.now_ms)
        self.fifo = FifoQueue(stopwatch=self.clock.stopwatch)
        self.jobs, self.queue, self.results = Door(self.job_table), Door(self.fifo), Door(ResultTable())
        self.roster = Roster(stopwatch=self.clock.stopwatch)
        self.coordinator = self._coordinator()
        self.gateway = Gateway(
            jobs=cast(Jobs, self.jobs),
            queue=cast(Queue, self.queue),
            results=cast(Results, self.results),
            log=LOG,
            clock=self.clock.now_ms,
        )

    def restart_coordinator(self) -> None:
        """A new one, which knows nothing."""
        self.roster = Roster(stopwatch=self.clock.stopwatch)
        self.coordinator = self._coordinator()

    def restart_job_table(self) -> None:
        """A new one, which has no job."""
        self.job_table = self.jobs.part = JobTable(log=LOG, clock=self.clock.now_ms)

    def _coordinator(self) -> WorkCoordinator:
        return WorkCoordinator(
            jobs=cast(Jobs, self.jobs),
            queue=cast(Queue, self.queue),
            results=cast(Results, self.results),
            log=LOG,
            roster=self.roster,
        )

    async def submit(self, key: str = "", **fields: Any) -> str:
        spec = public.JobSpec(**fields) if fields else SPEC
        answer = await self.gateway.submit_job(public.SubmitJobRequest(spec=spec, client_request_id=key))
        return answer.job_id

    async def status(self, job_id: str) -> str:
        answer = await self.gateway.get_job_status(public.GetJobStatusRequest(job_id=job_id))
        return public.JobStatus.Name(answer.status)

    async def read(self, job_id: str) -> public.GetJobStatusResponse:
        return await self.gateway.get_job_status(public.GetJobStatusRequest(job_id=job_id))

    async def result(self, job_id: str) -> public.GetJobResultResponse:
        return await self.gateway.get_job_result(public.GetJobResultRequest(job_id=job_id))

    async def cancel(self, job_id: str, reason: str = "") -> public.CancelJobResponse:
        return await self.gateway.cancel_job(public.CancelJobRequest(job_id=job_id, reason=reason))

    async def heartbeat(self, worker: str = "w1", holding: list[str] | None = None) -> None:
        await self.coordinator.worker_heartbeat(
            internal.WorkerHeartbeatRequest(worker_id=worker, capacity_hint=6), holding=holding
        )

    async def fetch(self, worker: str = "w1", seconds_left: float | None = None) -> internal.FetchWorkResponse:
        request = internal.FetchWorkRequest(worker_id=worker)
        return await self.coordinator.fetch_work(request, seconds_left=seconds_left)

    async def report(self, job_id: str, worker: str = "w1", **fields: Any) -> bool:
        fields = {"outcome": internal.SUCCEEDED, "output_bytes": b"abc", **fields}
        request = internal.ReportWorkOutcomeRequest(job_id=job_id, worker_id=worker, **fields)
        return (await self.coordinator.report_work_outcome(request)).accepted

    async def lose_worker(self, worker: str = "w1") -> None:
        """It falls silent; the coordinator notices."""
        self.clock.advance(4.1)
        await self.coordinator.look_after_workers()
        assert not self.roster.is_alive(worker)


def new_id() -> str:
    return str(uuid4())
