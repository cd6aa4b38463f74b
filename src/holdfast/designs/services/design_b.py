"""Design B: identical nodes, each with all the parts in one process. They keep nothing in common.

A node makes job IDs that hash to itself (``rpc/partition``), so the node that takes a submit owns its job. What is
about a job belongs to its owner, and a submit with a key to the key's owner, which is the one that can know the key.
Who asks another node is forwarded to that one, over the same public API.

DESIGNB-1. A call is forwarded once: a node that is asked by a node answers itself, or says that the two disagree, which
    asking again does not help.
DESIGNB-2. The owner's being away is UNAVAILABLE, at once or when the call's own deadline ends.
DESIGNB-3. ListJobs is about this node's own jobs.
"""

import logging
from collections.abc import Awaitable, Sequence
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from holdfast.designs.services import callers
from holdfast.designs.services.coordinator import WorkCoordinator
from holdfast.designs.services.gateway import Gateway
from holdfast.designs.services.handlers import SERVICES, seconds_to_answer
from holdfast.designs.services.jobs import JobTable
from holdfast.designs.services.part import Part
from holdfast.designs.services.queue import FifoQueue
from holdfast.designs.services.results import ResultTable
from holdfast.designs.services.worker import WorkerService
from holdfast.rpc.channels import Method
from holdfast.rpc.checks import check_job_id, check_submit
from holdfast.rpc.client import Node as Neighbour
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.partition import make_owned_id, owner
from holdfast.rpc.refusals import Refusal, of_answer, unavailable
from holdfast.rpc.serving import Call, Server, Service

ROLE: Final = "node"

JobRequest = public.GetJobStatusRequest | public.GetJobResultRequest | public.CancelJobRequest


class Node:
    """The public API of one node: its own gateway, or another node's."""

    def __init__(self, gateway: Gateway, *, index: int, addresses: Sequence[str]) -> None:
        self._gateway = gateway
        self._index = index
        self._count = len(addresses)
        self._neighbours = {
            number: Neighbour(address, caller=callers.NODE)
            for number, address in enumerate(addresses)
            if number != index
        }

    def submit_job(self, request: public.SubmitJobRequest, call: Call) -> Awaitable[Message]:
        key = request.client_request_id
        if not key:
            return self._gateway.submit_job(request)
        place = owner(key, self._count)
        if place == self._index:
            return self._gateway.submit_job(request)
        check_submit(request)
        return self._forward(self._neighbour(place, call).submit_job, request, call)

    def get_job_status(self, request: public.GetJobStatusRequest, call: Call) -> Awaitable[Message]:
        if (place := self._owner(request)) == self._index:
            return self._gateway.get_job_status(request)
        return self._forward(self._neighbour(place, call).get_job_status, request, call)

    def get_job_result(self, request: public.GetJobResultRequest, call: Call) -> Awaitable[Message]:
        if (place := self._owner(request)) == self._index:
            return self._gateway.get_job_result(request)
        return self._forward(self._neighbour(place, call).get_job_result, request, call)

    def cancel_job(self, request: public.CancelJobRequest, call: Call) -> Awaitable[Message]:
        if (place := self._owner(request)) == self._index:
            return self._gateway.cancel_job(request)
        return self._forward(self._neighbour(place, call).cancel_job, request, call)

    def list_jobs(self, request: public.ListJobsRequest, _: Call) -> Awaitable[Message]:
        return self._gateway.list_jobs(request)

    async def close(self) -> None:
        for neighbour in self._neighbours.values():
            await neighbour.channel.close()

    def service(self) -> Service:
        return Service(
            descriptor=SERVICES["public"],
            handlers={
                "SubmitJob": self.submit_job,
                "GetJobStatus": self.get_job_status,
                "GetJobResult": self.get_job_result,
                "CancelJob": self.cancel_job,
                "ListJobs": self.list_jobs,
            },
            allowed=callers.NODE_SERVICE,
        )

    def _owner(self, request: JobRequest) -> int:
        return owner(check_job_id(request.job_id), self._count)

    def _neighbour(self, place: int, call: Call) -> Neighbour:
        if call.caller == callers.NODE:
            raise Refusal(
                grpc.StatusCode.INTERNAL,
                f"forwarded to node {self._index}, which takes node {place} for the owner: the nodes were started with "
                "different lists of addresses; give all of them the same",
            )
        return self._neighbours[place]

    async def _forward(self, method: Method[Any, Any], request: Message, call: Call) -> Message:
        try:
            answer: Message = await method(request, timeout_seconds=seconds_to_answer(call))
        except grpc.aio.AioRpcError as error:
            raise _refusal(error) from error
        return answer


def _refusal(error: grpc.aio.AioRpcError) -> Refusal:
    refusal = of_answer(error)
    if refusal.code is not grpc.StatusCode.UNAVAILABLE:
        return refusal
    return unavailable(f"the node that owns it did not answer: {error.code().name}, {error.details()}")


async def start_node(listen: str, *, index: int, addresses: Sequence[str], worker_id: str, slots: int = 1) -> Part:
    """``addresses``: those of all nodes, in the order that all of them have; this one is the ``index``-th."""
    log, count = logging.getLogger("holdfast.designs.services.node"), len(addresses)
    jobs = JobTable(log=log, make_id=lambda: make_owned_id(index, count))
    queue, results = FifoQueue(), ResultTable()
    coordinator = WorkCoordinator(jobs=jobs, queue=queue, results=results, log=log)
    worker = WorkerService(coordinator, worker_id=worker_id, slots=slots, log=log)
    node = Node(Gateway(jobs=jobs, queue=queue, results=results, log=log), index=index, addresses=addresses)
    server = Server(ROLE, [node.service()], log=log)
    address = await server.start(listen)
    coordinator.start()
    worker.start()
    return Part(
        role=ROLE,
        address=address,
        server=server,
        behind=(worker.stop, lambda _: coordinator.stop(), lambda _: node.close()),
    )
