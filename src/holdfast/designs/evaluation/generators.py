"""The load generators of a visit, driven from here: started, told what to do at the same instant, added up, ended."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Self

import msgspec

from holdfast.core.errors import Unavailable
from holdfast.designs.evaluation.histograms import Times
from holdfast.designs.evaluation.profiles import Cell
from holdfast.designs.evaluation.schedule import seed_of
from holdfast.designs.evaluation.tally import OPERATIONS

LINE_BYTES: Final = 64 * 1024 * 1024
STOP_SECONDS: Final = 5.0
COMMAND: Final = (sys.executable, "-m", "holdfast.designs.evaluation.generator")


class Generators:
    def __init__(self, processes: Sequence[asyncio.subprocess.Process]) -> None:
        self._processes = processes

    @classmethod
    @asynccontextmanager
    async def started(cls, count: int) -> AsyncIterator[Self]:
        processes: list[asyncio.subprocess.Process] = []
        pipe = asyncio.subprocess.PIPE
        try:
            while len(processes) < count:
                processes.append(
                    await asyncio.create_subprocess_exec(*COMMAND, stdin=pipe, stdout=pipe, limit=LINE_BYTES)
                )
            yield cls(processes)
        finally:
            await asyncio.gather(*(_end(process) for process in processes))

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    async def connect(self, targets: Sequence[str]) -> None:
        await self._all({"do": "connect", "targets": list(targets)})

    async def open_connections(self, cell: Cell) -> None:
        """As many to each target as the cell has clients, whatever the design; before its time begins to run."""
        parts = shares(cell, len(self._processes))
        await self._each([{"do": "clients", "connections": part.connections} for part in parts])

    async def run(
        self, cell: Cell, *, starts_at: float, opens_at: float, closes_at: float, seed: str
    ) -> dict[str, Any]:
        times = {"starts_at": starts_at, "opens_at": opens_at, "closes_at": closes_at}
        orders = [
            {"do": "run", "cell": msgspec.to_builtins(part), "seed": seed_of(seed, number), **times}
            for number, part in enumerate(shares(cell, len(self._processes)))
        ]
        return added(await self._each(orders))

    async def cancel(self) -> int:
        return sum(answer["left"] for answer in await self._all({"do": "cancel"}))

    async def slots(self, jobs: int, *, job_ms: int) -> list[int]:
        """When each of so many jobs, submitted at once, was started."""
        (answer,) = await self._each([{"do": "slots", "jobs": jobs, "job_ms": job_ms}])
        starts: list[int] = answer["starts_ms"]
        return starts

    async def _all(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        return await self._each([order for _ in self._processes])

    async def _each(self, orders: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        return await asyncio.gather(
            *(_ask(process, order) for process, order in zip(self._processes, orders, strict=False))
        )


def shares(cell: Cell, generators: int) -> list[Cell]:
    """The cell, split over so many generators; with fewer clients than those, some get nothing to do."""
    if cell.loop == "open":
        return [msgspec.structs.replace(cell, rate=cell.rate / generators) for _ in range(generators)]
    base, rest = divmod(cell.clients, generators)
    counts = [base + (number < rest) for number in range(generators)]
    return [msgspec.structs.replace(cell, clients=count) for count in counts if count]


def added(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts are added, histograms too."""

    def times(texts: Sequence[str]) -> str:
        return Times.sum(Times.decode(text) for text in texts).encode()

    def counts(name: str) -> dict[str, int]:
        total: Counter[str] = Counter()
        for answer in answers:
            total.update(answer[name])  # unlike +, keeps what is 0
        return dict(total)

    return {
        "times": {
            name: times([answer["times"][name] for answer in answers if name in answer["times"]])
            for name in OPERATIONS
            if any(name in answer["times"] for answer in answers)
        },
        **{name: counts(name) for name in ("calls", "errors", "ends")},
        **{name: sum(answer[name] for answer in answers) for name in ("accepted", "done_in_window")},
        **{name: times([answer[name] for answer in answers]) for name in ("lateness", "submit_to_done", "queue_wait")},
        "sent": {
            name: [sum(column) for column in zip(*(answer["sent"][name] for answer in answers), strict=True)]
            for name in OPERATIONS
        },
    }


async def _ask(process: asyncio.subprocess.Process, order: dict[str, Any]) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(order).encode() + b"\n")
        await process.stdin.drain()
        line = await process.stdout.readline()
    except ConnectionError:
        line = b""
    if not line:
        raise Unavailable("a load generator has ended before its time; what it said stands above")
    answer: dict[str, Any] = json.loads(line)
    if "failed" in answer:
        raise Unavailable(f"a load generator could not go on: {answer['failed']}")
    return answer


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
