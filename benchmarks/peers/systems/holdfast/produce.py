"""Submits with ``job.submit`` and ``app.submit_many``."""

from collections.abc import Sequence

from benchmarks.peers import peer
from benchmarks.peers.systems.holdfast.app import JOB, app
from holdfast.stores.postgres import migrate


class Client:
    async def open(self) -> None:
        await app.open()

    async def setup(self) -> None:
        await migrate.upgrade(peer.URL)

    async def submit(self, payload: peer.Payload) -> None:
        await JOB.submit(**payload)

    async def submit_many(self, payloads: Sequence[peer.Payload]) -> None:
        await app.submit_many(JOB.call(**payload) for payload in payloads)


if __name__ == "__main__":
    peer.serve_tasks(Client())
