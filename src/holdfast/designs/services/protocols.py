"""What the parts know of each other: one small protocol a service of the contract.

The contract's messages are the language. A part that fulfils a protocol is either the thing itself, in this process, or
``remote``'s stand-in for it in another one; who calls it cannot tell. Both say no with a Refusal.
"""

from collections.abc import Sequence
from typing import Protocol

from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as public


class Jobs(Protocol):
    """The job table: what a job is and how it stands."""

    async def create_job(self, request: internal.CreateJobRequest) -> tuple[internal.CreateJobResponse, bool]:
        """The job, and whether this very call has made it: only then may the caller take it back."""
        ...

    async def delete_job_if_status(
        self, request: internal.DeleteJobIfStatusRequest
    ) -> internal.DeleteJobIfStatusResponse: ...

    async def get_job_record(self, request: internal.GetJobRecordRequest) -> internal.GetJobRecordResponse: ...

    async def list_job_records(self, request: internal.ListJobRecordsRequest) -> internal.ListJobRecordsResponse: ...

    async def transition_job_status(
        self, request: internal.TransitionJobStatusRequest
    ) -> internal.TransitionJobStatusResponse: ...

    async def set_cancel_requested(
        self, request: internal.SetCancelRequestedRequest
    ) -> internal.SetCancelRequestedResponse: ...


class Queue(Protocol):
    """Which jobs wait, in the order in which they came."""

    async def enqueue_job(self, request: internal.EnqueueJobRequest) -> internal.EnqueueJobResponse: ...

    async def dequeue_job(
        self,
        request: internal.DequeueJobRequest,
        *,
        seconds_left: float | None = None,
        settled: Sequence[str] | None = None,
    ) -> internal.DequeueJobResponse:
        """Waits a little where there is nothing. ``seconds_left``: how long the caller waits for the answer.

        ``settled``: the jobs of these IDs have ended. Who says so, even of none, gets an ID that it has not settled for
        some time once more.
        """
        ...

    async def remove_job_if_present(
        self, request: internal.RemoveJobIfPresentRequest
    ) -> internal.RemoveJobIfPresentResponse: ...


class Results(Protocol):
    """How jobs ended."""

    async def store_result(self, request: internal.StoreResultRequest) -> internal.StoreResultResponse: ...

    async def get_result(self, request: internal.GetResultRequest) -> internal.GetResultResponse: ...


class Coordinator(Protocol):
    """Which worker runs which job."""

    async def worker_heartbeat(
        self, request: internal.WorkerHeartbeatRequest, *, holding: Sequence[str] | None = None
    ) -> internal.WorkerHeartbeatResponse:
        """``holding``: the jobs that the worker has; None where it does not say."""
        ...

    async def fetch_work(
        self, request: internal.FetchWorkRequest, *, seconds_left: float | None = None
    ) -> internal.FetchWorkResponse: ...

    async def report_work_outcome(
        self, request: internal.ReportWorkOutcomeRequest
    ) -> internal.ReportWorkOutcomeResponse: ...


class PublicApi(Protocol):
    """What a client can ask for."""

    async def submit_job(self, request: public.SubmitJobRequest) -> public.SubmitJobResponse: ...

    async def get_job_status(self, request: public.GetJobStatusRequest) -> public.GetJobStatusResponse: ...

    async def get_job_result(self, request: public.GetJobResultRequest) -> public.GetJobResultResponse: ...

    async def cancel_job(self, request: public.CancelJobRequest) -> public.CancelJobResponse: ...

    async def list_jobs(self, request: public.ListJobsRequest) -> public.ListJobsResponse: ...
