"""Design A: six services, each in a process of its own, that speak gRPC with each other.

Client → gateway → job, queue, result; worker → coordinator → queue, job, result. Every function here starts one of
them, and returns when it serves.
"""

import logging
from typing import Final

from holdfast.designs.services import callers, handlers
from holdfast.designs.services.coordinator import WorkCoordinator
from holdfast.designs.services.gateway import Gateway
from holdfast.designs.services.jobs import JobTable
from holdfast.designs.services.part import Part
from holdfast.designs.services.queue import FifoQueue
from holdfast.designs.services.remote import RemoteCoordinator, RemoteJobs, RemoteQueue, RemoteResults
from holdfast.designs.services.results import ResultTable
from holdfast.designs.services.worker import WorkerService
from holdfast.rpc import limits
from holdfast.rpc.channels import Peer
from holdfast.rpc.serving import Server

ROLES: Final = ("gateway", "job", "queue", "coordinator", "worker", "result")


async def start_job(listen: str) -> Part:
    log = log_of("job")
    server = Server("job", [handlers.job_service(JobTable(log=log))], log=log)
    return Part(role="job", address=await server.start(listen), server=server)


async def start_queue(listen: str) -> Part:
    server = Server("queue", [handlers.queue_service(FifoQueue())], log=log_of("queue"))
    return Part(role="queue", address=await server.start(listen), server=server)


async def start_result(listen: str) -> Part:
    server = Server("result", [handlers.result_service(ResultTable())], log=log_of("result"))
    return Part(role="result", address=await server.start(listen), server=server)


async def start_gateway(listen: str, *, job: str, queue: str, result: str) -> Part:
    log, unbroken = log_of("gateway"), handlers.Unbroken()
    peers = [Peer(address, caller=callers.GATEWAY) for address in (job, queue, result)]
    gateway = Gateway(jobs=RemoteJobs(peers[0]), queue=RemoteQueue(peers[1]), results=RemoteResults(peers[2]), log=log)
    server = Server("gateway", [handlers.gateway_service(gateway, unbroken)], log=log)
    return Part(
        role="gateway",
        address=await server.start(listen),
        server=server,
        behind=(lambda _: unbroken.wait(), *(peer.channel.close for peer in peers)),
    )


async def start_coordinator(listen: str, *, job: str, queue: str, result: str) -> Part:
    log, unbroken = log_of("coordinator"), handlers.Unbroken()
    peers = [Peer(address, caller=callers.COORDINATOR) for address in (job, queue, result)]
    coordinator = WorkCoordinator(
        jobs=RemoteJobs(peers[0]), queue=RemoteQueue(peers[1]), results=RemoteResults(peers[2]), log=log
    )
    server = Server("coordinator", [handlers.coordinator_service(coordinator, unbroken)], log=log)
    address = await server.start(listen)
    coordinator.start()
    return Part(
        role="coordinator",
        address=address,
        server=server,
        behind=(lambda _: unbroken.wait(), lambda _: coordinator.stop(), *(peer.channel.close for peer in peers)),
    )


async def start_worker(
    listen: str, *, coordinator: str, worker_id: str, slots: int = limits.TOTAL_WORKER_SLOTS
) -> Part:
    """It is nobody's server: at its address there is its health, and nothing else."""
    log = log_of("worker")
    peer = Peer(coordinator, caller=callers.WORKER)
    worker = WorkerService(RemoteCoordinator(peer), worker_id=worker_id, slots=slots, log=log)
    server = Server("worker", [], log=log)
    address = await server.start(listen)
    worker.start()
    return Part(role="worker", address=address, server=server, before=(worker.stop,), behind=(peer.channel.close,))


def log_of(role: str) -> logging.Logger:
    return logging.getLogger(f"holdfast.designs.services.{role}")
