"""Submits numbered jobs at a steady rate until it is told to stop, and marks those that were accepted.

``python -m soak.submitter ACCEPTED JOBS_A_SECOND``. Where it cannot keep up it says by how much, and does not hurry
afterwards: the load is steady or the run is not one.
"""

import asyncio
import random
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from holdfast import fan_in
from soak.app import RETENTION_SECONDS, app, work, work_in_thread
from soak.marks import Marks

ROUND_SECONDS: Final = 0.1
MAX_BEHIND_SECONDS: Final = 5.0
MAX_UNDER_WAY: Final = 30
BATCH_JOBS: Final = 100
SMALL_BATCH_JOBS: Final = 20
FAN_IN_JOBS: Final = 10
DELAYS_SECONDS: Final = (0.5, 5.0)


class Submitter:
    def __init__(self, accepted: Marks, jobs_a_second: float) -> None:
        self._accepted = accepted
        self._jobs_a_second = jobs_a_second
        self._rng = random.Random(1)
        self._number = 0
        self._under_way: set[asyncio.Task[None]] = set()
        self.dropped = 0.0
        self.is_stopped = False

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        owed, last = 0.0, clock()
        while not self.is_stopped:
            passed, last = clock() - last, clock()
            owed += passed * self._jobs_a_second
            most = MAX_BEHIND_SECONDS * self._jobs_a_second
            self.dropped += max(0.0, owed - most)
            owed = min(owed, most)
            while owed > 0 and len(self._under_way) < MAX_UNDER_WAY:
                owed -= self._begin()
            await asyncio.sleep(ROUND_SECONDS)
        await asyncio.gather(*self._under_way)

    def _begin(self) -> int:
        kinds: tuple[tuple[Callable[[list[int]], Awaitable[None]], int, int], ...] = (
            (self._batch, BATCH_JOBS, 60),
            (self._in_threads, SMALL_BATCH_JOBS, 20),
            (self._failing, SMALL_BATCH_JOBS, 40),
            (self._delayed, SMALL_BATCH_JOBS, 40),
            (self._keyed, SMALL_BATCH_JOBS, 30),
            (self._fan_in, FAN_IN_JOBS, 80),
        )
        ((submit, size, _),) = self._rng.choices(kinds, weights=[weight for *_, weight in kinds])
        numbers = list(range(self._number, self._number + size))
        self._number += size
        task = asyncio.ensure_future(self._submit(submit, numbers))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return size

    async def _submit(self, submit: Callable[[list[int]], Awaitable[None]], numbers: list[int]) -> None:
        await submit(numbers)
        for number in numbers:
            self._accepted.set(number)

    # what is submitted

    async def _batch(self, numbers: list[int]) -> None:
        await app.submit_many([work.call(number) for number in numbers])

    async def _in_threads(self, numbers: list[int]) -> None:
        await app.submit_many([work_in_thread.call(number) for number in numbers])

    async def _failing(self, numbers: list[int]) -> None:
        await app.submit_many([work.call(number, fails=1 + number % 2) for number in numbers])

    async def _delayed(self, numbers: list[int]) -> None:
        delay = self._rng.uniform(*DELAYS_SECONDS)
        await app.submit_many([work.options(delay=delay).call(number) for number in numbers])

    async def _keyed(self, numbers: list[int]) -> None:
        """Twice, as a program does whose first answer was lost: the second finds the jobs of the first."""
        keyed = work.options(key_window=RETENTION_SECONDS / 2)
        first = await app.submit_many([keyed.call(number) for number in numbers], key=f"{numbers[0]}")
        again = await app.submit_many([keyed.call(number) for number in numbers], key=f"{numbers[0]}")
        if [handle.id for handle in first] != [handle.id for handle in again]:
            raise SystemExit(f"the jobs with the key {numbers[0]} were accepted a second time")

    async def _fan_in(self, numbers: list[int]) -> None:
        *sources, last = numbers
        await fan_in(*(work.call(number) for number in sources), into=work.call(last)).submit()


async def main(accepted: str, jobs_a_second: str) -> None:
    submitter = Submitter(Marks(Path(accepted)), float(jobs_a_second))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, setattr, submitter, "is_stopped", True)
    async with app:
        await submitter.run()
    print(f"dropped {submitter.dropped:.0f}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
