"""Arrivals of an open loop: random, the same for the same seed, and never waiting for each other."""

import asyncio
import time
from itertools import pairwise

import pytest

from benchmarks.curves.schedule import poisson, share_late
from benchmarks.curves.timer import Timer


def test_arrivals_come_in_order_at_the_rate_that_was_asked_for() -> None:
    times = poisson(200.0, 20_000, seed=1)
    assert times == sorted(times)
    assert len(times) == 20_000
    assert times[-1] == pytest.approx(100.0, rel=0.05)


def test_gaps_are_those_of_independent_arrivals() -> None:
    times = poisson(1.0, 20_000, seed=2)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    # An exponential distribution: as many as 1 - 1/e are shorter than the mean, and its spread is its mean.
    assert sum(gap < 1.0 for gap in gaps) / len(gaps) == pytest.approx(0.632, abs=0.02)
    assert sum((gap - 1.0) ** 2 for gap in gaps) / len(gaps) == pytest.approx(1.0, abs=0.1)


def test_the_same_seed_gives_the_same_arrivals() -> None:
    assert poisson(50.0, 100, seed=7) == poisson(50.0, 100, seed=7)
    assert poisson(50.0, 100, seed=7) != poisson(50.0, 100, seed=8)


@pytest.mark.parametrize("rate", [0.0, -1.0])
def test_a_rate_that_brings_no_arrivals_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        poisson(rate, 1, seed=1)


def test_late_is_what_came_more_than_so_much_behind_its_time() -> None:
    assert share_late([0.0, 0.005, 0.006, 0.1], after=0.005) == 0.5
    assert share_late([], after=0.005) == 0.0


async def test_a_timer_rings_not_before_its_time_and_at_once_for_one_that_is_past() -> None:
    with Timer() as timer:
        due = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000 + 3_500
        async with asyncio.timeout(60):
            await timer.wait_until(due)
            assert time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000 >= due
            await timer.wait_until(due)
            await timer.wait_until(0)
