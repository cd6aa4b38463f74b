"""The parts in other processes: each protocol over a kept channel.

An answer that is not OK becomes a Refusal here, so that the logic sees the same as of a part in its own process. The
service's being away, or too slow, is UNAVAILABLE.
"""

from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf.message import Message

from holdfast.designs.services.handlers import CREATED_KEY, HOLDING_KEY, SERVICES, SETTLED_KEY
from holdfast.rpc import limits
from holdfast.rpc.channels import Metadata, Method, Peer
from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.refusals import Refusal, of_answer


class _Remote:
    def __init__(self, peer: Peer, service: str) -> None:
        self._peer = peer
        self._service = service

    def _method(self, name: str, *, timeout_ms: int = limits.INTERNAL_DEADLINE_MS) -> Method[Any, Any]:
        return self._peer.method(SERVICES[self._service], name, timeout_ms=timeout_ms)

    async def _ask(
        self,
        method: Method[Any, Any],
        request: Message,
        *,
        timeout_seconds: float | None = None,
        metadata: Metadata = (),
    ) -> Any:
        try:
            return await method(request, timeout_seconds=timeout_seconds, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise self._refusal(error) from error

    def _refusal(self, error: grpc.aio.AioRpcError) -> Refusal:
        refusal = of_answer(error)
        if refusal.code is not grpc.StatusCode.UNAVAILABLE:
            return refusal
        code = error.code().name
        return Refusal(
            refusal.code, f"{self._service} at {self._peer.target} did not answer: {code}, {error.details()}"
        )


class RemoteJobs(_Remote):
    def __init__(self, peer: Peer) -> None:
        super().__init__(peer, "job")
        self._create = self._method("CreateJob")
        self._delete = self._method("DeleteJobIfStatus")
        self._get = self._method("GetJobRecord")
        self._list = self._method("ListJobRecords")
        self._transition = self._method("TransitionJobStatus")
        self._set_cancel = self._method("SetCancelRequested")

    async def create_job(self, request: internal.CreateJobRequest) -> tuple[internal.CreateJobResponse, bool]:
        if not request.client_request_id:
            return await self._ask(self._create, request), True
        call = self._create.start(request)
        try:
            answer = await call
            behind = await call.trailing_metadata()
        except grpc.aio.AioRpcError as error:
            raise self._refusal(error) from error
        # Where it is not said, somebody else may have been given the job: it is not ours to take back.
        return answer, behind.get(CREATED_KEY) == "1"

    async def delete_job_if_status(
        self, request: internal.DeleteJobIfStatusRequest
    ) -> internal.DeleteJobIfStatusResponse:
        answer: internal.DeleteJobIfStatusResponse = await self._ask(self._delete, request)
        return answer

    async def get_job_record(self, request: internal.GetJobRecordRequest) -> internal.GetJobRecordResponse:
        answer: internal.GetJobRecordResponse = await self._ask(self._get, request)
        return answer

    async def list_job_records(self, request: internal.ListJobRecordsRequest) -> internal.ListJobRecordsResponse:
        answer: internal.ListJobRecordsResponse = await self._ask(self._list, request)
        return answer

    async def transition_job_status(
        self, request: internal.TransitionJobStatusRequest
    ) -> internal.TransitionJobStatusResponse:
        answer: internal.TransitionJobStatusResponse = await self._ask(self._transition, request)
        return answer

    async def set_cancel_requested(
        self, request: internal.SetCancelRequestedRequest
    ) -> internal.SetCancelRequestedResponse:
        answer: internal.SetCancelRequestedResponse = await self._ask(self._set_cancel, request)
        return answer


class RemoteQueue(_Remote):
    def __init__(self, peer: Peer) -> None:
        super().__init__(peer, "queue")
        self._enqueue = self._method("EnqueueJob")
        self._dequeue = self._method("DequeueJob")
        self._remove = self._method("RemoveJobIfPresent")

    async def enqueue_job(self, request: internal.EnqueueJobRequest) -> internal.EnqueueJobResponse:
        answer: internal.EnqueueJobResponse = await self._ask(self._enqueue, request)
        return answer

    async def dequeue_job(
        self,
        request: internal.DequeueJobRequest,
        *,
        seconds_left: float | None = None,
        settled: Sequence[str] | None = None,
    ) -> internal.DequeueJobResponse:
        metadata = () if settled is None else ((SETTLED_KEY, ",".join(settled)),)
        answer: internal.DequeueJobResponse = await self._ask(
            self._dequeue, request, timeout_seconds=seconds_left, metadata=metadata
        )
        return answer

    async def remove_job_if_present(
        self, request: internal.RemoveJobIfPresentRequest
    ) -> internal.RemoveJobIfPresentResponse:
        answer: internal.RemoveJobIfPresentResponse = await self._ask(self._remove, request)
        return answer


class RemoteResults(_Remote):
    def __init__(self, peer: Peer) -> None:
        super().__init__(peer, "result")
        self._store = self._method("StoreResult")
        self._get = self._method("GetResult")

    async def store_result(self, request: internal.StoreResultRequest) -> internal.StoreResultResponse:
        answer: internal.StoreResultResponse = await self._ask(self._store, request)
        return answer

    async def get_result(self, request: internal.GetResultRequest) -> internal.GetResultResponse:
        answer: internal.GetResultResponse = await self._ask(self._get, request)
        return answer


class RemoteCoordinator(_Remote):
    def __init__(self, peer: Peer) -> None:
        super().__init__(peer, "coordinator")
        self._heartbeat = self._method("WorkerHeartbeat", timeout_ms=limits.WORKER_HEARTBEAT_DEADLINE_MS)
        self._fetch = self._method("FetchWork", timeout_ms=limits.FETCH_WORK_DEADLINE_MS)
        self._report = self._method("ReportWorkOutcome")

    async def worker_heartbeat(
        self, request: internal.WorkerHeartbeatRequest, *, holding: Sequence[str] | None = None
    ) -> internal.WorkerHeartbeatResponse:
        metadata = () if holding is None else ((HOLDING_KEY, ",".join(holding)),)
        answer: internal.WorkerHeartbeatResponse = await self._ask(self._heartbeat, request, metadata=metadata)
        return answer

    async def fetch_work(
        self, request: internal.FetchWorkRequest, *, seconds_left: float | None = None
    ) -> internal.FetchWorkResponse:
        answer: internal.FetchWorkResponse = await self._ask(self._fetch, request, timeout_seconds=seconds_left)
        return answer

    async def report_work_outcome(
        self, request: internal.ReportWorkOutcomeRequest
    ) -> internal.ReportWorkOutcomeResponse:
        answer: internal.ReportWorkOutcomeResponse = await self._ask(self._report, request)
        return answer
