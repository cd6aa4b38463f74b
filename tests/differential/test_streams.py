"""The stores do what the model does, answer by answer and job by job, for random streams of commands.

A failing run names its seed and prints the stream made small. To run one seed again::

    HOLDFAST_DIFFERENTIAL_SEED=<seed> pytest tests/differential

HOLDFAST_DIFFERENTIAL_STEPS is the least number of commands of a run (``make test-long``). However few they are, a run
goes on until it has met everything that ``coverage.EXPECTED`` lists.
"""

import asyncio
import os
from collections.abc import Iterable, Sequence
from itertools import count
from random import SystemRandom
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from holdfast.core.commands import NewJob, Submit, Tick
from holdfast.core.dependencies import Dependency
from holdfast.core.states import State
from tests.differential.commands import Call, Cancelling, Choice, Command, submit_call
from tests.differential.coverage import Coverage
from tests.differential.driver import Episode, OpenWorld, run_stream, seeded_stream
from tests.differential.shrinking import show, shrink
from tests.differential.sides import Book
from tests.differential.streams import Option, next_script, start

STEPS: Final = int(os.environ.get("HOLDFAST_DIFFERENTIAL_STEPS", "600"))
MAX_STEPS: Final = max(20_000, 2 * STEPS)
SEED: Final = os.environ.get("HOLDFAST_DIFFERENTIAL_SEED")
FIRST_SEED: Final = 20
"""Of the short run, which is the same every time; a long one begins anywhere."""
SCRIPTS: Final = 40
EXAMPLES: Final = 10


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
    is_long = "HOLDFAST_DIFFERENTIAL_STEPS" in os.environ
    return count(SystemRandom().randrange(1 << 40) if is_long else FIRST_SEED)


async def run_seed(seed: int, open_world: OpenWorld, coverage: Coverage) -> int:
    commands = seeded_stream(seed, scripts=SCRIPTS)
    try:
        return await run_stream(commands, open_world, coverage)
    except Exception as problem:
        small = await shrink(commands, open_world)
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
    return first + [command for script in draw(st.lists(scripts(), min_size=5, max_size=25)) for command in script]


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


WIDTH: Final = 600
"""Twice this is more than one call tells (``change.MARKS_A_CALL``), so tick has to go on from the marks."""


class WideGraph:
    """One job, very many that wait for it, and one more behind each of them."""

    def prepare(self, book: Book) -> Call:
        first, middle, last = book.new_id(), *([book.new_id() for _ in range(WIDTH)] for _ in range(2))
        jobs = [NewJob(id=first, type="wide")]
        jobs += [NewJob(id=one, type="wide", dependencies=(Dependency(first),)) for one in middle]
        jobs += [
            NewJob(id=one, type="wide", dependencies=(Dependency(before),))
            for before, one in zip(middle, last, strict=True)
        ]
        return submit_call([Submit(jobs=tuple(jobs))])


async def test_a_cascade_too_long_for_one_call_goes_on_in_tick(open_world: OpenWorld) -> None:
    async with open_world() as (clock, stores):
        episode = Episode(clock, stores, Coverage())
        wide: Any = WideGraph()
        await episode.step(wide)
        oldest = Choice(pick=2 * WIDTH, states=frozenset({State.SCHEDULED, State.PENDING}))
        call = Cancelling((oldest,)).prepare(episode.book)
        for side in (episode.reference, *episode.sides):
            (answer,) = await call.run(side)
            assert answer.state is State.CANCELLED, side.name
        for side in episode.sides:
            told = [await side.store.tick(Tick()) for _ in range(3)]
            assert sum(report.propagated for report in told) > 0, side.name
            assert not told[-1].has_more, side.name
        await episode.compare_snapshots()
