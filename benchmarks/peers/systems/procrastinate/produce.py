"""Submits with ``task.defer_async`` and ``task.batch_defer_async``."""

from collections.abc import Sequence

from benchmarks.peers import peer
from benchmarks.peers.systems.procrastinate.work import app, noop


class Client:
    async def open(self) -> None:
        await app.open_async()

    async def setup(self) -> None:
        await app.open_async()
        await app.schema_manager.apply_schema_async()
        await app.close_async()

    async def submit(self, payload: peer.Payload) -> None:
        await noop.defer_async(**payload)

    async def submit_many(self, payloads: Sequence[peer.Payload]) -> None:
        await noop.batch_defer_async(*payloads)


if __name__ == "__main__":
    peer.serve_tasks(Client())
