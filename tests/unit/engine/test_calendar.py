"""Which slots an expression has: Debian's rules where clocks change, and nothing that depends on when one looks."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core.errors import UsageError
from holdfast.engine.cron import CronEntry
from holdfast.testing.factories import new_job

SPRING = datetime(2026, 3, 29, 1, tzinfo=UTC)
"""In Berlin 02:00 becomes 03:00."""
AUTUMN = datetime(2026, 10, 25, 1, tzinfo=UTC)
"""In Berlin 03:00 becomes 02:00 again."""


def entry(expression: str, timezone: str = "UTC", **more: Any) -> CronEntry:
    return CronEntry(**{"name": "c", "expression": expression, "timezone": timezone, "make_job": new_job, **more})


def slots(one: CronEntry, start: datetime, end: datetime) -> list[str]:
    """Those from ``start`` on and before ``end``, as the zone's clock shows them, with the offset in hours."""
    found = []
    at = one.next_after(start - timedelta(microseconds=1))
    while at is not None and at < end:
        local = at.astimezone(ZoneInfo(one.timezone))
        offset = local.utcoffset()
        assert offset is not None
        found.append(f"{local:%H:%M}+{offset // timedelta(hours=1)}")
        at = one.next_after(at)
    return found


def around(change: datetime) -> tuple[datetime, datetime]:
    return change - timedelta(hours=2), change + timedelta(hours=2)


# clocks that change


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 2 * * *", ["03:00+2"]),
        ("0,20,40 2 * * *", ["03:00+2"]),
        ("30 1-3 * * *", ["01:30+1", "03:00+2", "03:30+2"]),
        ("*/30 * * * *", ["00:00+1", "00:30+1", "01:00+1", "01:30+1", "03:00+2", "03:30+2", "04:00+2", "04:30+2"]),
        ("30 * * * *", ["00:30+1", "01:30+1", "03:30+2", "04:30+2"]),
        ("0 30 2 * * *", []),
    ],
)
def test_in_the_hour_that_is_skipped(expression: str, expected: list[str]) -> None:
    """A fixed time fires as soon as the hour is over, once; a star, or seconds, follow real time."""
    assert slots(entry(expression, "Europe/Berlin"), *around(SPRING)) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 2 * * *", ["02:30+2"]),
        ("0,40 2 * * *", ["02:00+2", "02:40+2"]),
        ("30 1-3 * * *", ["01:30+2", "02:30+2", "03:30+1"]),
        ("30 * * * *", ["01:30+2", "02:30+2", "02:30+1", "03:30+1"]),
        ("*/30 2 * * *", ["02:00+2", "02:30+2", "02:00+1", "02:30+1"]),
        ("0 30 2 * * *", ["02:30+2", "02:30+1"]),
    ],
)
def test_in_the_hour_that_comes_twice(expression: str, expected: list[str]) -> None:
    """A fixed time fires the first time; a star, or seconds, follow real time."""
    assert slots(entry(expression, "Europe/Berlin"), *around(AUTUMN)) == expected


def test_a_day_is_a_day_of_the_zone() -> None:
    nightly = entry("0 0 * * *", "America/New_York")
    assert nightly.next_after(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1, 5, tzinfo=UTC)
    assert nightly.next_after(datetime(2026, 7, 1, tzinfo=UTC)) == datetime(2026, 7, 1, 4, tzinfo=UTC)


# one truth, whenever one looks

EXPRESSIONS = [
    "30 2 * * *",
    "0,45 1-3 * * *",
    "0-59 2 * * *",
    "*/15 * * * *",
    "7 * * * *",
    "0 */2 * * *",
    "0 0 1 * *",
    "59 23 * * SUN",
    "0 12 29 2 *",
    "*/20 30 2 * * *",
    "0 30 2 * * *",
    "15 0 * * *",
]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Havana"]
CHANGES = [
    SPRING,
    AUTUMN,
    datetime(2026, 3, 8, 7, tzinfo=UTC),
    datetime(2026, 11, 1, 6, tzinfo=UTC),
    datetime(2026, 4, 4, 15, tzinfo=UTC),
    datetime(2026, 10, 3, 15, 30, tzinfo=UTC),
    datetime(2026, 3, 8, 5, tzinfo=UTC),
]
moments = st.builds(
    lambda change, microseconds: change + timedelta(microseconds=microseconds),
    st.sampled_from(CHANGES),
    st.integers(-3 * 3600 * 10**6, 3 * 3600 * 10**6),
)


def all_slots(expression: str, zone: str, *, until: datetime) -> list[datetime]:
    """From long before on, which no look from within an hour that comes twice can disturb."""
    start = until - timedelta(days=3 if expression.split()[-3:] == ["*", "*", "*"] else 1500)
    found: list[datetime] = []
    for slot in islice(CronSim(expression, start.astimezone(ZoneInfo(zone))), 10**6):
        found.append(slot.astimezone(UTC))
        if found[-1] > until:
            break
    return found


@given(st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES), moments)
@example("30 2 * * *", "Europe/Berlin", SPRING)
@example("30 2 * * *", "Europe/Berlin", SPRING - timedelta(microseconds=1))
@example("45 2 * * *", "Europe/Berlin", AUTUMN + timedelta(minutes=30))
@example("15 2 * * *", "Europe/Berlin", AUTUMN + timedelta(minutes=10))
def test_the_slots_before_and_after_a_moment_are_those_of_the_whole_list(
    expression: str, zone: str, now: datetime
) -> None:
    one = entry(expression, zone)
    listed = all_slots(expression, zone, until=now)
    assert one.latest_at(now) == max(slot for slot in listed if slot <= now)
    assert one.next_after(now) == min(slot for slot in listed if slot > now)


def test_a_slot_has_come_when_its_moment_has() -> None:
    minutely, noon = entry("* * * * *"), datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert minutely.latest_at(noon) == noon
    assert minutely.latest_at(noon - timedelta(microseconds=1)) == noon - timedelta(minutes=1)
    assert minutely.next_after(noon) == noon + timedelta(minutes=1)


# what is refused, with the fix


@pytest.mark.parametrize(
    "expression",
    ["", "* * * *", "* * * * * * *", "61 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "@hourly", "ten", None, 5],
)
def test_an_expression_that_is_none_is_refused(expression: Any) -> None:
    with pytest.raises(UsageError, match=r"cron 'nightly': .*five fields") as refused:
        entry(expression, name="nightly")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("expression", ["0 0 31 2 *", "0 0 31 4,6 *"])
def test_a_day_that_never_comes_is_refused(expression: str) -> None:
    with pytest.raises(UsageError, match="cron 'c'"):
        entry(expression)


@pytest.mark.parametrize("zone", ["", "Mars/Base", "Europe", "../etc/passwd", "/etc/localtime", "a\0b", None, 5])
def test_a_time_zone_that_is_none_is_refused(zone: Any) -> None:
    with pytest.raises(UsageError, match=r"cron 'c': .*Europe/Berlin"):
        entry("* * * * *", zone)


@pytest.mark.parametrize("name", ["", "n" * 256, None])
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    with pytest.raises(UsageError, match="255 characters"):
        entry("* * * * *", name=name)
