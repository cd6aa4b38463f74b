"""The client of the public API, for any of its servers.

CLIENT-1. Every call has its method's deadline; one that is tried again has it again.
CLIENT-2. Tried again is only what may help (UNAVAILABLE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED) and cannot do harm:
    every method but a SubmitJob without a key, which might make a second job.
CLIENT-3. With several targets, which are the nodes of Design B in their order, a submit goes to each of them in turn,
    and what is about one job to the node that owns it. A submit that is tried again goes to the next node.
CLIENT-4. What a server would not do reaches the caller as grpc.aio.AioRpcError, with the code and the words of the
    server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from heapq import merge
from itertools import count
from random import random
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import grpc

from holdfast.core.errors import UsageError
from holdfast.core.retry import Jitter, Retry
from holdfast.rpc import limits
from holdfast.rpc.channels import Method, Peer
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.partition import owner
from holdfast.rpc.serving import CLIENT

SERVICE: Final = public.DESCRIPTOR.services_by_name["TaskQueuePublicService"]
RETRY: Final = Retry(
    max_attempts=limits.RETRY_MAX_ATTEMPTS,
    initial_delay=limits.RETRY_INITIAL_DELAY_MS / 1000,
    max_delay=limits.RETRY_MAX_DELAY_MS / 1000,
    multiplier=limits.RETRY_MULTIPLIER,
    jitter=Jitter.FULL,
)
NO_RETRY: Final = Retry(max_attempts=1)
RETRIED: Final = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.RESOURCE_EXHAUSTED}
)
LOOK_AGAIN_MIN_SECONDS: Final = 0.01
LOOK_AGAIN_MAX_SECONDS: Final = 0.2

Answer = TypeVar("Answer")


class Node:
    """One server's five methods, each called once and never again: ``await node.submit_job(request)``."""

    def __init__(
        self, target: str, *, caller: str = CLIENT, deadlines_ms: Mapping[str, int] = limits.PUBLIC_DEADLINES_MS
    ) -> None:
        self._peer = Peer(target, caller=caller)
        self.target = target

        def method(name: str) -> Method[Any, Any]:
            return self._peer.method(SERVICE, name, timeout_ms=deadlines_ms[name])

        self.submit_job: Method[public.SubmitJobRequest, public.SubmitJobResponse] = method("SubmitJob")
        self.get_job_status: Method[public.GetJobStatusRequest, public.GetJobStatusResponse] = method("GetJobStatus")
        self.get_job_result: Method[public.GetJobResultRequest, public.GetJobResultResponse] = method("GetJobResult")
        self.cancel_job: Method[public.CancelJobRequest, public.CancelJobResponse] = method("CancelJob")
        self.list_jobs: Method[public.ListJobsRequest, public.ListJobsResponse] = method("ListJobs")

    @property
    def channel(self) -> grpc.aio.Channel:
        return self._peer.channel


class Client:
    """Submits jobs and asks about them.

    ::

        async with Client("127.0.0.1:50051") as client:
            accepted = await client.submit_job(job_type="resize", work_duration_ms=20, client_request_id="order-7")
            result = await client.wait_for_result(accepted.job_id, timeout_seconds=10)

    ``targets`` is one server, or all nodes of Design B in their order. ``deadlines_ms`` says how long a call of each
    method may take, ``retry`` how often and how soon it is tried again; ``NO_RETRY`` for never.
    """

    def __init__(
        self,
        targets: str | Sequence[str],
        *,
        retry: Retry = RETRY,
        deadlines_ms: Mapping[str, int] | None = None,
        caller: str = CLIENT,
    ) -> None:
        addresses = [targets] if isinstance(targets, str) else list(targets)
        if not addresses or not all(addresses):
            raise UsageError("a client needs the address of a server, such as 127.0.0.1:50051")
        deadlines = {**limits.PUBLIC_DEADLINES_MS, **(deadlines_ms or {})}
        if unknown := sorted(set(deadlines) - set(limits.PUBLIC_DEADLINES_MS)):
            raise UsageError(f"deadlines_ms names {', '.join(unknown)}; the methods are {', '.join(deadlines)}")
        self.nodes = [Node(address, caller=caller, deadlines_ms=deadlines) for address in addresses]
        self._retry = retry
        self._turns = count()

    async def submit_job(
        self,
        spec: public.JobSpec | None = None,
        *,
        client_request_id: str = "",
        job_type: str = "",
        work_duration_ms: int = 0,
        payload_size_bytes: int = 0,
        labels: Mapping[str, str] | None = None,
    ) -> public.SubmitJobResponse:
        """A spec, or its fields. With a ``client_request_id`` it is safe to repeat, and is repeated."""
        given = spec or public.JobSpec(
            job_type=job_type, work_duration_ms=work_duration_ms, payload_size_bytes=payload_size_bytes, labels=labels
        )
        request = public.SubmitJobRequest(spec=given, client_request_id=client_request_id)
        retry = self._retry if client_request_id else NO_RETRY
        return await _tried(lambda: self.next_node().submit_job(request), retry)

    async def get_job_status(self, job_id: str) -> public.GetJobStatusResponse:
        node, request = self.owner(job_id), public.GetJobStatusRequest(job_id=job_id)
        return await _tried(lambda: node.get_job_status(request), self._retry)

    async def get_job_result(self, job_id: str) -> public.GetJobResultResponse:
        node, request = self.owner(job_id), public.GetJobResultRequest(job_id=job_id)
        return await _tried(lambda: node.get_job_result(request), self._retry)

    async def cancel_job(self, job_id: str, *, reason: str = "") -> public.CancelJobResponse:
        node, request = self.owner(job_id), public.CancelJobRequest(job_id=job_id, reason=reason)
        return await _tried(lambda: node.cancel_job(request), self._retry)

    async def list_jobs(
        self,
        *,
        status_filter: Iterable[public.JobStatus.ValueType] = (),
        sort: public.JobSort.ValueType = public.JOB_SORT_UNSPECIFIED,
        page_size: int = 0,
        page_token: str = "",
        node: int = 0,
    ) -> public.ListJobsResponse:
        """One page of one node's jobs."""
        request = public.ListJobsRequest(
            status_filter=status_filter,
            sort=sort,
            page=public.PageRequest(page_size=page_size, page_token=page_token),
        )
        return await _tried(lambda: self.nodes[node].list_jobs(request), self._retry)

    async def list_jobs_everywhere(
        self,
        *,
        status_filter: Iterable[public.JobStatus.ValueType] = (),
        sort: public.JobSort.ValueType = public.JOB_SORT_UNSPECIFIED,
        limit: int | None = None,
    ) -> list[public.JobSummary]:
        """The jobs of all nodes in one order; at most ``limit``. No snapshot: jobs come and move meanwhile.

        Each node is asked for its own pages, and what comes back is merged here: the servers know nothing of it.
        """
        statuses = tuple(status_filter)
        lists = await asyncio.gather(*(self._all_of(node, statuses, sort, limit) for node in range(len(self.nodes))))
        merged: dict[str, public.JobSummary] = {}
        for job in merge(*lists, key=_order(sort)):
            merged.setdefault(job.job_id, job)
            if limit is not None and len(merged) >= limit:
                break
        return list(merged.values())

    async def _all_of(
        self,
        node: int,
        statuses: Sequence[public.JobStatus.ValueType],
        sort: public.JobSort.ValueType,
        limit: int | None,
    ) -> list[public.JobSummary]:
        jobs: list[public.JobSummary] = []
        token = ""
        while limit is None or len(jobs) < limit:
            page = await self.list_jobs(
                status_filter=statuses, sort=sort, page_size=limits.PAGE_SIZE_MAX, page_token=token, node=node
            )
            jobs += page.jobs
            token = page.page.next_page_token
            if not token:
                break
        return jobs

    async def wait_for_result(self, job_id: str, *, timeout_seconds: float) -> public.GetJobResultResponse:
        """Ask until the job is terminal; TimeoutError where that takes longer."""
        async with asyncio.timeout(timeout_seconds):
            pause_seconds = LOOK_AGAIN_MIN_SECONDS
            while not (result := await self.get_job_result(job_id)).result_ready:
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(pause_seconds * 2, LOOK_AGAIN_MAX_SECONDS)
            return result

    def next_node(self) -> Node:
        """Whose turn it is to get a submit."""
        return self.nodes[next(self._turns) % len(self.nodes)]

    def owner(self, job_id: str) -> Node:
        """Who is asked about this job."""
        return self.nodes[owner(job_id, len(self.nodes)) if len(self.nodes) > 1 else 0]

    async def close(self) -> None:
        for node in self.nodes:
            await node.channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def _tried(call: Callable[[], Awaitable[Answer]], retry: Retry) -> Answer:
    for attempt in range(1, retry.max_attempts):
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            if error.code() not in RETRIED:
                raise
        await asyncio.sleep(retry.delay_seconds(attempt, random=random()))
    return await call()


def _order(sort: public.JobSort.ValueType) -> Callable[[public.JobSummary], tuple[int, str]]:
    sign = 1 if sort == public.CREATED_AT_ASC else -1
    return lambda job: (sign * job.created_at_ms, job.job_id)
