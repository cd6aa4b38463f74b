from random import Random

import pytest

from holdfast.designs.evaluation.statistics import interval, ratio, t95


def test_an_interval_is_students_t_over_the_rounds() -> None:
    found = interval([10.0, 12.0, 14.0])
    assert found is not None
    assert found.mean == 12
    assert found.low == pytest.approx(12 - 4.303 * 2 / 3**0.5)
    assert found.high == pytest.approx(12 + 4.303 * 2 / 3**0.5)


def test_one_round_is_never_sure() -> None:
    found = interval([10.0])
    assert found is not None
    assert found.low is None
    assert not found.excludes(0)
    assert interval([]) is None


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    random = Random(11)
    held = 0
    for _ in range(2000):
        found = interval([random.gauss(50, 10) for _ in range(5)])
        assert found is not None
        held += not found.excludes(50)
    assert held / 2000 == pytest.approx(0.95, abs=0.015)


def test_a_ratio_is_taken_round_by_round() -> None:
    # Both sides drift tenfold; within a round one is always twice the other.
    found = ratio([2.0, 20.0, 6.0], [1.0, 10.0, 3.0])
    assert found is not None
    assert found.mean == pytest.approx(2)
    assert found.low == pytest.approx(2)
    assert found.excludes(1)


def test_a_ratio_is_the_inverse_of_the_other_way_round() -> None:
    ones, others = [3.0, 4.0, 5.0], [1.0, 1.5, 1.4]
    there, back = ratio(ones, others), ratio(others, ones)
    assert there is not None
    assert back is not None
    assert there.mean == pytest.approx(1 / back.mean)
    assert there.low == pytest.approx(1 / (back.high or 0))


def test_rounds_with_nothing_to_divide_are_left_out() -> None:
    found = ratio([2.0, 0.0, 2.0], [1.0, 1.0, 0.0])
    assert found is not None
    assert found.rounds == 1
    assert ratio([], []) is None


def test_t_beyond_the_table_is_that_of_its_end() -> None:
    assert t95(2) == 12.706
    assert t95(31) == t95(1000) == 2.042
