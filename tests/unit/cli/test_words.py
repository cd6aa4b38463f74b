"""How things are said to people."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli import words
from holdfast.core.failures import Category, Failure
from holdfast.core.states import State

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-1, "0ms"),
        (0, "0ms"),
        (0.0124, "12ms"),
        (3.21, "3.2s"),
        (59, "59s"),
        (60, "1m"),
        (250, "4m 10s"),
        (3600, "1h"),
        (7500, "2h 5m"),
        (86400, "1d"),
        (90000, "1d 1h"),
        (86400 * 400, "400d"),
    ],
)
def test_a_duration_has_two_units(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"), [(-5, "0s"), (0, "0s"), (59, "59s"), (60, "1m"), (3600, "1h"), (86400 * 9, "9d")]
)
def test_an_age_has_one_unit(seconds: float, said: str) -> None:
    assert words.age(NOW - timedelta(seconds=seconds), NOW) == said


def test_a_moment_is_behind_or_ahead() -> None:
    assert words.ago(NOW - timedelta(seconds=90), NOW) == "1m 30s ago"
    assert words.ago(NOW + timedelta(seconds=90), NOW) == "in 1m 30s"


@given(st.text())
def test_no_text_can_command_a_terminal(text: str) -> None:
    shown = words.safe(text)
    assert len(shown.splitlines()) <= 1
    assert not any(ord(character) < 32 or 0x7F <= ord(character) < 0xA0 for character in shown)


def test_lines_are_kept_where_they_are_wanted() -> None:
    assert words.safe("a\nb\x1b[2J") == "a b\N{REPLACEMENT CHARACTER}[2J"
    assert words.safe_lines("a\n\tb\x07") == "a\n        b\N{REPLACEMENT CHARACTER}"
    assert words.safe("\N{RIGHT-TO-LEFT OVERRIDE}evil") == "\N{REPLACEMENT CHARACTER}evil"


def test_a_failure_is_one_line_without_its_module() -> None:
    failure = Failure(category=Category.TEMPORARY, error_type="shop.errors.Declined", message="card\nexpired")
    assert words.error(failure) == "Declined: card expired"
    assert words.error(Failure(category=Category.SYSTEM)) == "SYSTEM"
    assert words.error(None) == ""


def test_every_state_has_a_colour() -> None:
    assert set(words.STYLES) == set(State)


@pytest.mark.parametrize(("values", "drawn"), [([], ""), ([0, 0], "▁▁"), ([0, 1, 2, 4], "▁▃▅█"), ([5], "█")])
def test_a_sparkline_is_as_high_as_its_highest(values: list[float], drawn: str) -> None:
    assert words.sparkline(values) == drawn


def test_counts_agree_with_their_nouns() -> None:
    assert [words.count_of(n, "job") for n in (0, 1, 1200)] == ["0 jobs", "1 job", "1,200 jobs"]
