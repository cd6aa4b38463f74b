"""The six nodes of Design B as processes, each to be killed and started again at the address it had."""

import signal

from tests.blackbox.targets import Running, is_serving
from tests.servers.process import free_port

NODES = 6


class Nodes:
    def __init__(self) -> None:
        self.addresses = [f"127.0.0.1:{free_port()}" for _ in range(NODES)]
        self._running: dict[int, Running] = {}

    def start(self, *numbers: int) -> None:
        for number in numbers or range(NODES):
            self._running[number] = Running(f"node-{number}", *self._command(number))
        for number in numbers or range(NODES):
            address = self.addresses[number]
            self._running[number].wait_for(lambda address=address: is_serving(address), what=f"node {number}")

    def kill(self, number: int) -> None:
        running = self._running.pop(number)
        running.end(signal.SIGKILL)
        running.close()

    def close(self) -> None:
        for running in self._running.values():
            running.close()

    def _command(self, number: int) -> list[str]:
        nodes = ("--nodes", ",".join(self.addresses), "--index", str(number))
        return ["cluster", "serve", "node", "--listen", self.addresses[number], *nodes]
