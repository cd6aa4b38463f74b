"""What counts as steady."""

from collections.abc import Callable

import pytest

from soak.judge import Change, Sample, compare

MINUTES_30 = 1800.0


def samples(value: Callable[[float], float], *, name: str = "tables, MiB", until: float = MINUTES_30) -> list[Sample]:
    return [Sample(at_seconds=float(n), values={name: value(n)}) for n in range(0, int(until), 5)]


def only(changes: list[Change]) -> Change:
    (change,) = changes
    return change


def test_a_figure_that_stays_holds() -> None:
    change = only(compare(samples(lambda _: 40.0), length_seconds=MINUTES_30))
    assert change.holds
    assert change.part == 0


def test_a_size_that_goes_up_and_down_holds() -> None:
    assert only(compare(samples(lambda n: 40.0 + n % 60), length_seconds=MINUTES_30)).holds


@pytest.mark.parametrize("factor", [0.89, 1.11])
def test_a_figure_that_is_more_than_a_tenth_off_does_not_hold(factor: float) -> None:
    change = only(compare(samples(lambda n: 40.0 * (factor if n >= 1200 else 1)), length_seconds=MINUTES_30))
    assert not change.holds


def test_a_figure_that_creeps_up_does_not_hold() -> None:
    assert not only(compare(samples(lambda n: 40.0 + n / 20), length_seconds=MINUTES_30)).holds


def test_the_first_ten_minutes_are_the_beginning() -> None:
    assert only(compare(samples(lambda n: 40.0 if n >= 600 else n / 15), length_seconds=MINUTES_30)).holds


def test_of_a_short_run_the_last_third_is_compared() -> None:
    found = samples(lambda n: 50.0 if n >= 40 else 40.0, until=60)
    assert only(compare(found, length_seconds=60.0)).part == pytest.approx(0.25)


def test_one_hiccup_says_nothing_of_a_time() -> None:
    found = samples(lambda n: 9000.0 if n == 1500 else 2.0, name="claim, ms")
    assert only(compare(found, length_seconds=MINUTES_30)).holds


def test_a_figure_that_was_not_sampled_in_the_end_does_not_hold() -> None:
    assert not only(compare(samples(lambda _: 40.0, until=1000), length_seconds=MINUTES_30)).holds


def test_what_grows_from_nothing_does_not_hold() -> None:
    assert not only(compare(samples(lambda n: 1.0 if n >= 1300 else 0.0), length_seconds=MINUTES_30)).holds
