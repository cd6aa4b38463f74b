"""Submits with ``oban.enqueue`` and ``oban.enqueue_many``, over a pool of ten connections."""

from collections.abc import Sequence
from typing import Any

from oban import Oban
from oban.schema import install

from benchmarks.peers import peer
from benchmarks.peers.systems.oban.work import Noop

new_job: Any = Noop.new  # type: ignore[attr-defined]  # the decorator puts it there


class Client:
    async def open(self) -> None:
        pool = await Oban.create_pool(peer.URL, min_size=peer.CONNECTIONS, max_size=peer.CONNECTIONS)
        self._oban = Oban(pool=pool)

    async def setup(self) -> None:
        pool = await Oban.create_pool(peer.URL)
        await install(pool)
        await pool.close()

    async def submit(self, payload: peer.Payload) -> None:
        await self._oban.enqueue(new_job(payload))

    async def submit_many(self, payloads: Sequence[peer.Payload]) -> None:
        await self._oban.enqueue_many([new_job(payload) for payload in payloads])


if __name__ == "__main__":
    peer.serve_tasks(Client())
