"""What can be written on the command line."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.cli import values
from holdfast.cli.worker import numbers, queues


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5s", 1.5), ("500ms", 0.5), ("5m", 300), ("2h", 7200), ("7d", 604800)]
)
def test_durations(text: str, seconds: float) -> None:
    assert values.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "soon", "1y", "1 2", "inf", "nan", "1e9", "99999d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(values.Refused, match=r"duration|too long"):
        values.seconds(text)


def test_a_time_is_absolute_or_so_long_ago() -> None:
    assert values.time("2026-01-31T12:00+00:00") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert values.time("2026-01-31T12:00") == datetime(2026, 1, 31, 12).astimezone(UTC)
    before = datetime.now(UTC)
    assert before <= values.time("2h") + timedelta(hours=2) <= datetime.now(UTC)
    with pytest.raises(values.Refused, match="not a time"):
        values.time("yesterday")


def test_priorities_by_name_or_number() -> None:
    assert values.priority("critical") is values.priority("0")


def test_queues_in_order_or_with_weights() -> None:
    assert queues("high,default") == ["high", "default"]
    assert queues("high=3,default=1") == {"high": 3, "default": 1}
    for text in ("", "a,,b", "a=1,b", "a=0", "a=x", "=1"):
        with pytest.raises(values.Refused):
            queues(text)
    with pytest.raises(values.Refused):
        numbers("media")
