"""``python -m holdfast.designs.evaluation.echo``: a bare grpc.aio server of the public API, and nothing behind it.

The floor of the speed figures: no checks, no log, no interceptor, an answer of the right size that was made beforehand.
Alone it answers SubmitJob at once. As the head of a chain it first asks two others, one after the other, with the
messages of CreateJob and EnqueueJob: the three calls that a SubmitJob through Design A consists of.
"""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final
from uuid import uuid4

import grpc.aio

from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as public

PUBLIC: Final = "taskqueue.v1.TaskQueuePublicService"
JOBS: Final = "taskqueue.internal.v1.JobInternalService"
QUEUE: Final = "taskqueue.internal.v1.QueueInternalService"
SOME_TIME_MS: Final = 1_790_000_000_000
SOME_ID: Final = str(uuid4())

Answer = Callable[[Any, Any], Awaitable[Any]]


def submitted() -> public.SubmitJobResponse:
    return public.SubmitJobResponse(job_id=SOME_ID, initial_status=public.QUEUED, accepted_at_ms=SOME_TIME_MS)


async def answer_submit(request: public.SubmitJobRequest, context: Any) -> public.SubmitJobResponse:  # noqa: ARG001
    return submitted()


async def answer_create(request: internal.CreateJobRequest, context: Any) -> internal.CreateJobResponse:  # noqa: ARG001
    return internal.CreateJobResponse(job_id=SOME_ID, status=public.QUEUED)


async def answer_enqueue(request: internal.EnqueueJobRequest, context: Any) -> internal.EnqueueJobResponse:  # noqa: ARG001
    return internal.EnqueueJobResponse(accepted=True)


class Head:
    """The first of the chain."""

    def __init__(self, jobs: str, queue: str) -> None:
        self._channels = [grpc.aio.insecure_channel(target) for target in (jobs, queue)]
        self._create = self._channels[0].unary_unary(
            f"/{JOBS}/CreateJob",
            request_serializer=internal.CreateJobRequest.SerializeToString,
            response_deserializer=internal.CreateJobResponse.FromString,
        )
        self._enqueue = self._channels[1].unary_unary(
            f"/{QUEUE}/EnqueueJob",
            request_serializer=internal.EnqueueJobRequest.SerializeToString,
            response_deserializer=internal.EnqueueJobResponse.FromString,
        )

    async def answer(self, request: public.SubmitJobRequest, context: Any) -> public.SubmitJobResponse:  # noqa: ARG002
        created = await self._create(internal.CreateJobRequest(spec=request.spec), timeout=1.0)
        await self._enqueue(internal.EnqueueJobRequest(job_id=created.job_id, enqueued_at_ms=SOME_TIME_MS), timeout=1.0)
        return submitted()


def make_server(submit: Answer) -> grpc.aio.Server:
    server = grpc.aio.server()
    methods = (
        (PUBLIC, "SubmitJob", submit, public.SubmitJobRequest),
        (JOBS, "CreateJob", answer_create, internal.CreateJobRequest),
        (QUEUE, "EnqueueJob", answer_enqueue, internal.EnqueueJobRequest),
    )
    for service, method, answer, request in methods:
        handler = grpc.unary_unary_rpc_method_handler(
            answer, request_deserializer=request.FromString, response_serializer=_serialized
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    return server


def _serialized(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data


async def serve(chain: list[str]) -> None:
    server = make_server(Head(*chain).answer if chain else answer_submit)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(json.dumps({"event": "ready", "address": f"127.0.0.1:{port}"}) + "\n")
    sys.stdout.flush()
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    await stopping.wait()
    await server.stop(0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A bare grpc.aio echo on a free port, which it says.")
    parser.add_argument("--chain", nargs=2, default=[], metavar="HOST:PORT", help="ask these two before answering")
    asyncio.run(serve(parser.parse_args().chain))
