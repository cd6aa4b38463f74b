"""Two workers of one app in one process, on the same queues: ``python -m chaos.pair NAME CONCURRENCY QUEUES LIMITS``.

They share the app's store, the process and its fate; to everybody else they are two. SIGTERM lets both finish.
"""

import asyncio
import signal
import sys
from contextlib import AsyncExitStack
from typing import Final

from chaos.app import app
from holdfast.cli.database import patiently
from holdfast.cli.exits import Exit
from holdfast.cli.worker import numbers
from holdfast.core.errors import ConfigError
from holdfast.worker.worker import Worker

WORKERS: Final = 2
PATIENCE_SECONDS: Final = 60.0
GRACE_SECONDS: Final = 5.0


async def main(name: str, concurrency: str, queues: str, limits: str) -> None:
    async def start() -> Worker:
        """A new one at each try, as ``holdfast worker`` does it."""
        worker = app.worker(
            concurrency=int(concurrency),
            queues=numbers(queues),
            limits=numbers(limits),
            grace=GRACE_SECONDS,
            name=name,
        )
        await worker.start()
        return worker

    await patiently(app.open, url=app.url, timeout_seconds=PATIENCE_SECONDS, say=print)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(app.close)
        workers = []
        for _ in range(WORKERS):
            worker = await patiently(start, url=app.url, timeout_seconds=PATIENCE_SECONDS, say=print)
            stack.push_async_exit(worker)
            workers.append(worker)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, _stop, workers)
        await asyncio.gather(*(worker.wait_stopped() for worker in workers))


def _stop(workers: list[Worker]) -> None:
    for worker in workers:
        worker.stop()


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except ConfigError as error:
        print(error)
        sys.exit(Exit.WRONG)
