"""What the other processes of a test do. Each is a Python of its own: nothing is shared but the file.

Run as ``python -m tests.integration.sqlite.processes ROLE PATH ARGUMENT…``; a line printed is an acknowledged fact.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

from holdfast.core.commands import Claim, Completed, Settled, Settlement
from holdfast.core.payload import Payload
from holdfast.core.states import State
from holdfast.stores.sqlite import SQLiteStore
from holdfast.testing.factories import new_job, read_counts, register, submit_jobs, submit_one

ROOT: Final = Path(__file__).parents[3]
BATCH: Final = 20
IDLE_SECONDS: Final = 0.02


def start(role: str, path: Path, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", __name__, role, str(path), *(str(argument) for argument in arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> list[str]:
    """Its lines; fails with what it wrote to stderr."""
    output, errors = process.communicate(timeout=90)
    assert process.returncode == 0, errors
    return output.split()


def say(*facts: object) -> None:
    # One write, so that a kill cannot leave half a line that looks whole.
    os.write(sys.stdout.fileno(), "".join(f"{fact}\n" for fact in facts).encode())


async def submit(store: SQLiteStore, count: str) -> None:
    """Several tasks, one job at a time and in batches."""

    async def some(size: int) -> None:
        for _ in range(int(count) // size):
            say(*[one.job_id for one in await submit_jobs(store, *(new_job() for _ in range(size)))])

    await asyncio.gather(some(1), some(5), some(BATCH))


async def work(store: SQLiteStore, until: str) -> None:
    """Claim and settle until the file holds ``until`` completed jobs; says what it completed."""
    worker = await register(store)
    while True:
        jobs = await store.claim(Claim(owner=worker, queues=("default",), limit=BATCH, nonce=uuid4()))
        settlements = [Settlement(lease=job.lease, outcome=Completed(job.payload.data)) for job in jobs]
        answers = await store.settle(settlements)
        assert all(isinstance(answer, Settled) for answer in answers), answers
        say(*[job.id for job in jobs])
        if not jobs:
            if (await read_counts(store)).get(State.COMPLETED, 0) >= int(until):
                return
            await asyncio.sleep(IDLE_SECONDS)


async def submit_forever(store: SQLiteStore) -> None:
    async def one_by_one() -> None:
        while True:
            say(await submit_one(store))

    await asyncio.gather(*(one_by_one() for _ in range(5)))


async def submit_large(store: SQLiteStore, count: str) -> None:
    """Without a pause, and reading meanwhile."""
    writing = asyncio.gather(*(_submit_large(store, int(count)) for _ in range(4)))
    while not writing.done():
        await read_counts(store)
        await asyncio.sleep(0.002)
    await writing


async def _submit_large(store: SQLiteStore, count: int) -> None:
    for _ in range(count):
        await submit_one(store, payload=Payload.of("x" * 100_000))


async def opened(store: SQLiteStore) -> None:
    say(await submit_one(store))


async def submit_after(store: SQLiteStore, seconds: str) -> None:
    await asyncio.sleep(float(seconds))
    job_id = await submit_one(store)
    say(job_id, time.monotonic())


async def main(role: str, path: str, *arguments: str) -> None:
    store = SQLiteStore(path)
    await store.open()
    await ROLES[role](store, *arguments)
    await store.close()


ROLES: Final = {one.__name__: one for one in (submit, work, submit_forever, submit_large, opened, submit_after)}


def ids(lines: Sequence[str]) -> list[UUID]:
    return [UUID(line) for line in lines]


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
