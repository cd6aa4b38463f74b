"""The jobs: a coroutine function, and a plain one that runs in a thread. ``work`` and ``produce`` share them."""

import os
from typing import Final

from benchmarks.peers import peer
from holdfast import Holdfast

app = Holdfast(peer.URL)


@app.job(queue="async")
async def in_loop(order: int, submitted: int, text: str) -> None:  # noqa: ARG001
    peer.record({"submitted": submitted})


@app.job(queue="thread")
def in_thread(order: int, submitted: int, text: str) -> None:  # noqa: ARG001
    peer.record({"submitted": submitted})


JOB: Final = in_thread if os.environ.get("BENCH_HANDLER") == "thread" else in_loop
