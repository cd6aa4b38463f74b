"""The stores do what the model allows while commands overlap and the clock jumps, and in the end nothing is left.

Two stores on one database, as two processes have them, are asked in turns, while transactions of other programs stay
open that have submitted jobs, wait for jobs or hold keys. A failing run names its seed and prints the stream made
small. To run one seed again::

    HOLDFAST_DIFFERENTIAL_SEED=<seed> pytest tests/differential/test_overlaps.py

HOLDFAST_DIFFERENTIAL_STEPS is the least number of commands of a run (``make test-long``).
"""

import os
from collections.abc import Iterable, Sequence
from itertools import count
from random import SystemRandom
from typing import Final

import pytest

from tests.differential.overlaps.commands import Command
from tests.differential.overlaps.databases import OpenDatabase
from tests.differential.overlaps.driver import run_overlap
from tests.differential.overlaps.streams import stream
from tests.differential.shrinking import show, shrink

STEPS: Final = int(os.environ.get("HOLDFAST_DIFFERENTIAL_STEPS", "0")) // 10
"""A step of an overlapping stream often waits for a lock, so a long run has fewer of them."""
SHORT_STEPS: Final = {"postgres": 400, "sqlite": 250}
MAX_STEPS: Final = max(20_000, 2 * STEPS)
EXPECTED: Final = {
    "postgres": {
        *("SubmittingWithin", "Submitting", "Settling", "Extending", "Cancelling", "Replaying"),
        *("a claim passes by what was held", "a dependent is told later", "a lease has no worker"),
    },
    "sqlite": {"Submitting", "Claiming", "Settling", "Extending", "Cancelling", "Replaying", "Ticking", "Leaving"},
}
"""The commands that were answered with Unavailable, and what else must have happened before a run may end."""
SEED: Final = os.environ.get("HOLDFAST_DIFFERENTIAL_SEED")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["postgres", "sqlite"])
async def test_the_stores_do_what_the_model_allows_while_commands_overlap(
    name: str, open_databases: dict[str, OpenDatabase]
) -> None:
    steps, met = 0, set[str]()
    for seed in seeds():
        commands = stream(seed)
        met |= await run(seed, commands, open_databases[name])
        steps += len(commands)
        is_enough = steps >= max(STEPS, SHORT_STEPS[name]) and met >= EXPECTED[name]
        if is_enough or SEED is not None:
            return
        assert steps < MAX_STEPS, f"not met in {steps} steps: {EXPECTED[name] - met}"


def seeds() -> Iterable[int]:
    if SEED is not None:
        return [int(SEED)]
    return count(SystemRandom().randrange(1 << 40) if STEPS else 1)


async def run(seed: int, commands: Sequence[Command], open_database: OpenDatabase) -> set[str]:
    try:
        return await run_overlap(commands, open_database)
    except Exception as problem:
        small = await shrink(commands, lambda some: run_overlap(some, open_database))
        lines = "\n".join(f"  {show(command)}" for command in small)
        pytest.fail(f"HOLDFAST_DIFFERENTIAL_SEED={seed}\n{problem}\nThe stream made small:\n{lines}", pytrace=False)
