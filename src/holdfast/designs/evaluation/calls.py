"""The calls of the load: the contract's deadlines and routing, and no retries, so that every failure counts.

The client routes: one target gets everything (Design A's gateway, the durable server); of several, each gets a submit
in turn, and what concerns a job goes to its owner by the stable hash.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import grpc.aio

from holdfast.designs.evaluation.tally import Job, Tally
from holdfast.rpc import limits
from holdfast.rpc.generated.taskqueue_public_pb2 import (
    CancelJobRequest,
    GetJobResultRequest,
    GetJobResultResponse,
    GetJobStatusRequest,
    GetJobStatusResponse,
    JobSpec,
    SubmitJobRequest,
)
from holdfast.rpc.generated.taskqueue_public_pb2_grpc import TaskQueuePublicServiceStub
from holdfast.rpc.partition import owner

SUBMIT_SECONDS: Final = limits.SUBMIT_JOB_DEADLINE_MS / 1000
STATUS_SECONDS: Final = limits.GET_JOB_STATUS_DEADLINE_MS / 1000
RESULT_SECONDS: Final = limits.GET_JOB_RESULT_DEADLINE_MS / 1000
CANCEL_SECONDS: Final = limits.CANCEL_JOB_DEADLINE_MS / 1000
CONNECT_SECONDS: Final = 10.0
JOB_TYPE: Final = "evaluation"
LABELS: Final = {"run": "evaluation"}
OWN_CONNECTION: Final = (("grpc.use_local_subchannel_pool", 1),)
"""Without it, channels to one address share a connection."""


def make_request(*, job_ms: int, payload_bytes: int) -> SubmitJobRequest:
    spec = JobSpec(job_type=JOB_TYPE, work_duration_ms=job_ms, payload_size_bytes=payload_bytes, labels=LABELS)
    return SubmitJobRequest(spec=spec)


class Connections:
    """One client's: a channel to each target, kept open. ``turns`` is common to all clients of a generator."""

    def __init__(self, targets: Sequence[str], turns: Iterator[int]) -> None:
        self._channels = [grpc.aio.insecure_channel(target, options=OWN_CONNECTION) for target in targets]
        self.stubs = [TaskQueuePublicServiceStub(channel) for channel in self._channels]
        self._turns = turns

    async def connect(self) -> None:
        for channel in self._channels:
            while (state := channel.get_state(try_to_connect=True)) != grpc.ChannelConnectivity.READY:
                await channel.wait_for_state_change(state)

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()

    def next_for_submit(self) -> int:
        return next(self._turns) % len(self.stubs)

    def owner_of(self, job_id: str) -> int:
        return owner(job_id, len(self.stubs))


class Caller:
    """Makes calls and notes them. ``due`` is when an open loop wanted the call; a closed loop has none."""

    def __init__(self, connections: Connections, tally: Tally) -> None:
        self._connections = connections
        self._tally = tally

    async def submit(self, request: SubmitJobRequest, *, due: float | None = None) -> Job | None:
        target = self._connections.next_for_submit()
        began_at = time.monotonic() if due is None else due
        call = self._connections.stubs[target].SubmitJob(request, timeout=SUBMIT_SECONDS)
        answer = await self._noted("submit", target, call, began_at=began_at, due=due)
        if answer is None:
            return None
        job = Job(answer.job_id, began_at, self._tally.window.has(began_at))
        self._tally.jobs.append(job)
        return job

    async def status(self, job_id: str, *, due: float | None = None) -> GetJobStatusResponse | None:
        target = self._connections.owner_of(job_id)
        began_at = time.monotonic() if due is None else due
        call = self._connections.stubs[target].GetJobStatus(GetJobStatusRequest(job_id=job_id), timeout=STATUS_SECONDS)
        answer: GetJobStatusResponse | None = await self._noted("status", target, call, began_at=began_at, due=due)
        return answer

    async def result(self, job_id: str, *, due: float | None = None) -> GetJobResultResponse | None:
        target = self._connections.owner_of(job_id)
        began_at = time.monotonic() if due is None else due
        call = self._connections.stubs[target].GetJobResult(GetJobResultRequest(job_id=job_id), timeout=RESULT_SECONDS)
        answer: GetJobResultResponse | None = await self._noted("result", target, call, began_at=began_at, due=due)
        return answer

    async def cancel(self, job_id: str) -> None:
        """Of what is left over; not a part of what is measured."""
        stub = self._connections.stubs[self._connections.owner_of(job_id)]
        try:
            await stub.CancelJob(CancelJobRequest(job_id=job_id, reason="left over"), timeout=CANCEL_SECONDS)
        except grpc.aio.AioRpcError as error:
            self._tally.error("cancel", error.code().name)

    async def _noted(self, operation: str, target: int, call: Any, *, began_at: float, due: float | None) -> Any:
        tally = self._tally
        tally.sent[operation][target] += 1
        try:
            answer = await call
        except grpc.aio.AioRpcError as error:
            tally.error(operation, error.code().name)
            return None
        ended_at = time.monotonic()
        tally.note(
            operation, began_at=began_at, ended_at=ended_at, counts=tally.window.has(ended_at if due is None else due)
        )
        return answer
