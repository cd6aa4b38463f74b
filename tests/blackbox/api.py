"""The public API as a stranger sees it: generated stubs, addresses, and nothing else of Holdfast."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any, TypeVar
from uuid import uuid4

import grpc
from google.protobuf.message import Message

from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from holdfast.rpc.generated.taskqueue_public_pb2_grpc import TaskQueuePublicServiceStub

LONG_SECONDS = 30.0
"""Far more than anything here takes."""
LOOK_SECONDS = 0.01
TERMINAL = frozenset({pb.DONE, pb.FAILED, pb.CANCELED})
PAGE_SIZE_MAX = 200
MAX_PAGES = 1_000

OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    # A server that was killed and is back is found again soon.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 500),
)

Answer = TypeVar("Answer")


def spec(job_type: str = "test", *, ms: int = 0, size: int = 0, labels: Mapping[str, str] | None = None) -> pb.JobSpec:
    return pb.JobSpec(job_type=job_type, work_duration_ms=ms, payload_size_bytes=size, labels=labels)


def new_key() -> str:
    return f"key-{uuid4()}"


def until(look: Callable[[], Answer], *, is_so: Callable[[Answer], bool], what: str) -> Answer:
    """Look again until it is so."""
    deadline = time.monotonic() + LONG_SECONDS
    while not is_so(seen := look()):
        assert time.monotonic() < deadline, f"never {what}; last seen: {seen}"
        time.sleep(LOOK_SECONDS)
    return seen


def refusal(call: Callable[[], Any]) -> grpc.RpcError:
    """The error that a call ends with."""
    try:
        answer = call()
    except grpc.RpcError as error:
        return error
    raise AssertionError(f"was not refused, but answered: {answer}")


def code_of(call: Callable[[], Any]) -> grpc.StatusCode:
    try:
        call()
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


class Api:
    """Calls go to the addresses in turn: with Design B most of them reach a node that is not the job's owner."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self.addresses = tuple(addresses)
        self._channels = [grpc.insecure_channel(address, options=OPTIONS) for address in addresses]
        self._stubs = [TaskQueuePublicServiceStub(channel) for channel in self._channels]
        self._turns = cycle(self._stubs)

    def close(self) -> None:
        for channel in self._channels:
            channel.close()

    def at(self, number: int) -> "Api":
        """The same over one of the addresses only. Its channel is ours to close."""
        one = Api(())
        one.addresses = (self.addresses[number],)
        one._stubs = [self._stubs[number]]
        one._turns = cycle(one._stubs)
        return one

    def each(self) -> Iterator["Api"]:
        return (self.at(number) for number in range(len(self.addresses)))

    @property
    def stub(self) -> TaskQueuePublicServiceStub:
        return next(self._turns)

    def submit(self, given: pb.JobSpec | None = None, *, key: str = "") -> pb.SubmitJobResponse:
        request = pb.SubmitJobRequest(spec=given or spec(), client_request_id=key)
        return self.stub.SubmitJob(request, timeout=LONG_SECONDS)

    def submit_many(self, given: Sequence[pb.JobSpec], *, keys: Sequence[str] | None = None) -> list[Any]:
        """All at once; for each its response, or the error it ended with."""
        calls = [
            self.stub.SubmitJob.future(pb.SubmitJobRequest(spec=one, client_request_id=key), timeout=LONG_SECONDS)
            for one, key in zip(given, keys or [""] * len(given), strict=True)
        ]
        return [call.exception() or call.result() for call in calls]

    def status(self, job_id: str) -> pb.GetJobStatusResponse:
        return self.stub.GetJobStatus(pb.GetJobStatusRequest(job_id=job_id), timeout=LONG_SECONDS)

    def result(self, job_id: str) -> pb.GetJobResultResponse:
        return self.stub.GetJobResult(pb.GetJobResultRequest(job_id=job_id), timeout=LONG_SECONDS)

    def cancel(self, job_id: str, reason: str = "not wanted") -> pb.CancelJobResponse:
        return self.stub.CancelJob(pb.CancelJobRequest(job_id=job_id, reason=reason), timeout=LONG_SECONDS)

    def page(
        self,
        *,
        statuses: Sequence["pb.JobStatus.ValueType"] = (),
        size: int = 0,
        token: str = "",
        sort: "pb.JobSort.ValueType" = pb.JOB_SORT_UNSPECIFIED,
    ) -> pb.ListJobsResponse:
        asked = pb.PageRequest(page_size=size, page_token=token)
        return self.stub.ListJobs(
            pb.ListJobsRequest(status_filter=statuses, page=asked, sort=sort), timeout=LONG_SECONDS
        )

    def walk(self, *, size: int = PAGE_SIZE_MAX, **which: Any) -> list[pb.JobSummary]:
        """Every page to the end, of one address."""
        jobs: list[pb.JobSummary] = []
        token = ""
        for _ in range(MAX_PAGES):
            page = self.page(size=size, token=token, **which)
            jobs += page.jobs
            token = page.page.next_page_token
            if not token:
                return jobs
        raise AssertionError(f"no end after {MAX_PAGES} pages")

    def ended(self, job_id: str) -> pb.GetJobStatusResponse:
        """Its status, once it is terminal."""
        return until(lambda: self.status(job_id), is_so=lambda seen: seen.status in TERMINAL, what=f"did {job_id} end")

    def started(self, job_id: str) -> pb.GetJobStatusResponse:
        return until(
            lambda: self.status(job_id), is_so=lambda seen: seen.status != pb.QUEUED, what=f"did {job_id} start"
        )

    def done(self, given: pb.JobSpec | None = None) -> str:
        """The ID of a job that has ended."""
        job_id = self.submit(given).job_id
        self.ended(job_id)
        return job_id


def named(message: Message) -> dict[str, Any]:
    """Its fields, those that are not set too."""
    return {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}
