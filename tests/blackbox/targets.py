"""The servers that speak the public API, each started as a user starts it, or given by the environment.

``HOLDFAST_BLACKBOX_TARGETS="a=127.0.0.1:50051;b=127.0.0.1:50061,127.0.0.1:50062"`` tests those addresses instead: that
is how containers are tested. A name that begins with ``b`` is Design B, with ``a`` Design A; any other is durable.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from holdfast.stores.postgres import migrate
from tests.servers.process import GuardedProcess, free_port, make_directory, wait_until

VARIABLE = "HOLDFAST_BLACKBOX_TARGETS"
TOTAL_WORKER_SLOTS = 6
START_SECONDS = 60.0
HOLDFAST = (sys.executable, "-m", "holdfast")


@dataclass(frozen=True, kw_only=True)
class Target:
    name: str
    addresses: tuple[str, ...]

    @property
    def is_design_b(self) -> bool:
        return self.name.startswith("b")

    @property
    def is_durable(self) -> bool:
        return self.name[0] not in "ab"

    @property
    def slots_at_an_address(self) -> int:
        """How many jobs run at once of those that were submitted, without a key, at one address."""
        return TOTAL_WORKER_SLOTS // len(self.addresses)


def given() -> dict[str, Target]:
    """Those of the environment, by name."""
    parts = [part.partition("=") for part in os.environ.get(VARIABLE, "").split(";") if part.strip()]
    return {
        name.strip(): Target(name=name.strip(), addresses=tuple(text.strip() for text in addresses.split(",")))
        for name, _, addresses in parts
    }


def is_serving(address: str) -> bool:
    with grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=1)
        except grpc.RpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


class Running:
    """A process of ours with a folder of its own, which goes with it."""

    def __init__(self, name: str, *arguments: str) -> None:
        self.directory = make_directory(f"blackbox-{name}")
        self._log = self.directory / "log"
        self._log.touch()
        self._process = GuardedProcess(
            [*HOLDFAST, *arguments],
            directory=self.directory,
            log=self._log,
            end_signal=signal.SIGTERM,
            drops_rights=False,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self._process.is_running

    def wait_for(self, condition: Any, *, what: str) -> None:
        wait_until(lambda: condition() or not self.is_running, timeout_seconds=START_SECONDS)
        assert condition(), f"{what} did not come up: {self.log[-3000:]}"

    def end(self, end_signal: signal.Signals = signal.SIGTERM) -> None:
        self._process.end(end_signal)

    def close(self) -> None:
        self.end()
        shutil.rmtree(self.directory, ignore_errors=True)


@contextmanager
def cluster(design: str) -> Iterator[Target]:
    """Six processes, started by ``holdfast cluster up``."""
    running = Running(design, "cluster", "up", "--design", design, "--base-port", "0", "--json")
    try:
        running.wait_for(lambda: _said(running.log) is not None, what=f"Design {design.upper()}")
        said = _said(running.log)
        assert said is not None
        yield Target(name=design, addresses=tuple(said["targets"]))
    finally:
        running.close()


def _said(log: str) -> dict[str, Any] | None:
    """What ``--json`` says once all answer, among the services' own log lines."""
    for line in log.splitlines():
        if line.startswith('{"design"'):
            found: dict[str, Any] = json.loads(line)
            return found
    return None


@contextmanager
def durable(name: str, url: str) -> Iterator[Target]:
    address = f"127.0.0.1:{free_port()}"
    running = Running(name, "server", "--grpc", address, "--slots", str(TOTAL_WORKER_SLOTS), "--url", url)
    try:
        running.wait_for(lambda: is_serving(address), what="the durable server")
        yield Target(name=name, addresses=(address,))
    finally:
        running.close()


@contextmanager
def durable_on_sqlite(folder: Path) -> Iterator[Target]:
    with durable("sqlite", f"sqlite:///{folder / 'jobs.db'}") as target:
        yield target


@contextmanager
def durable_on_postgres(url: str) -> Iterator[Target]:
    asyncio.run(migrate.upgrade(url))
    with durable("postgres", url) as target:
        yield target
