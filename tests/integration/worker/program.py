"""A worker in a process of its own, to be killed: ``python -m tests.integration.worker.program URL LEDGER``.

Each handler appends a line to the ledger when it starts and when it ends; nothing of that goes through the queue.
"""

import asyncio
import os
import sys
from collections.abc import Callable

from holdfast.app.signature import FunctionSignature
from holdfast.core.commands import Tick
from holdfast.core.ports import Store
from holdfast.wiring import create_delivery, create_store
from holdfast.worker.context import Context
from holdfast.worker.handler import Handler, Isolation, Registry
from holdfast.worker.options import WorkerOptions
from holdfast.worker.worker import Worker

LEDGER = os.environ.get("LEDGER", "")
TICK = Tick(worker_timeout_seconds=1.0)


def write(*words: object) -> None:
    # One write to a file opened for appending: lines of several processes do not mix.
    with open(LEDGER, "ab", buffering=0) as ledger:  # noqa: PTH123
        ledger.write((" ".join(str(word) for word in words) + "\n").encode())


async def on_loop(ctx: Context) -> None:
    write("start", ctx.job_id, ctx.attempt_id)
    await asyncio.sleep(0.01)
    write("end", ctx.job_id, ctx.attempt_id)


def in_thread(ctx: Context) -> None:
    write("start", ctx.job_id, ctx.attempt_id)
    write("end", ctx.job_id, ctx.attempt_id)


def registry() -> Registry:
    handlers = Registry()
    for function, isolation in ((on_loop, Isolation.LOOP), (in_thread, Isolation.THREAD)):
        name = function.__name__
        handlers.add(
            Handler(
                name=name,
                function=function,
                isolation=isolation,
                is_async=isolation is Isolation.LOOP,
                signature=FunctionSignature.of(function, name=name),
            )
        )
    return handlers


async def main(url: str) -> None:
    store = create_store(url)
    await store.open()
    make: Callable[[], Store] = lambda: create_store(url)  # noqa: E731
    options = WorkerOptions(concurrency=5, heartbeat_seconds=0.2, tick=TICK, tick_seconds=0.1, poll_seconds=0.5)
    worker = Worker(
        store, delivery=create_delivery(store), registry=registry(), options=options, create_pulse_store=make
    )
    await worker.start()
    write("ready", os.getpid())
    await worker.wait_stopped()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
