"""Starts the designs as processes, waits until they serve, and stops them.

Each process logs to a file of its own; the line that says where it serves is read from there. What is started dies with
this process, even if that is killed: nothing is left to use the machine while the next run is measured.
"""

import asyncio
import ctypes
import json
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from holdfast.core.errors import Unavailable
from holdfast.designs.evaluation.designs import DESIGNS
from holdfast.designs.evaluation.visits import System
from holdfast.rpc.ports import free_ports
from holdfast.wiring import sqlite_url

READY_EVENTS: Final = frozenset({"ready", "server_started"})
START_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.02
STOP_SECONDS: Final = 3.0
"""Then it is killed: a worker in the middle of many jobs has nothing left to lose."""
LAST_LINES: Final = 3
PR_SET_PDEATHSIG: Final = 1
LOOPBACK: Final = "127.0.0.1"
SERVICE: Final = (sys.executable, "-m", "holdfast.designs.services.run")
ECHO: Final = (sys.executable, "-m", "holdfast.designs.evaluation.echo")
SERVER: Final = (sys.executable, "-m", "holdfast", "server", "--log", "json")
_LIBC: Final = ctypes.CDLL(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    pid: int
    address: str


@asynccontextmanager
async def open_design(
    design: str,
    *,
    slots: int,
    urls: Mapping[str, str] | None = None,
    addresses: Mapping[str, Sequence[str]] | None = None,
) -> AsyncIterator[System]:
    """A design that serves: started here, or, where its addresses are given, as it is."""
    if addresses and design in addresses:
        yield System(design=design, targets=addresses[design], processes=None)
        return
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="holdfast-eval-", ignore_cleanup_errors=True)))
        processes = Processes(folder, stack)
        if design == "a":
            targets = await _start_a(processes, slots)
        elif design == "b":
            targets = await _start_b(processes, slots)
        else:
            url = (urls or {}).get(design) or sqlite_url(folder / "jobs.db")
            targets = await _start_durable(processes, slots, url)
        pids = [one.pid for one in processes.started]
        yield System(design=design, targets=targets, processes=lambda: pids, keeps_jobs=design in (urls or {}))


class Processes:
    """Those of one system, stopped together when the stack is left."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self._folder = folder
        self._running: list[asyncio.subprocess.Process] = []
        self.started: list[Started] = []
        """In the order in which they were asked for."""
        stack.push_async_callback(self._stop)

    async def start(self, name: str, *command: str) -> str:
        """Where it serves."""
        return (await self.all({name: command}))[name]

    async def all(self, commands: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """Started at the same time; the address of each."""
        found = await asyncio.gather(*(self._start(name, *command) for name, command in commands.items()))
        self.started += found
        return {name: one.address for name, one in zip(commands, found, strict=True)}

    async def _start(self, name: str, *command: str) -> Started:
        log = self._folder / f"{name}.log"
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,  # Ctrl-C is ours: we stop them in order
                preexec_fn=_die_with_parent,
            )
        self._running.append(process)
        return Started(pid=process.pid, address=await _wait_ready(name, process, log))

    async def _stop(self) -> None:
        for process in self._running:
            with suppress(ProcessLookupError):
                process.terminate()
        await asyncio.gather(*(_wait_or_kill(process) for process in self._running))


async def _start_a(processes: Processes, slots: int) -> list[str]:
    """In the order in which they need each other."""
    tables = await processes.all({role: (*SERVICE, role) for role in ("job", "queue", "result")})
    peers = [part for role, address in tables.items() for part in (f"--{role}", address)]
    front = await processes.all({role: (*SERVICE, role, *peers) for role in ("gateway", "coordinator")})
    await processes.start(
        "worker",
        *SERVICE,
        "worker",
        "--coordinator",
        front["coordinator"],
        "--slots",
        str(slots),
        "--worker-id",
        "worker",
    )
    return [front["gateway"]]


async def _start_b(processes: Processes, slots: int) -> list[str]:
    nodes = DESIGNS["b"].targets
    addresses = [f"{LOOPBACK}:{port}" for port in free_ports(nodes)]
    commands = {
        f"node-{index}": (
            *(*SERVICE, "node", "--listen", address, "--nodes", ",".join(addresses), "--index", str(index)),
            *("--slots", str(slots // nodes), "--worker-id", f"node-{index}"),
        )
        for index, address in enumerate(addresses)
    }
    return list((await processes.all(commands)).values())


async def _start_durable(processes: Processes, slots: int, url: str) -> list[str]:
    command = (*SERVER, "--grpc", f"{LOOPBACK}:0", "--slots", str(slots), "--url", url)
    return [await processes.start("server", *command)]


@asynccontextmanager
async def open_echo() -> AsyncIterator[System]:
    """One bare server."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="holdfast-eval-", ignore_cleanup_errors=True)))
        processes = Processes(folder, stack)
        address = await processes.start("echo", *ECHO)
        pids = [one.pid for one in processes.started]
        yield System(design="echo", targets=[address], processes=lambda: pids)


@asynccontextmanager
async def open_chain() -> AsyncIterator[System]:
    """A bare server that asks two others, one after the other."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="holdfast-eval-", ignore_cleanup_errors=True)))
        processes = Processes(folder, stack)
        behind = await processes.all({"create": ECHO, "enqueue": ECHO})
        head = await processes.start("head", *ECHO, "--chain", behind["create"], behind["enqueue"])
        pids = [one.pid for one in processes.started]
        yield System(design="chain", targets=[head], processes=lambda: pids)


async def _wait_ready(name: str, process: asyncio.subprocess.Process, log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        has_ended = process.returncode is not None
        text = _read(log)
        if (address := _address_in(text)) is not None:
            return address
        if has_ended:
            raise Unavailable(f"{name} ended with {process.returncode} before it served: {_last(text)}")
        await asyncio.sleep(LOOK_SECONDS)
    raise Unavailable(f"{name} did not serve within {START_SECONDS:.0f} s: {_last(_read(log))}")


def _read(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")


def _address_in(text: str) -> str | None:
    for line in text.splitlines():
        with suppress(ValueError):
            data = json.loads(line)
            if isinstance(data, dict) and data.get("event") in READY_EVENTS and data.get("address"):
                return str(data["address"])
    return None


def _last(text: str) -> str:
    return " / ".join(text.strip().splitlines()[-LAST_LINES:]) or "it said nothing"


async def _wait_or_kill(process: asyncio.subprocess.Process) -> None:
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _die_with_parent() -> None:
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
