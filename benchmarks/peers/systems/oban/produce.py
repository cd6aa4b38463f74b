"""Submits with ``oban.enqueue`` and ``oban.enqueue_many``, over a pool of ten connections."""

from collections.abc import Sequence

from oban import Oban
from oban.schema import install

from benchmarks.peers import peer
from benchmarks.peers.systems.oban.work import Noop


class Client:
    async def open(self) -> None:
        pool = await Oban.create_pool(peer.URL, min_size=peer.CONNECTIONS, max_size=peer.CONNECTIONS)
        self._oban = Oban(pool=pool)

    async def setup(self) -> None:
        pool = await Oban.create_pool(peer.URL)
        await install(pool)
        await pool.close()

    async def submit(self, payload: peer.Payload) -> None:
        await self._oban.enqueue(Noop.new(payload))

    async def submit_many(self, payloads: Sequence[peer.Payload]) -> None:
        await self._oban.enqueue_many([Noop.new(payload) for payload in payloads])


if __name__ == "__main__":
    peer.serve_tasks(Client())
