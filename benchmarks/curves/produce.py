"""The producer of the curves: the commands of ``peers/peer.py``, and some that vary what is submitted, and when."""

import asyncio
import base64
import random
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from benchmarks.curves.app import app, example, slow
from benchmarks.curves.schedule import poisson
from benchmarks.curves.timer import Timer
from benchmarks.peers import peer
from benchmarks.workload import queue_names
from holdfast import Priority
from holdfast.stores.postgres import migrate

SMALL_BYTES: Final = 100
AROUND_BYTES: Final = 60
"""Of a payload, beside its text."""
LEAD_MICROSECONDS: Final = 50_000
LINGER_SECONDS: Final = 0.05
"""Between commands the loop stands still: what tells the worker of the last jobs must have gone out before."""


@cache
def text_of(size: int) -> str:
    """For a payload of about so many bytes. Random, so that the store cannot make it small."""
    count = max(0, size - AROUND_BYTES)
    return base64.b64encode(random.Random(size).randbytes(count)).decode()[:count]


def new_payload(size: int, *, submitted: int | None = None) -> peer.Payload:
    return {"order": 4711, "submitted": peer.now() if submitted is None else submitted, "text": text_of(size)}


class Client:
    async def open(self) -> None:
        await app.open()

    async def setup(self) -> None:
        await migrate.upgrade(peer.URL)

    async def submit(self, payload: peer.Payload) -> None:
        await example.submit(**payload)

    async def submit_many(self, payloads: Sequence[peer.Payload]) -> None:
        await app.submit_many(example.call(**payload) for payload in payloads)


class Commands(peer.Tasks):
    async def fill(
        self,
        jobs: int,
        queues: int = 1,
        size: int = SMALL_BYTES,
        batch: int = peer.BULK_JOBS,
        is_slow: bool = False,
        submitted: int | None = None,
    ) -> peer.Payload:
        """Spread evenly over the queues. Their payloads say that they were submitted now, or what is given."""
        kinds = [(slow if is_slow else example).options(queue=name) for name in queue_names(queues)]
        started = peer.now()
        for first in range(0, jobs, batch):
            numbers = range(first, min(first + batch, jobs))
            payloads = [new_payload(size, submitted=submitted) for _ in numbers]
            calls = [kinds[n % queues].call(**payload) for n, payload in zip(numbers, payloads, strict=True)]
            await app.submit_many(calls)
        return {"jobs": jobs, "seconds": (peer.now() - started) / 1e6}

    async def batches(self, size: int, seconds: float) -> peer.Payload:
        """One ``submit_many`` after the other; how long each took, in microseconds."""
        took: list[int] = []
        started = peer.now()
        while peer.now() < started + seconds * 1e6:
            payloads = [new_payload(SMALL_BYTES) for _ in range(size)]
            before = peer.now()
            await app.submit_many(example.call(**payload) for payload in payloads)
            took.append(peer.now() - before)
        return {"jobs": size * len(took), "seconds": (peer.now() - started) / 1e6, "took": took}

    async def arrivals(
        self, rate: float, jobs: int, seed: int, queues: int = 1, size: int = SMALL_BYTES, is_high: bool = False
    ) -> peer.Payload:
        """Single submits on a schedule, whatever became of those before; how late each was, in microseconds.

        A payload says when it should have been submitted: a wait counts from there.
        """
        options: dict[str, Any] = {"priority": Priority.HIGH} if is_high else {}
        kinds = [example.options(queue=name, **options) for name in queue_names(queues)]
        begun = peer.now() + LEAD_MICROSECONDS
        late: list[int] = []
        with Timer() as timer:
            # Of those that are done nothing is kept: the collector would stop everything to look through them.
            async with asyncio.TaskGroup() as submits:
                for number, offset in enumerate(poisson(rate, jobs, seed=seed)):
                    due = begun + int(offset * 1e6)
                    await timer.wait_until(due)
                    late.append(peer.now() - due)
                    payload = new_payload(size, submitted=due)
                    submits.create_task(kinds[number % queues].submit(**payload))
        await asyncio.sleep(LINGER_SECONDS)
        return {"jobs": jobs, "late": late, "begun": begun}


if __name__ == "__main__":
    peer.serve_commands(Commands(Client()))
