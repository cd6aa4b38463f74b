"""Ports for servers that are started without being told theirs."""

import random
import socket
from contextlib import ExitStack
from typing import Final

HOST: Final = "127.0.0.1"
SERVER_PORTS: Final = range(20_000, 32_000)
"""Below those that systems give to clients: one of those could be taken before the server has it."""


def free_ports(count: int) -> list[int]:
    """All held at once, so that no two are the same."""
    with ExitStack() as held:
        return [_hold_one(held) for _ in range(count)]


def _hold_one(held: ExitStack) -> int:
    while True:
        probe = held.enter_context(socket.socket())
        try:
            probe.bind((HOST, random.choice(SERVER_PORTS)))
        except OSError:
            continue
        port: int = probe.getsockname()[1]
        return port
