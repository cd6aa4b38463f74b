from collections import Counter
from itertools import islice, pairwise
from random import Random
from statistics import fmean

import pytest

from holdfast.designs.evaluation.profiles import Mix
from holdfast.designs.evaluation.schedule import arrivals, calls, orders, seed_of

NAMES = ["a", "b", "durable"]


def test_each_design_is_first_equally_often_and_no_round_leaves_one_out() -> None:
    made = orders(NAMES, 6)
    assert Counter(order[0] for order in made) == dict.fromkeys(NAMES, 2)
    assert all(sorted(order) == NAMES for order in made)


def test_each_design_follows_each_other_equally_often() -> None:
    followed = Counter(pair for order in orders(NAMES, 6) for pair in pairwise(order))
    assert set(followed.values()) == {2}
    assert len(followed) == 6


def test_arrivals_come_at_the_rate_and_at_random() -> None:
    at = list(arrivals(200, 50, Random(7)))
    gaps = [later - earlier for earlier, later in pairwise(at)]
    assert len(at) == pytest.approx(10_000, rel=0.05)
    assert all(0 < one < 50 for one in at)
    assert min(gaps) > 0
    # Of exponential gaps 37 % are longer than the mean; of regular ones none or all.
    assert fmean(gap > 1 / 200 for gap in gaps) == pytest.approx(0.368, abs=0.02)


def test_the_same_seed_gives_the_same_arrivals_and_calls() -> None:
    seed = seed_of(1, 2, "jobs-c1-j0")
    assert list(arrivals(10, 5, Random(seed))) == list(arrivals(10, 5, Random(seed)))
    assert list(arrivals(10, 5, Random(seed))) != list(arrivals(10, 5, Random(seed_of(1, 3, "jobs-c1-j0"))))
    mix = Mix(submit=1, status=1, result=1)
    assert list(islice(calls(mix, Random(seed)), 50)) == list(islice(calls(mix, Random(seed)), 50))


def test_calls_come_in_the_shares_of_the_mix() -> None:
    counted = Counter(islice(calls(Mix(submit=10, status=60, result=30), Random(3)), 20_000))
    assert counted["submit"] / 20_000 == pytest.approx(0.1, abs=0.01)
    assert counted["status"] / 20_000 == pytest.approx(0.6, abs=0.02)
    assert set(islice(calls(Mix(submit=1), Random(3)), 1000)) == {"submit"}
