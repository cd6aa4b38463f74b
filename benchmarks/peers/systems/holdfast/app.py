"""The app, for ``holdfast worker`` and for the producer: a coroutine function, or a plain one that runs in a thread."""

import os

from benchmarks.peers import peer
from holdfast import Holdfast

app = Holdfast(peer.URL)


async def in_loop(order: int, submitted: int, text: str) -> None:  # noqa: ARG001
    peer.record({"submitted": submitted})


def in_thread(order: int, submitted: int, text: str) -> None:  # noqa: ARG001
    peer.record({"submitted": submitted})


JOB = app.job(in_thread) if os.environ.get("BENCH_HANDLER") == "thread" else app.job(in_loop)
