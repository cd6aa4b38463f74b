"""Servers of the public API whose handlers a test writes, and the log that they leave."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from io import StringIO
from json import loads
from typing import Any
from uuid import uuid4

import grpc

from holdfast.rpc.client import SERVICE
from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from holdfast.rpc.serving import Call, Server, Service
from holdfast.telemetry import JsonFormatter

JOB_ID = "1b4e28ba-2fa1-4d3b-883f-0016d3cca427"
Script = Callable[[Any, Call], Awaitable[Any]]


async def submit_job(_: Any, __: Call) -> pb.SubmitJobResponse:
    return pb.SubmitJobResponse(job_id=JOB_ID, initial_status=pb.QUEUED)


async def get_job_status(request: Any, _: Call) -> pb.GetJobStatusResponse:
    return pb.GetJobStatusResponse(job_id=request.job_id, status=pb.QUEUED)


async def get_job_result(request: Any, _: Call) -> pb.GetJobResultResponse:
    return pb.GetJobResultResponse(job_id=request.job_id)


async def cancel_job(request: Any, _: Call) -> pb.CancelJobResponse:
    return pb.CancelJobResponse(job_id=request.job_id, accepted=True)


async def list_jobs(_: Any, __: Call) -> pb.ListJobsResponse:
    return pb.ListJobsResponse()


PLAIN: Mapping[str, Script] = {
    "SubmitJob": submit_job,
    "GetJobStatus": get_job_status,
    "GetJobResult": get_job_result,
    "CancelJob": cancel_job,
    "ListJobs": list_jobs,
}


class Log:
    """The JSON lines that a server has written."""

    def __init__(self) -> None:
        self._text = StringIO()
        self.logger = logging.getLogger(f"test.{uuid4()}")
        self.logger.setLevel(logging.INFO)
        self.logger.propagate = False
        handler = logging.StreamHandler(self._text)
        handler.setFormatter(JsonFormatter(service="test"))
        self.logger.addHandler(handler)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [loads(line) for line in self._text.getvalue().splitlines()]


@asynccontextmanager
async def serving(
    *, listen: str = "127.0.0.1:0", log: Log | None = None, allowed: Any = None, **handlers: Script
) -> AsyncIterator[str]:
    """A server with these handlers, and plain ones for the rest: its address."""
    service = Service(descriptor=SERVICE, handlers={**PLAIN, **handlers}, allowed=allowed)
    server = Server("test", [service], log=(log or Log()).logger)
    address = await server.start(listen)
    try:
        yield address
    finally:
        await server.stop(0)


async def code_of(call: Awaitable[Any]) -> grpc.StatusCode:
    return (await refusal(call)).code()


async def refusal(call: Awaitable[Any]) -> grpc.aio.AioRpcError:
    try:
        answer = await call
    except grpc.aio.AioRpcError as error:
        return error
    raise AssertionError(f"was not refused, but answered {answer}")
