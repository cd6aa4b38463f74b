"""Claim and settle through the store's port, as a worker calls it: how long each claim takes."""

import asyncio
import time
from contextlib import AsyncExitStack
from uuid import uuid4

from benchmarks.curves.session import POSTGRES, Point
from benchmarks.peers.programs import PeerFailed
from benchmarks.peers.samples import Sample
from benchmarks.peers.visits import Visit
from benchmarks.store_side import DONE
from benchmarks.workload import QUEUE
from holdfast.core.commands import Claim, Settlement
from holdfast.core.ports import Store
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SQLiteStore


def claim_and_settle(point: Point, visit: Visit, *, batch: int, calls: int) -> Sample:
    return asyncio.run(_claim_and_settle(_store(point, visit.place.url), batch, calls))


def _store(point: Point, url: str) -> Store:
    if point.store == POSTGRES:
        return PostgresStore(url, listen=False)
    return SQLiteStore(url.removeprefix("sqlite:///"))


async def _claim_and_settle(store: Store, batch: int, calls: int) -> Sample:
    waits: list[float] = []
    jobs = 0
    async with AsyncExitStack() as stack:
        await store.open()
        stack.push_async_callback(store.close)
        owner = uuid4()
        await store.register(owner, name="benchmark")
        started = time.perf_counter()
        for _ in range(calls):
            before = time.perf_counter()
            claimed = await store.claim(Claim(owner=owner, queues=(QUEUE,), limit=batch, nonce=uuid4()))
            waits.append(time.perf_counter() - before)
            if not claimed:
                raise PeerFailed(f"after {jobs} jobs there are none left to claim")
            await store.settle([Settlement(lease=job.lease, outcome=DONE) for job in claimed])
            jobs += len(claimed)
        seconds = time.perf_counter() - started
        await store.leave(owner)
    return Sample(figures={"rate": jobs / seconds, "waits": len(waits)}, waits=waits)
