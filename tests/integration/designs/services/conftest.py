"""Both designs in this process, over real gRPC on loopback."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from holdfast.designs.services import design_a, design_b
from holdfast.designs.services.part import Part
from holdfast.rpc.client import Client

ANY_PORT = "127.0.0.1:0"


class DesignA:
    """The six services; each can be stopped, and started again at its address."""

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {}

    async def start(self, role: str) -> Part:
        listen = self.parts[role].address if role in self.parts else ANY_PORT
        match role:
            case "job":
                part = await design_a.start_job(listen)
            case "queue":
                part = await design_a.start_queue(listen)
            case "result":
                part = await design_a.start_result(listen)
            case "gateway":
                part = await design_a.start_gateway(listen, **self._tables())
            case "coordinator":
                part = await design_a.start_coordinator(listen, **self._tables())
            case _:
                coordinator = self.parts["coordinator"].address
                part = await design_a.start_worker(listen, coordinator=coordinator, worker_id="w1")
        self.parts[role] = part
        return part

    def address(self, role: str) -> str:
        return self.parts[role].address

    async def stop(self, role: str) -> None:
        await self.parts[role].stop(0.2)

    def _tables(self) -> dict[str, str]:
        return {role: self.address(role) for role in ("job", "queue", "result")}


@pytest.fixture
async def design() -> AsyncIterator[DesignA]:
    started = DesignA()
    for role in ("job", "queue", "result", "coordinator", "gateway", "worker"):
        await started.start(role)
    yield started
    for role in ("worker", "gateway", "coordinator", "job", "queue", "result"):
        await started.stop(role)


@pytest.fixture
async def nodes() -> AsyncIterator[list[Part]]:
    """Three nodes of Design B."""
    addresses = free_addresses(3)
    async with AsyncExitStack() as stack:
        parts = []
        for index, address in enumerate(addresses):
            part = await design_b.start_node(address, index=index, addresses=addresses, worker_id=f"w{index}")
            stack.push_async_callback(part.stop, 0.2)
            parts.append(part)
        yield parts


Connect = Callable[..., Awaitable[Client]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    async with AsyncExitStack() as stack:

        async def open_client(*targets: str, caller: str = "client") -> Client:
            return await stack.enter_async_context(Client(list(targets), caller=caller))

        yield open_client


def free_addresses(count: int) -> list[str]:
    """Nodes must know all addresses before the first of them listens."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return addresses
