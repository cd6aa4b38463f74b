"""Submits with ``task.delay``; there is no call for many."""

from benchmarks.peers import peer
from benchmarks.peers.systems.celery.work import noop


class Client:
    def open(self) -> None:
        pass

    def setup(self) -> None:
        pass

    def submit(self, payload: peer.Payload) -> None:
        noop.delay(payload)


if __name__ == "__main__":
    peer.serve_threads(Client())
