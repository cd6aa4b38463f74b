"""Submits with ``queue.enqueue``."""

from redis import Redis
from rq import Queue

from benchmarks.peers import peer
from benchmarks.peers.systems.rq.work import noop


class Client:
    def open(self) -> None:
        self._queue = Queue(peer.QUEUE, connection=Redis.from_url(peer.URL))

    def setup(self) -> None:
        pass

    def submit(self, payload: peer.Payload) -> None:
        self._queue.enqueue(noop, payload)


if __name__ == "__main__":
    peer.serve_threads(Client())
