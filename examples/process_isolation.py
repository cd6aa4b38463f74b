"""Handlers that crash or never end, in processes that can be killed.

Run it:

    python examples/process_isolation.py

A thread cannot be killed, a process can. What a child does to itself fails only its own job. A child finds the function
by importing this file, so what must happen once stands under ``if __name__ == "__main__":``.
"""

import asyncio
import os

from holdfast import Holdfast, JobFailed, Retry

app = Holdfast("sqlite:///process_isolation.db")


@app.job(isolation="process")
def square(number: int) -> int:
    return number * number


@app.job(isolation="process", timeout=1, retry=Retry(max_attempts=1))
def loop_for_ever() -> None:
    while True:
        pass


@app.job(isolation="process", retry=Retry(max_attempts=1))
def crash() -> None:
    os._exit(1)


async def main() -> None:
    async with app, app.worker(concurrency=2):
        for call in (loop_for_ever.call(), crash.call()):
            (handle,) = await app.submit_many([call])
            try:
                await handle.result(timeout=60)
            except JobFailed as error:
                print(error.state, error.failure.category if error.failure else "")
        squared = await square.submit(12)
        print(await squared.result(timeout=60))


if __name__ == "__main__":
    asyncio.run(main())
