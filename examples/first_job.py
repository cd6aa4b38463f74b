"""One function, one job, one worker, one result.

Run it:

    python examples/first_job.py

The job lies in ``first_job.db``, a file in the working directory. Delete it to start over.
"""

import asyncio

from holdfast import Holdfast

app = Holdfast("sqlite:///first_job.db")


@app.job
async def greet(name: str) -> str:
    return f"Hello, {name}"


async def main() -> None:
    async with app, app.worker():
        handle = await greet.submit("world")
        print(await handle.result(timeout=30))


if __name__ == "__main__":
    asyncio.run(main())
