"""The app, for ``holdfast worker`` and for the producer. Its first job is the one that the filling statements name."""

import asyncio
from typing import Final

from benchmarks.peers import peer
from benchmarks.workload import JOB_TYPE, QUEUE
from holdfast import Holdfast

SLOW_SECONDS: Final = 0.01

app = Holdfast(peer.URL)


@app.job(name=JOB_TYPE, queue=QUEUE)
async def example(order: int, text: str, submitted: int = 0) -> None:  # noqa: ARG001
    """``submitted`` is 0 for jobs that were filled in by SQL."""
    peer.record({"submitted": submitted})


@app.job(queue=QUEUE)
async def slow(order: int, text: str, submitted: int = 0) -> None:  # noqa: ARG001
    """Waits, as for a service that answers."""
    peer.record({"submitted": submitted})
    await asyncio.sleep(SLOW_SECONDS)
