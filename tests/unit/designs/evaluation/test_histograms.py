from random import Random

import pytest

from holdfast.designs.evaluation.histograms import HIGHEST_MICROSECONDS, Times


def test_percentiles_are_those_of_the_sorted_values_to_three_digits() -> None:
    random = Random(5)
    values = sorted(round(random.lognormvariate(7, 1)) for _ in range(20_000))
    times = Times(values)
    for percent in (50, 95, 99):
        exact = values[len(values) * percent // 100 - 1] / 1000
        assert times.milliseconds(percent) == pytest.approx(exact, rel=0.002)


def test_what_is_written_can_be_read_again() -> None:
    times = Times([1, 500, 70_000, 70_000])
    again = Times.decode(times.encode())
    assert again.count == 4
    assert again.curve() == times.curve()


def test_adding_is_recording_everything_in_one() -> None:
    both = Times.sum([Times([100] * 90), Times([9000] * 10)])
    assert both.count == 100
    assert both.milliseconds(90) == pytest.approx(0.1, rel=0.01)
    assert both.milliseconds(91) == pytest.approx(9, rel=0.01)


def test_values_beyond_the_bounds_are_kept_at_the_bounds() -> None:
    times = Times([0, 10 * HIGHEST_MICROSECONDS])
    assert times.count == 2
    assert times.milliseconds(100) == pytest.approx(HIGHEST_MICROSECONDS / 1000, rel=0.01)


def test_nothing_recorded_has_no_curve() -> None:
    assert Times().curve() == []
    assert Times().milliseconds(99) == 0
