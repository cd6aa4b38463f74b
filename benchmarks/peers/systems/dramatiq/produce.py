"""Submits with ``actor.send``; there is no call for many."""

from benchmarks.peers import peer
from benchmarks.peers.systems.dramatiq.work import noop


class Client:
    def open(self) -> None:
        pass

    def setup(self) -> None:
        pass

    def submit(self, payload: peer.Payload) -> None:
        noop.send(payload)


if __name__ == "__main__":
    peer.serve_threads(Client())
