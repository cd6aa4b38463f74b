"""``python -m holdfast.designs.evaluation.generator``: the load, as a process. A JSON line in, a JSON line out.

So its CPU can be told from the designs' and from what judges them, and it is the same program whatever it is pointed
at. It ends when its standard input does: a generator outlives nobody.
"""

import asyncio
import gc
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import count
from typing import Any, Final

import msgspec

from holdfast.designs.evaluation.calls import CONNECT_SECONDS, Caller, Connections, make_request
from holdfast.designs.evaluation.loops import DRAINERS, Load, drain
from holdfast.designs.evaluation.profiles import Cell
from holdfast.designs.evaluation.tally import Tally, Window

SLOT_SECONDS: Final = 30.0
YOUNG_OBJECTS: Final = 50_000
"""Calls leave no cycles behind: look for them seldom, so that no measured call waits for it."""


class Generator:
    def __init__(self) -> None:
        self._connections: list[Connections] = []
        self._targets: Sequence[str] = ()
        self._turns: Iterator[int] = count()
        self._tally: Tally | None = None

    async def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        answers: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {
            "connect": self.connect,
            "clients": self.clients,
            "run": self.run,
            "cancel": self.cancel,
            "slots": self.slots,
        }
        return await answers[order.pop("do")](**order)

    async def connect(self, *, targets: list[str]) -> dict[str, Any]:
        await self.close()
        self._targets, self._turns = targets, count()
        return await self.clients(connections=1)

    async def clients(self, *, connections: int) -> dict[str, Any]:
        """So many to each target from now on: as many as clients, so that each has its own."""
        while len(self._connections) > connections:
            await self._connections.pop().close()
        more = [Connections(self._targets, self._turns) for _ in range(connections - len(self._connections))]
        self._connections += more
        await asyncio.wait_for(asyncio.gather(*(one.connect() for one in more)), CONNECT_SECONDS)
        return {}

    async def run(
        self, *, cell: dict[str, Any], starts_at: float, opens_at: float, closes_at: float, seed: str
    ) -> dict[str, Any]:
        self._tally = Tally(Window(opens_at=opens_at, closes_at=closes_at), targets=len(self._targets))
        load = Load(msgspec.convert(cell, Cell), self._tally, self._connections, seed=seed)
        await load.run(starts_at=starts_at)
        return self._tally.data()

    async def cancel(self) -> dict[str, Any]:
        """What the last run left over, where the servers are not ours to restart."""
        if self._tally is None:
            return {"left": 0}
        tally, caller = self._tally, Caller(self._connections[0], self._tally)
        left = [job for job in tally.jobs if job.end is None]
        for begin in range(0, len(left), DRAINERS):
            await asyncio.gather(*(caller.cancel(job.job_id) for job in left[begin : begin + DRAINERS]))
        await drain(tally, caller, time.monotonic() + SLOT_SECONDS)
        return {"left": sum(job.end is None for job in left)}

    async def slots(self, *, jobs: int, job_ms: int) -> dict[str, Any]:
        """When each of many jobs that were submitted at once was started."""
        now = time.monotonic()
        tally = Tally(Window(opens_at=now, closes_at=now), targets=len(self._targets))
        caller = Caller(self._connections[0], tally)
        request = make_request(job_ms=job_ms, payload_bytes=0)
        await asyncio.gather(*(caller.submit(request) for _ in range(jobs)))
        await drain(tally, caller, time.monotonic() + SLOT_SECONDS)
        answers = [await caller.status(job.job_id) for job in tally.jobs]
        starts = [one.started_at_ms for one in answers if one is not None and one.started_at_ms]
        return {"starts_ms": starts, "errors": dict(tally.errors)}

    async def close(self) -> None:
        while self._connections:
            await self._connections.pop().close()


async def main() -> None:
    generator = Generator()
    loop = asyncio.get_running_loop()
    try:
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            try:
                answer = await generator.answer(json.loads(line))
            except TimeoutError:
                answer = {"failed": f"no connection within {CONNECT_SECONDS:.0f} s"}
            except Exception as error:
                answer = {"failed": f"{type(error).__name__}: {error}"}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    finally:
        await generator.close()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started it
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
    asyncio.run(main())
