"""What follows from samples: percentiles, and ratios that are taken round by round."""

import pytest

from benchmarks.peers.samples import Failure, Results, Sample, percentile
from benchmarks.rounds import turns


def rates(*values: float | None) -> list[Sample | None]:
    return [None if value is None else Sample(figures={"rate": value}) for value in values]


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 50.0), (99, 99.0), (99.5, 100.0), (100, 100.0), (1, 1.0), (0, 1.0)]
)
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(percent: float, expected: float) -> None:
    assert percentile([float(value) for value in range(100, 0, -1)], percent) == expected


def test_a_percentile_of_one_value_is_that_value() -> None:
    assert percentile([7.0], 99) == 7.0


def test_a_ratio_is_taken_round_by_round() -> None:
    # The medians are equal, the rounds are not: the machine was slow in the first one for both.
    results = Results(samples={"drain": {"one": rates(10, 100, 40), "other": rates(5, 40, 80)}})
    value = results.ratio("drain", "one", "other", "rate")
    assert value is not None
    assert value.median == 2.0
    assert value.rounds == 3


def test_a_round_that_either_failed_in_gives_no_ratio() -> None:
    results = Results(samples={"drain": {"one": rates(10, None, 30), "other": rates(5, 1, None)}})
    value = results.ratio("drain", "one", "other", "rate")
    assert value is not None
    assert (value.median, value.rounds) == (2.0, 1)


def test_there_is_no_ratio_to_what_was_not_measured() -> None:
    results = Results(samples={"drain": {"one": rates(10), "other": rates(None)}})
    assert results.ratio("drain", "one", "other", "rate") is None
    assert results.ratio("drain", "one", "nobody", "rate") is None


def test_waits_of_all_rounds_stand_together() -> None:
    samples: list[Sample | None] = [Sample(figures={}, waits=[1.0, 2.0]), None, Sample(figures={}, waits=[3.0])]
    assert Results(samples={"latency": {"one": samples}}).waits("latency", "one") == [1.0, 2.0, 3.0]


def test_why_there_is_no_sample_is_told_for_the_measure_or_for_all() -> None:
    results = Results(
        failures=[
            Failure(variant="one", measure="bulk", why="no such call"),
            Failure(variant="one", measure="drain", why="the worker ended"),
            Failure(variant="two", why="cannot be installed"),
        ]
    )
    assert results.why_missing("drain", ["one"]) == "one, drain: the worker ended"
    assert results.why_missing("drain", ["two"]) == "two: cannot be installed"
    assert results.why_missing("rest", ["one"]) == "not measured"


def test_everybody_has_a_turn_in_every_round_and_both_order_and_first_change() -> None:
    taken = list(turns(["a", "b", "c"], rounds=4))
    by_round = ["".join(name for number, name in taken if number == wanted) for wanted in range(4)]
    assert by_round == ["abc", "cba", "bca", "acb"]
