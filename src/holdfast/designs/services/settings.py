"""How a role is told where it listens, whom it calls and how much it runs: by flags, or else by the environment.

Imports nothing of gRPC: the command line asks for these flags where that is not installed, too.
"""

import argparse
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.core.errors import ConfigError
from holdfast.rpc import limits

NODE: Final = "node"
ROLES: Final = ("gateway", "job", "queue", "coordinator", "worker", "result", NODE)
NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "gateway": ("job", "queue", "result"),
    "job": (),
    "queue": (),
    "coordinator": ("job", "queue", "result"),
    "worker": ("coordinator",),
    "result": (),
    "node": ("nodes",),
}
"""Role → whose addresses it must be given."""
ANY_PORT: Final = "127.0.0.1:0"
MAX_NODES: Final = 64
MAX_SLOTS: Final = 128
"""Of one worker: its jobs' IDs travel in a header, and 8 KiB is what those may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    role: str
    listen: str
    slots: int
    worker_id: str
    job: str = ""
    queue: str = ""
    coordinator: str = ""
    result: str = ""
    nodes: tuple[str, ...] = ()
    index: int = 0
    log_level: str = "INFO"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("role", choices=ROLES, metavar="ROLE", help=", ".join(ROLES))
    parser.add_argument("--listen", metavar="HOST:PORT", help=f"where to serve [$HOLDFAST_LISTEN, else {ANY_PORT}]")
    for name in ("job", "queue", "coordinator", "result"):
        parser.add_argument(f"--{name}", metavar="HOST:PORT", help=f"the {name} service [$HOLDFAST_{name.upper()}]")
    parser.add_argument(
        "--nodes", metavar="A,B,…", help="all nodes of Design B, in one order for all [$HOLDFAST_NODES]"
    )
    parser.add_argument("--index", type=int, help="which of them this one is, from 0 [$HOLDFAST_INDEX]")
    parser.add_argument("--slots", type=int, help="jobs at a time [its share of $TOTAL_WORKER_SLOTS, which is 6]")
    parser.add_argument("--worker-id", metavar="NAME", help="[$WORKER_ID, else the host's name]")
    parser.add_argument("--log-level", metavar="LEVEL", help="[$HOLDFAST_LOG_LEVEL, else INFO]")


def read(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Settings:
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.designs.services.run",
        description="Run one role of Design A or B until SIGTERM or SIGINT.",
    )
    add_arguments(parser)
    return settings_of(parser.parse_args(arguments), environment)


def settings_of(given: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Settings:
    """ConfigError where something is missing or cannot be."""

    def text(name: str, default: str = "") -> str:
        return getattr(given, name) or environment.get(f"HOLDFAST_{name.upper()}") or default

    nodes = tuple(part.strip() for part in text("nodes").split(",") if part.strip())
    settings = Settings(
        role=given.role,
        listen=text("listen", ANY_PORT),
        slots=_slots(given, environment, share_of=len(nodes) if given.role == NODE else 1),
        worker_id=given.worker_id or environment.get("WORKER_ID") or socket.gethostname(),
        job=text("job"),
        queue=text("queue"),
        coordinator=text("coordinator"),
        result=text("result"),
        nodes=nodes,
        index=_index(given, environment),
        log_level=text("log_level", "INFO").upper(),
    )
    _check(settings)
    return settings


def _slots(given: argparse.Namespace, environment: Mapping[str, str], *, share_of: int) -> int:
    if given.slots is not None:
        return _number("--slots", given.slots, least=1, most=MAX_SLOTS)
    name = "TOTAL_WORKER_SLOTS"
    total = _number(name, environment.get(name) or limits.TOTAL_WORKER_SLOTS, least=1, most=MAX_SLOTS * MAX_NODES)
    if share_of and total % share_of:
        raise ConfigError(
            f"{name} is {total}, which {share_of} nodes cannot share evenly; give --slots or another total"
        )
    return _number("--slots", total // (share_of or 1), least=1, most=MAX_SLOTS)


def _index(given: argparse.Namespace, environment: Mapping[str, str]) -> int:
    value = given.index if given.index is not None else environment.get("HOLDFAST_INDEX") or 0
    return _number("--index", value, least=0, most=MAX_NODES - 1)


def _number(name: str, value: str | int, *, least: int, most: int) -> int:
    try:
        number = int(value)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise ConfigError(f"{name} is {value!r}; give a number from {least} to {most}")
    return number


def _check(settings: Settings) -> None:
    for name in NEEDS[settings.role]:
        if not getattr(settings, name):
            raise ConfigError(f"{settings.role} needs --{name}, or HOLDFAST_{name.upper()} in the environment")
    if len(settings.nodes) > MAX_NODES:
        raise ConfigError(f"--nodes has {len(settings.nodes)} addresses; at most {MAX_NODES} are taken")
    if settings.nodes and settings.index >= len(settings.nodes):
        raise ConfigError(f"--index is {settings.index}, but there are {len(settings.nodes)} nodes, counted from 0")
    if len(set(settings.nodes)) < len(settings.nodes):
        raise ConfigError("--nodes names an address twice; each node has its own")
    if settings.log_level not in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"):
        raise ConfigError(f"--log-level is {settings.log_level}; give DEBUG, INFO, WARNING, ERROR or CRITICAL")
