"""Submits jobs until it is told to stop, and writes down what it was told was accepted.

``python -m chaos.submitter LOG SEED LOAD``. Before each submit a line ``try`` with the jobs' IDs and the key, if they
have one; after it a line ``yes`` with the time and the jobs that the key stands for, or ``no`` with the time. A submit
without either is unknown: its answer was lost.

SIGUSR1: die at the next commit, before its answer is taken note of. SIGTERM: stop. A file ``enough`` beside the log:
from now on only slow jobs, so that leases are held until the end.
"""

import asyncio
import os
import random
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from chaos import ledger, scale, second
from chaos.app import app, in_process, in_thread, on_loop
from chaos.base import SMALL, ChaosApp
from chaos.load import ENOUGH, Load
from holdfast import Call, Workflow, chain, fan_in
from holdfast.core.errors import HoldfastError, InvalidInput, UsageError

ROUND_SECONDS: Final = 0.1
BATCH_JOBS: Final = 40
MAX_BEHIND_JOBS: Final = 3000
"""After an outage it does not make up for more than this at once."""
MAX_SLOW_BEHIND_JOBS: Final = 20
MAX_UNDER_WAY: Final = 200
TOO_LARGE: Final = "x" * 1_100_000
HUNGRY_MEBIBYTES: Final = 24
LONG_PART: Final = 0.05
"""Of the slow jobs."""
SECOND_PART: Final = 0.15
"""Of plain jobs: those of the other app."""
FAN_IN_JOBS: Final = 50
FAN_INS: Final = 3
SHARED_SOURCES: Final = 2 * FAN_IN_JOBS
"""So many sources for all of the large fan-ins: each waits for half of them."""
KEY_SECONDS: Final = 3.0
KEYS: Final = 8
"""Keys at a time; after KEY_SECONDS come others. So most are submitted again and again, at once and later."""
KEYED_JOBS: Final = 3


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs that are accepted together or not at all."""

    calls: Sequence[Call[Any]]
    submit: Callable[[], Awaitable[Any]]
    key: str | None = None
    """Then the answer may be other jobs: those of the first submit with it."""


class Submitter:
    def __init__(self, log: int, rng: random.Random, load: Load, *, enough: Path) -> None:
        self._log = log
        self._enough = enough
        self._rng = rng
        self._load = load
        self._number = 0
        self._under_way: set[asyncio.Task[None]] = set()
        self.is_stopped = False
        self.dies_at_commit = False

    async def run(self) -> None:
        for one in (app, second.app):
            self._put_end_behind_commit(one)
        clock = asyncio.get_running_loop().time
        owed_slow, owed, last = 0.0, 0.0, clock()
        while not self.is_stopped:
            passed, last = clock() - last, clock()
            owed_slow = min(owed_slow + passed * self._load.slow_jobs_a_second, MAX_SLOW_BEHIND_JOBS)
            owed = min(owed + passed * self._load.jobs_a_second, MAX_BEHIND_JOBS)
            while owed_slow > 0:
                self._begin(self._slow())
                owed_slow -= 1
            has_enough = self._enough.exists()
            while owed > 0 and not has_enough and len(self._under_way) < MAX_UNDER_WAY:
                group = self._any()
                self._begin(group)
                owed -= len(group.calls)
            await asyncio.sleep(ROUND_SECONDS)
        if self._under_way:
            await asyncio.wait(self._under_way)

    def _put_end_behind_commit(self, one: ChaosApp) -> None:
        store = one.store
        commit = store.submit

        async def submit(*arguments: Any, **options: Any) -> Any:
            answer = await commit(*arguments, **options)
            if self.dies_at_commit:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        setattr(store, "submit", submit)  # noqa: B010 - between commit and answer there is no other place

    def _begin(self, group: Group) -> None:
        """One that hangs in a dead connection keeps no other from being tried."""
        task = asyncio.create_task(self._submit(group))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _submit(self, group: Group) -> None:
        self._number += 1
        number = self._number
        ids = ",".join(str(call.id) for call in group.calls)
        ledger.write_line(self._log, f"try {number} {ids}" + (f" {group.key}" if group.key else ""))
        try:
            handles = await group.submit()
        except (InvalidInput, UsageError):
            self._answered("no", number)
        except HoldfastError:
            return  # nobody knows
        else:
            self._answered("yes", number, [handle.id for handle in handles] if group.key else ())

    def _answered(self, word: str, number: int, ids: Sequence[UUID] = ()) -> None:
        ledger.write_answer(self._log, word, number, ids)

    # what is submitted

    def _any(self) -> Group:
        weights = {
            self._batch: 40,
            self._second: 10 if self._load.has_second_app else 0,
            self._chain: 12,
            self._fan_in: 12,
            self._large_fan_ins: 1,
            self._single: 12,
            self._failing: 12,
            self._keyed: 10 if self._load.has_keys else 0,
            self._refused: 1,
        }
        (kind,) = self._rng.choices(list(weights), weights=list(weights.values()))
        return kind()

    def _call(self, seconds: float = 0.0) -> Call[str]:
        says = "something" if self._rng.random() < 0.05 else ""
        (kind,) = self._rng.choices(("loop", "thread", "process"), weights=(80, 15, 5))
        if kind == "loop":
            return on_loop.call(seconds, says=says)
        if kind == "thread":
            return in_thread.call(seconds, says=says)
        return in_process.call(seconds, says=says, mebibytes=HUNGRY_MEBIBYTES if self._rng.random() < 0.3 else 0)

    def _many(self, calls: Sequence[Call[str]], of: ChaosApp = app) -> Group:
        return Group(calls, lambda: of.submit_many(calls))

    def _workflow(self, workflow: Workflow[Any]) -> Group:
        return Group(workflow.calls, workflow.submit)

    def _batch(self) -> Group:
        return self._many([self._call() for _ in range(self._rng.randint(1, BATCH_JOBS))])

    def _second(self) -> Group:
        kinds = self._rng.choices(
            (second.second_on_loop, second.second_in_thread), weights=(4, 1), k=self._rng.randint(1, BATCH_JOBS)
        )
        return self._many([kind.call() for kind in kinds], second.app)

    def _single(self) -> Group:
        return self._many([self._call()])

    def _keyed(self) -> Group:
        """One job, or a batch with one key for all: each repeat must answer with the first one's jobs."""
        at = int(asyncio.get_running_loop().time() / KEY_SECONDS)
        key = f"{at}-{self._rng.randrange(KEYS)}"
        if self._rng.random() < 0.7:
            call = on_loop.options(key=key).call()
            return Group([call], lambda: app.submit_many([call]), key)
        calls = [in_thread.call() for _ in range(KEYED_JOBS)]
        return Group(calls, lambda: app.submit_many(calls, key=key), f"batch-{key}")

    def _slow(self) -> Group:
        is_long = self._rng.random() < LONG_PART
        seconds = self._rng.uniform(*(scale.LONG_SECONDS if is_long else self._load.slow_seconds))
        (kind,) = self._rng.choices(("loop", "thread", "process"), weights=(50, 25, 25))
        if self._load.has_second_app and self._rng.random() < SECOND_PART and kind != "process":
            slow = second.second_on_loop if kind == "loop" else second.second_in_thread
            return self._many([slow.call(seconds)], second.app)
        if kind == "loop":
            return self._many([on_loop.call(seconds)])
        if kind == "thread":
            return self._many([in_thread.call(seconds)])
        return self._many([in_process.call(seconds, mebibytes=HUNGRY_MEBIBYTES)])

    def _chain(self) -> Group:
        return self._workflow(chain(*(self._call() for _ in range(self._rng.randint(2, 4)))))

    def _fan_in(self) -> Group:
        sources = [self._call() for _ in range(self._rng.randint(2, 6))]
        return self._workflow(fan_in(*sources, into=self._call()))

    def _large_fan_ins(self) -> Group:
        """Several at once that share sources: those who tell their dependents meet each other there."""
        sources = [self._call() for _ in range(SHARED_SOURCES)]
        waiting = [
            self._rng.choice((on_loop, in_thread)).options(after=self._rng.sample(sources, FAN_IN_JOBS)).call()
            for _ in range(FAN_INS)
        ]
        return self._many([*sources, *waiting])

    def _failing(self) -> Group:
        fails = self._rng.choice((1, 2, scale.SMALL_BUDGET))
        kind = self._rng.choice((on_loop, in_thread))
        return self._many([kind.options(retry=SMALL).call(fails=fails)])

    def _refused(self) -> Group:
        return self._many([on_loop.call(), on_loop.call(says=TOO_LARGE)])


async def main(log: str, seed: str, load: str) -> None:
    enough = Path(log).with_name(ENOUGH)
    submitter = Submitter(ledger.open_to_append(Path(log)), random.Random(seed), Load.decode(load), enough=enough)
    loop = asyncio.get_running_loop()
    for number, flag in {
        signal.SIGTERM: "is_stopped",
        signal.SIGINT: "is_stopped",
        signal.SIGUSR1: "dies_at_commit",
    }.items():
        loop.add_signal_handler(number, setattr, submitter, flag, True)
    async with app, second.app:
        await submitter.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
