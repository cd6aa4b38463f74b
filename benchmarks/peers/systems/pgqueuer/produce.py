"""Submits with ``Queries.enqueue``: one job, or a list. Ten producers have a connection each, from asyncpg's pool."""

import json
from collections.abc import Sequence

import asyncpg
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries

from benchmarks.peers import peer


class Client:
    async def open(self) -> None:
        pool = await asyncpg.create_pool(peer.URL, min_size=peer.CONNECTIONS, max_size=peer.CONNECTIONS)
        self._queries = Queries(AsyncpgPoolDriver(pool))

    async def setup(self) -> None:
        connection = await asyncpg.connect(peer.URL)
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    async def submit(self, payload: peer.Payload) -> None:
        await self._queries.enqueue("noop", json.dumps(payload).encode())

    async def submit_many(self, payloads: Sequence[peer.Payload]) -> None:
        data: list[bytes | None] = [json.dumps(payload).encode() for payload in payloads]
        await self._queries.enqueue(["noop"] * len(data), data, [0] * len(data))


if __name__ == "__main__":
    peer.serve_tasks(Client())
