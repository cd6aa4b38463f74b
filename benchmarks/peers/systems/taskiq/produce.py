"""Submits with ``task.kiq``; there is no call for many."""

from benchmarks.peers import peer
from benchmarks.peers.systems.taskiq.work import broker, noop


class Client:
    async def open(self) -> None:
        await broker.startup()

    async def setup(self) -> None:
        pass

    async def submit(self, payload: peer.Payload) -> None:
        await noop.kiq(payload)


if __name__ == "__main__":
    peer.serve_tasks(Client())
