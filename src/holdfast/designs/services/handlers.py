"""The parts as gRPC services: which method of the contract is which method of a part, and who may call it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from google.protobuf.message import Message

from holdfast.designs.services import callers
from holdfast.designs.services.protocols import Coordinator, Jobs, PublicApi, Queue, Results
from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.refusals import unavailable
from holdfast.rpc.serving import Call, Handler, Service

CREATED_KEY: Final = "holdfast-created"
"""Behind the answer to a CreateJob with a key: whether this call made the job."""
HOLDING_KEY: Final = "holdfast-holding"
"""Beside a WorkerHeartbeat: the jobs that the worker has, with commas between them."""
SETTLED_KEY: Final = "holdfast-settled"
"""Beside a DequeueJob: the IDs whose jobs have ended, with commas between them."""

ANSWER_SECONDS: Final = 0.1
"""What a call leaves of its caller's time to say that another one did not answer; a tenth where that is less."""

SERVICES: Final = {
    "job": internal.DESCRIPTOR.services_by_name["JobInternalService"],
    "queue": internal.DESCRIPTOR.services_by_name["QueueInternalService"],
    "coordinator": internal.DESCRIPTOR.services_by_name["CoordinatorInternalService"],
    "result": internal.DESCRIPTOR.services_by_name["ResultInternalService"],
    "public": public.DESCRIPTOR.services_by_name["TaskQueuePublicService"],
}


class Unbroken:
    """Calls that go on when their caller has gone: between their steps a job is in nobody's hands."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __call__(self, method: Callable[[Any], Coroutine[Any, Any, Message]]) -> Handler:
        def handle(request: Any, _: Call) -> Awaitable[Message]:
            task = asyncio.ensure_future(method(request))
            self._tasks.add(task)
            task.add_done_callback(self._done)
            return asyncio.shield(task)

        return handle

    async def wait(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # Looked at, so that nobody complains when its caller has gone.


def in_time(method: Callable[[Any], Awaitable[Message]]) -> Handler:
    """A read that says UNAVAILABLE while its caller still listens, when a service behind it hangs."""

    async def handle(request: Any, call: Call) -> Message:
        try:
            async with asyncio.timeout(seconds_to_answer(call)):
                return await method(request)
        except TimeoutError as error:
            raise unavailable("a service behind this one did not answer in time; try again") from error

    return handle


def seconds_to_answer(call: Call) -> float | None:
    """How long a call may wait for others, and still be answered by us; None where its caller waits for ever."""
    left = call.seconds_left()
    return None if left is None else max(left - min(ANSWER_SECONDS, left / 10), 0.0)


def gateway_service(gateway: PublicApi, unbroken: Unbroken) -> Service:
    return Service(
        descriptor=SERVICES["public"],
        handlers={
            "SubmitJob": unbroken(gateway.submit_job),
            "GetJobStatus": in_time(gateway.get_job_status),
            "GetJobResult": in_time(gateway.get_job_result),
            "CancelJob": unbroken(gateway.cancel_job),
            "ListJobs": in_time(gateway.list_jobs),
        },
        allowed=callers.GATEWAY_SERVICE,
    )


def job_service(jobs: Jobs) -> Service:
    async def create_job(request: internal.CreateJobRequest, call: Call) -> Message:
        answer, is_new = await jobs.create_job(request)
        if request.client_request_id:
            call.set_trailing(CREATED_KEY, "1" if is_new else "0")
        return answer

    def transition(request: internal.TransitionJobStatusRequest, call: Call) -> Awaitable[Message]:
        callers.check_transition(call.caller, request)
        return jobs.transition_job_status(request)

    return Service(
        descriptor=SERVICES["job"],
        handlers={
            "CreateJob": create_job,
            "DeleteJobIfStatus": lambda request, _: jobs.delete_job_if_status(request),
            "GetJobRecord": lambda request, _: jobs.get_job_record(request),
            "ListJobRecords": lambda request, _: jobs.list_job_records(request),
            "TransitionJobStatus": transition,
            "SetCancelRequested": lambda request, _: jobs.set_cancel_requested(request),
        },
        allowed=callers.JOB_SERVICE,
    )


def queue_service(queue: Queue) -> Service:
    return Service(
        descriptor=SERVICES["queue"],
        handlers={
            "EnqueueJob": lambda request, _: queue.enqueue_job(request),
            "DequeueJob": lambda request, call: queue.dequeue_job(
                request, seconds_left=call.seconds_left(), settled=_named(call, SETTLED_KEY)
            ),
            "RemoveJobIfPresent": lambda request, _: queue.remove_job_if_present(request),
        },
        allowed=callers.QUEUE_SERVICE,
    )


def result_service(results: Results) -> Service:
    def store(request: internal.StoreResultRequest, call: Call) -> Awaitable[Message]:
        callers.check_store(call.caller, request)
        return results.store_result(request)

    return Service(
        descriptor=SERVICES["result"],
        handlers={"StoreResult": store, "GetResult": lambda request, _: results.get_result(request)},
        allowed=callers.RESULT_SERVICE,
    )


def coordinator_service(coordinator: Coordinator, unbroken: Unbroken) -> Service:
    def heartbeat(request: internal.WorkerHeartbeatRequest, call: Call) -> Awaitable[Message]:
        return coordinator.worker_heartbeat(request, holding=_named(call, HOLDING_KEY))

    return Service(
        descriptor=SERVICES["coordinator"],
        handlers={
            "WorkerHeartbeat": heartbeat,
            "FetchWork": lambda request, call: coordinator.fetch_work(request, seconds_left=call.seconds_left()),
            "ReportWorkOutcome": unbroken(coordinator.report_work_outcome),
        },
        allowed=callers.COORDINATOR_SERVICE,
    )


def _named(call: Call, key: str) -> list[str] | None:
    """The IDs that a caller sent along, none of them too; None where it does not send any."""
    named = call.metadata(key)
    return None if named is None else [job_id for job_id in named.split(",") if job_id]
