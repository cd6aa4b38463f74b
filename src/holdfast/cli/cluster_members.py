"""The six processes of a design: which there are, and how they are started, watched and stopped.

CLUSTER-1. A cluster is up when every process answers a health check with SERVING; one that dies before that ends the
    start.
CLUSTER-2. A process that dies later is reported, and not replaced: what it had in memory is gone, and others would not
    know.
CLUSTER-3. They are stopped in the order in which they call each other, so that none calls one that is gone; what is
    left after the grace is killed. Should this process be killed, each of them sees it, and stops.
"""

import asyncio
import signal
import subprocess
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.cli.children import ended, signal_all, start_child
from holdfast.cli.exits import Exit
from holdfast.core.errors import UsageError
from holdfast.designs.services.settings import NEEDS, NODE, ROLES
from holdfast.rpc.ports import HOST

DESIGNS: Final = ("a", "b")
MEMBERS: Final = 6
DEFAULT_PORTS: Final = {"a": 50051, "b": 50061}
SERVICES: Final = tuple(role for role in ROLES if role != NODE)
STOP_ORDER: Final = (("gateway",), ("worker",), ("coordinator",), ("job", "queue", "result", "node"))
START_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.05
CHECK_SECONDS: Final = 1.0
STOP_SECONDS: Final = 8.0
"""Longer than the grace that a process gives its own calls and jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    name: str
    role: str
    address: str
    arguments: tuple[str, ...]
    slots: int = 0


def plan(design: str, *, ports: Sequence[int], slots: int) -> list[Member]:
    """``slots`` in all: Design A's one worker has them; in Design B every node has its share."""
    addresses = [f"{HOST}:{port}" for port in ports]
    return _services(addresses, slots) if design == "a" else _nodes(addresses, slots)


def _services(addresses: Sequence[str], slots: int) -> list[Member]:
    of_role = dict(zip(SERVICES, addresses, strict=True))
    return [
        Member(
            name=role,
            role=role,
            address=address,
            arguments=(
                *(part for other in NEEDS[role] for part in (f"--{other}", of_role[other])),
                *(("--slots", str(slots)) if role == "worker" else ()),
            ),
            slots=slots if role == "worker" else 0,
        )
        for role, address in of_role.items()
    ]


def _nodes(addresses: Sequence[str], slots: int) -> list[Member]:
    share, rest = divmod(slots, len(addresses))
    if rest or not share:
        raise UsageError(
            f"--slots {slots} cannot be shared evenly by {len(addresses)} nodes; give {len(addresses)}, "
            f"{2 * len(addresses)}, {3 * len(addresses)} …"
        )
    shared = ("--nodes", ",".join(addresses), "--slots", str(share))
    return [
        Member(
            name=f"node-{index}",
            role="node",
            address=address,
            arguments=(*shared, "--index", str(index), "--worker-id", f"node-{index}"),
            slots=share,
        )
        for index, address in enumerate(addresses)
    ]


def targets(members: Sequence[Member]) -> list[str]:
    """Where a client's calls go."""
    return [member.address for member in members if member.role in ("gateway", "node")]


class Cluster:
    def __init__(self, members: Sequence[Member], *, say: Callable[[str], None]) -> None:
        self.members = tuple(members)
        self.code = Exit.DONE
        """NOT_DONE once a process has died by itself."""
        self._say = say
        self._processes: dict[str, Process] = {}
        self._watches: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._died: list[int] = []
        self._is_up = False

    def process_ids(self) -> Iterator[tuple[Member, int]]:
        return ((member, self._processes[member.name].pid) for member in self.members)

    async def start(self) -> Exit:
        """DONE when all of them answer (CLUSTER-1), or when asked to stop meanwhile."""
        for number, member in enumerate(self.members):
            self._processes[member.name] = await self._spawn(member, number)
        self._watches = [asyncio.create_task(self._watch(member)) for member in self.members]
        deadline = time.monotonic() + START_SECONDS
        for member in self.members:
            while not await is_serving(member.address):
                if self._died:
                    return Exit.WRONG if Exit.WRONG in self._died else Exit.NOT_DONE
                if self._stopping.is_set():
                    return Exit.DONE
                if time.monotonic() > deadline:
                    self._say(
                        f"{member.name} does not answer at {member.address} after {START_SECONDS:.0f} s; giving up"
                    )
                    return Exit.NOT_DONE
                await asyncio.sleep(LOOK_SECONDS)
        self._is_up = not self._died
        return Exit.DONE if self._is_up else Exit.NOT_DONE

    async def wait(self) -> None:
        """Until asked to stop, or until none is left."""
        asked = asyncio.create_task(self._stopping.wait())
        nobody = asyncio.gather(*self._watches)
        await asyncio.wait((asked, nobody), return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            self._say("no process is left")
        asked.cancel()

    def ask_to_stop(self) -> None:
        self._stopping.set()

    async def stop(self) -> None:
        """In order (CLUSTER-3)."""
        self._stopping.set()
        for roles in STOP_ORDER:
            chosen = [
                self._processes[one.name] for one in self.members if one.role in roles and one.name in self._processes
            ]
            signal_all(chosen, signal.SIGTERM)
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await asyncio.gather(*(process.wait() for process in chosen))
            except TimeoutError:
                signal_all(chosen, signal.SIGKILL)
        await asyncio.gather(*self._watches)

    def kill(self) -> None:
        signal_all(self._processes.values(), signal.SIGKILL)

    async def _spawn(self, member: Member, number: int) -> Process:
        command = [sys.executable, "-m", "holdfast", "cluster", "serve", member.role, "--listen", member.address]
        return await start_child([*command, *member.arguments], number=number, stdout=subprocess.DEVNULL)

    async def _watch(self, member: Member) -> None:
        process = self._processes[member.name]
        code = await process.wait()
        if self._stopping.is_set():
            return
        self._died.append(code)
        rest = "the others go on" if self._is_up else "the others are stopped"
        self.code = Exit.NOT_DONE
        self._say(f"{member.name} (process {process.pid}, {member.address}) {ended(code)}; {rest}")


async def is_serving(address: str) -> bool:
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    async with grpc.aio.insecure_channel(address, options=(("grpc.enable_http_proxy", 0),)) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=CHECK_SECONDS)
        except grpc.aio.AioRpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
