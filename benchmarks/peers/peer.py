"""What a system's programs in Python share: the payload, the ledger, and the producer's side of the protocol.

Only the standard library: these programs run in the environment of the system they drive. ``peer.js`` is its twin.

A worker's handler calls ``record``, which appends 16 bytes to one file: when the job was submitted and when the handler
began, microseconds of CLOCK_MONOTONIC, which all processes of a machine share. A producer reads commands as JSON lines
from its standard input and answers each with one JSON line.
"""

import asyncio
import json
import os
import random
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, runtime_checkable

URL: Final = os.environ.get("BENCH_URL", "")
QUEUE: Final = os.environ.get("BENCH_QUEUE", "bench")
"""New for every visit where the store itself is not."""
CONNECTIONS: Final = 10
BULK_JOBS: Final = 1000
FILL_TASKS: Final = 10

Payload = dict[str, Any]


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def new_payload() -> Payload:
    """About 100 bytes of JSON."""
    return {"order": 4711, "submitted": now(), "text": "x" * 52}


class Ledger:
    """Opened by the first job. A worker that forks shares it with its children: an append is one step."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None

    def add(self, payload: Payload) -> None:
        if self._file is None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        os.write(self._file, struct.pack("<QQ", payload["submitted"], now()))


_ledger: Final = Ledger(os.environ.get("BENCH_LEDGER", os.devnull))
record: Final = _ledger.add


class AsyncClient(Protocol):
    async def open(self) -> None: ...
    async def setup(self) -> None:
        """Make the tables in an empty database."""

    async def submit(self, payload: Payload) -> None:
        """One job, by the call that the documentation gives for one job."""


@runtime_checkable
class BulkClient(AsyncClient, Protocol):
    async def submit_many(self, payloads: Sequence[Payload]) -> None:
        """By the library's own call for many."""


class ThreadClient(Protocol):
    """A client whose calls block; ten producers are ten threads."""

    def open(self) -> None: ...
    def setup(self) -> None: ...
    def submit(self, payload: Payload) -> None: ...


def serve_tasks(client: AsyncClient) -> None:
    """Answer commands until there are no more."""
    serve_commands(Tasks(client))


def serve_commands(commands: "Tasks") -> None:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        _serve(commands, runner.run)


def serve_threads(client: ThreadClient) -> None:
    _serve(_Threads(client), lambda answer: answer)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where the system's environment has it."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = new_event_loop
    return factory


def _serve(side: Any, run: Callable[[Any], Any]) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints must not be taken for an answer
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = run(getattr(side, command.pop("do"))(**command)) or {}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers)


class Tasks:
    """The commands, for a client of coroutines."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def open(self) -> None:
        await self._client.open()

    async def setup(self) -> None:
        await self._client.setup()

    async def fill(self, jobs: int) -> Payload:
        started = now()
        if isinstance(self._client, BulkClient):
            for left in range(jobs, 0, -BULK_JOBS):
                await self._client.submit_many([new_payload() for _ in range(min(left, BULK_JOBS))])
        else:
            counter = iter(range(jobs))
            await asyncio.gather(*(self._each(counter) for _ in range(FILL_TASKS)))
        return {"jobs": jobs, "seconds": (now() - started) / 1e6}

    async def _each(self, counter: Any) -> None:
        for _ in counter:
            await self._client.submit(new_payload())

    async def bulk(self, seconds: float) -> Payload:
        assert isinstance(self._client, BulkClient), "this system has no bulk call"
        jobs, started = 0, now()
        while now() < started + seconds * 1e6:
            await self._client.submit_many([new_payload() for _ in range(BULK_JOBS)])
            jobs += BULK_JOBS
        return {"jobs": jobs, "seconds": (now() - started) / 1e6}

    async def singles(self, producers: int, seconds: float) -> Payload:
        started = now()
        counts = await asyncio.gather(*(self._until(started + seconds * 1e6) for _ in range(producers)))
        return {"jobs": sum(counts), "started": started, "ended": now(), "seconds": (now() - started) / 1e6}

    async def _until(self, deadline: float) -> int:
        jobs = 0
        while now() < deadline:
            await self._client.submit(new_payload())
            jobs += 1
        return jobs

    async def pace(self, jobs: int, interval: float) -> Payload:
        for _ in range(jobs):
            await self._client.submit(new_payload())
            await asyncio.sleep(random.uniform(0.5, 1.5) * interval)
        return {"jobs": jobs}


class _Threads:
    """The commands, for a client whose calls block."""

    def __init__(self, client: ThreadClient) -> None:
        self._client = client

    def open(self) -> None:
        self._client.open()

    def setup(self) -> None:
        self._client.setup()

    def fill(self, jobs: int) -> Payload:
        started = now()
        for _ in range(jobs):
            self._client.submit(new_payload())
        return {"jobs": jobs, "seconds": (now() - started) / 1e6}

    def singles(self, producers: int, seconds: float) -> Payload:
        started, counts = now(), [0] * producers

        def produce(number: int) -> None:
            while now() < started + seconds * 1e6:
                self._client.submit(new_payload())
                counts[number] += 1

        threads = [threading.Thread(target=produce, args=(number,)) for number in range(producers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"jobs": sum(counts), "started": started, "ended": now(), "seconds": (now() - started) / 1e6}

    def pace(self, jobs: int, interval: float) -> Payload:
        for _ in range(jobs):
            self._client.submit(new_payload())
            time.sleep(random.uniform(0.5, 1.5) * interval)
        return {"jobs": jobs}
