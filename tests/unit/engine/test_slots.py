"""When a slot may fire (CRON-1 to CRON-3), whatever a store knows of its name."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from holdfast.core.commands import AlreadyFired, CronSlot, Fire, Fired
from holdfast.core.cron import answer_without_firing, in_utc
from holdfast.core.errors import InvalidInput
from holdfast.testing.factories import new_job

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
JOB = new_job()


def at(minutes: float, job_id: UUID | None = None) -> CronSlot:
    return CronSlot(name="n", slot=NOON + timedelta(minutes=minutes), job_id=job_id, fired_at=NOON)


def answer(minutes: float, *slots: CronSlot, is_anchor: bool = False) -> object:
    fire = Fire(name="n", slot=NOON + timedelta(minutes=minutes), job=None if is_anchor else JOB)
    return answer_without_firing(fire, slots, index=3, now=NOON)


def test_a_slot_newer_than_all_that_have_come_fires() -> None:
    assert answer(0) is None
    assert answer(-5, at(-6), at(-10)) is None


def test_a_slot_that_is_there_or_older_does_not() -> None:
    assert answer(-5, at(-5)) == AlreadyFired(at(-5).slot, None)
    assert answer(-5, at(-10), at(-1), at(-3)) == AlreadyFired(at(-1).slot, None)


def test_a_slot_in_the_future_stands_only_in_its_own_way() -> None:
    assert answer(-5, at(1), at(500)) is None
    assert answer(-5, at(1), at(-5)) == AlreadyFired(at(-5).slot, None)


@pytest.mark.parametrize("slots", [(), (at(1, JOB.id),)])
def test_a_slot_in_the_future_is_refused(slots: tuple[CronSlot, ...]) -> None:
    refusal = answer(1, *slots)
    assert isinstance(refusal, InvalidInput)
    assert [(fault.item, fault.field) for fault in refusal.faults] == [(3, "slot")]


def test_a_repeat_finds_its_own_job() -> None:
    assert answer(-5, at(-5, JOB.id), at(-1)) == Fired(JOB.id, is_repeat=True)
    assert answer(-5, at(-5, new_job().id)) != Fired(JOB.id, is_repeat=True)


def test_an_anchor_is_no_repeat_of_another() -> None:
    assert answer(-5, at(-5), is_anchor=True) == AlreadyFired(at(-5).slot, None)


def test_slots_are_compared_as_moments_in_the_hour_that_comes_twice_too() -> None:
    first = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    second = first.replace(fold=1)
    assert in_utc(second) - in_utc(first) == timedelta(hours=1)
    assert in_utc(first) == in_utc(first.astimezone(timezone(timedelta(hours=9))))
