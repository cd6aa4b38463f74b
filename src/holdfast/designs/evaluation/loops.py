"""The load itself: clients that wait for their answers (closed loop), and arrivals that wait for nobody (open loop).

Both do journeys (submit, ask until it is done, fetch) or a mix of calls. What is left when the window has closed is
seen to its end, bounded by the cell's drain_seconds, so that every accepted job is accounted for.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import cycle
from random import Random
from typing import Final

from holdfast.designs.evaluation.calls import Caller, Connections, make_request
from holdfast.designs.evaluation.profiles import Cell
from holdfast.designs.evaluation.schedule import arrivals, calls, seed_of
from holdfast.designs.evaluation.tally import ENDS, Job, Tally
from holdfast.rpc.generated.taskqueue_public_pb2 import SubmitJobRequest

FIRST_PAUSE_SECONDS: Final = 0.005
MAX_PAUSE_SECONDS: Final = 0.08
"""A journey asks again after 5, 10, 20, 40, 80, 80 … ms, counted from when the job could be done at the earliest."""
KNOWN_JOBS: Final = 50
"""Of how many of its newest jobs a client of a mix asks."""
DRAINERS: Final = 16
DRAIN_PAUSE_SECONDS: Final = 0.02


class Load:
    """One cell's load by one generator process."""

    def __init__(self, cell: Cell, tally: Tally, connections: Sequence[Connections], *, seed: str) -> None:
        self._cell = cell
        self._tally = tally
        self._connections = connections
        self._seed = seed
        self._request = make_request(job_ms=cell.job_ms, payload_bytes=cell.payload_bytes)
        self._mixer = Mixer(cell, self._request, Random(seed_of(seed, "arrivals")))

    async def run(self, *, starts_at: float) -> None:
        await asyncio.sleep(starts_at - time.monotonic())
        if self._cell.loop == "closed":
            await self._closed()
        else:
            await self._open(starts_at)
        if self._cell.drain_seconds > 0:
            await drain(self._tally, Caller(self._connections[0], self._tally), self._deadline())

    def _deadline(self) -> float:
        return self._tally.window.closes_at + self._cell.drain_seconds

    def _is_over(self) -> bool:
        return time.monotonic() >= self._tally.window.closes_at

    def _is_too_late(self) -> bool:
        return time.monotonic() >= self._deadline()

    async def _closed(self) -> None:
        clients = (self._client(number) for number in range(self._cell.clients))
        await asyncio.gather(*clients)

    async def _client(self, number: int) -> None:
        caller = Caller(self._connections[number], self._tally)
        if self._cell.pattern == "journey":
            while not self._is_over():
                await self._journey(caller)
            return
        mixer = Mixer(self._cell, self._request, Random(seed_of(self._seed, "client", number)))
        while not self._is_over():
            await mixer.call(caller)

    async def _journey(self, caller: Caller, due: float | None = None) -> None:
        job = await caller.submit(self._request, due=due)
        if job is None:
            return
        pause, wait = FIRST_PAUSE_SECONDS, self._cell.job_ms / 1000
        while not self._is_too_late():
            await asyncio.sleep(wait + pause)
            pause, wait = min(2 * pause, MAX_PAUSE_SECONDS), 0
            answer = await caller.status(job.job_id, due=None if due is None else time.monotonic())
            if answer is not None and answer.status in ENDS:
                self._tally.end(job, answer)
                await caller.result(job.job_id, due=None if due is None else time.monotonic())
                return

    async def _open(self, starts_at: float) -> None:
        callers = cycle([Caller(one, self._tally) for one in self._connections])
        seconds = self._tally.window.closes_at - starts_at
        due = [starts_at + at for at in arrivals(self._cell.rate, seconds, Random(seed_of(self._seed, "due")))]
        await fire_at(due, lambda at: self._arrive(next(callers), at))

    async def _arrive(self, caller: Caller, due: float) -> None:
        if self._tally.window.has(due):
            self._tally.lateness.append(max(0, round((time.monotonic() - due) * 1_000_000)))
        if self._cell.pattern == "journey":
            await self._journey(caller, due)
        else:
            await self._mixer.call(caller, due=due)


class Mixer:
    """Calls at random in the shares of the mix, about the newest jobs that were submitted here."""

    def __init__(self, cell: Cell, request: SubmitJobRequest, random: Random) -> None:
        self._request = request
        self._random = random
        self._known: deque[str] = deque(maxlen=KNOWN_JOBS)
        self._calls: Iterator[str] = calls(cell.mix, random)

    async def call(self, caller: Caller, *, due: float | None = None) -> None:
        operation = next(self._calls) if self._known else "submit"
        if operation == "submit":
            job = await caller.submit(self._request, due=due)
            if job is not None:
                self._known.append(job.job_id)
        elif operation == "status":
            await caller.status(self._random.choice(self._known), due=due)
        else:
            await caller.result(self._random.choice(self._known), due=due)


async def fire_at(due: Sequence[float], action: Callable[[float], Awaitable[None]]) -> None:
    """Each action at its time, whatever became of those before; returns when all have ended.

    The clock is a thread's: the loop's own timers are a millisecond late, which is longer than some calls take.
    """
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()
    everything_fired = asyncio.Event()

    def fire(at: float) -> None:
        task = asyncio.ensure_future(action(at))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def tick() -> None:
        for at in due:
            time.sleep(max(0.0, at - time.monotonic()))
            loop.call_soon_threadsafe(fire, at)
        loop.call_soon_threadsafe(everything_fired.set)

    threading.Thread(target=tick, daemon=True, name="arrivals").start()
    await everything_fired.wait()
    while tasks:
        await asyncio.gather(*tasks)


async def drain(tally: Tally, caller: Caller, deadline: float) -> None:
    """Ask of every job whose end is not known until it has ended, or until ``deadline``."""
    left = deque(job for job in tally.jobs if job.end is None)

    async def ask() -> None:
        while left and time.monotonic() < deadline:
            await _see_to_the_end(left.popleft(), tally, caller, deadline)

    await asyncio.gather(*(ask() for _ in range(DRAINERS)))


async def _see_to_the_end(job: Job, tally: Tally, caller: Caller, deadline: float) -> None:
    while time.monotonic() < deadline:
        answer = await caller.status(job.job_id)
        if answer is not None and answer.status in ENDS:
            tally.end(job, answer)
            return
        await asyncio.sleep(DRAIN_PAUSE_SECONDS)
