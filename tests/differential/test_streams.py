"""The stores do what the model does, answer by answer and job by job, for random streams of commands.

A failing run names its seed and prints the stream made small. To run one seed again::

    HOLDFAST_DIFFERENTIAL_SEED=<seed> pytest tests/differential

HOLDFAST_DIFFERENTIAL_STEPS is the least number of commands of a run (``make test-long``). However few they are, a run
goes on until it has met everything that ``coverage.EXPECTED`` lists.
"""

import asyncio
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, count
from random import SystemRandom
from typing import Final
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from holdfast.core.commands import NewJob, Submit, Tick
from holdfast.core.dependencies import Dependency
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.stores.verbs import change
from tests.differential.choosing import SCRIPTS
from tests.differential.commands import Command
from tests.differential.coverage import Coverage
from tests.differential.driver import Episode, OpenWorld, run_stream, seeded_stream
from tests.differential.shrinking import show, shrink
from tests.differential.streams import Option, next_script, start

STEPS: Final = int(os.environ.get("HOLDFAST_DIFFERENTIAL_STEPS", "600"))
MAX_STEPS: Final = max(20_000, 2 * STEPS)
SEED: Final = os.environ.get("HOLDFAST_DIFFERENTIAL_SEED")
SHORT_SEEDS: Final = (51, 73, 66, 214, 594, 428, 17, 47, 230, 19, 444, 563, 407, 532, 229)
"""Of the short run, which is the same every time; chosen by ``choosing``. A long one begins anywhere."""
EXAMPLES: Final = 5


@pytest.mark.timeout(600)
async def test_the_stores_follow_the_model_until_everything_was_met(open_world: OpenWorld) -> None:
    coverage = Coverage()
    steps = 0
    for seed in seeds():
        steps += await run_seed(seed, open_world, coverage)
        is_enough = steps >= STEPS and not coverage.missing()
        if is_enough or SEED is not None:
            return
        assert steps < MAX_STEPS, f"not met in {steps} steps: {coverage.missing()}"


def seeds() -> Iterable[int]:
    if SEED is not None:
        return [int(SEED)]
    if "HOLDFAST_DIFFERENTIAL_STEPS" in os.environ:
        return count(SystemRandom().randrange(1 << 40))
    return chain(SHORT_SEEDS, count())


async def run_seed(seed: int, open_world: OpenWorld, coverage: Coverage) -> int:
    commands = seeded_stream(seed, scripts=SCRIPTS)
    try:
        return await run_stream(commands, open_world, coverage)
    except Exception as problem:
        small = await shrink(commands, lambda some: run_stream(some, open_world))
        lines = "\n".join(f"  {show(command)}" for command in small)
        pytest.fail(f"HOLDFAST_DIFFERENTIAL_SEED={seed}\n{problem}\nThe stream made small:\n{lines}", pytrace=False)


class DrawnChoices:
    """Chance as Hypothesis gives it: what fails is made small by its own means."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def pick(self, options: Sequence[Option]) -> Option:
        return self._draw(st.sampled_from(options))

    def integer(self, least: int, most: int) -> int:
        return self._draw(st.integers(least, most))

    def chance(self, percent: int) -> bool:
        return self._draw(st.integers(0, 99)) >= 100 - percent


@st.composite
def scripts(draw: st.DrawFn) -> list[Command]:
    return next_script(DrawnChoices(draw))


@st.composite
def streams(draw: st.DrawFn) -> list[Command]:
    first = start(DrawnChoices(draw))
    return first + [command for script in draw(st.lists(scripts(), min_size=5, max_size=20)) for command in script]


@settings(
    max_examples=max(EXAMPLES, STEPS // 500),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
    phases=[phase for phase in Phase if phase is not Phase.explain],
)
@given(commands=streams())
def test_the_stores_follow_the_model_where_hypothesis_leads(open_world: OpenWorld, commands: list[Command]) -> None:
    asyncio.run(run_stream(commands, open_world))


MAX_TICKS: Final = 5
WIDTH: Final = change.MARKS_A_CALL + 10
"""More jobs with dependents than one call tells, so tick has to go on from the marks."""


def wide_graph() -> list[NewJob]:
    """One job, very many that wait for it, and one more behind each of them."""
    first, *middle = [NewJob(id=uuid4(), type="wide") for _ in range(WIDTH + 1)]
    middle = [replace(job, dependencies=(Dependency(first.id),)) for job in middle]
    last = [NewJob(id=uuid4(), type="wide", dependencies=(Dependency(job.id),)) for job in middle]
    return [first, *middle, *last]


async def test_a_cascade_too_long_for_one_call_goes_on_in_tick(open_world: OpenWorld) -> None:
    jobs = wide_graph()
    async with open_world() as (clock, stores):
        episode = Episode(clock, stores, Coverage())
        for side in (episode.reference, *episode.sides):
            await side.store.submit([Submit(jobs=tuple(jobs))])
            await side.store.cancel([jobs[0].id])
        for side in episode.sides:
            assert await has_pending_jobs(side.store), f"{side.name} told everybody at once"
            for _ in range(MAX_TICKS):
                await side.store.tick(Tick())
            assert not await has_pending_jobs(side.store), f"{side.name} has not told everybody after {MAX_TICKS} ticks"
        await episode.compare_snapshots(with_details=False)


async def has_pending_jobs(store: Store) -> bool:
    (queue,) = await store.read_queues()
    return queue.counts.get(State.PENDING, 0) > 0
