"""Which slots a scheduler fires: each once, of missed ones the newest, no other (SCHEDULER-1 to SCHEDULER-3)."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from holdfast.core import limits
from holdfast.core.commands import NewJob
from holdfast.core.errors import Unavailable, UsageError
from holdfast.core.ports import Store
from holdfast.engine.cron import CronEntry, CronScheduler
from holdfast.stores.memory import MemoryStore
from holdfast.testing import ManualClock
from holdfast.testing.factories import new_job, read_all
from holdfast.testing.faults import FaultKind, FaultyStore, PlannedFault

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


class World:
    """A store at noon, and what was fired in it."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOON)
        self.store = MemoryStore(clock=self.clock)

    def scheduler(self, *entries: CronEntry, store: Store | None = None) -> CronScheduler:
        return CronScheduler(store or self.store, entries)

    async def jobs(self) -> list[str]:
        """The types of the jobs there are, oldest first."""
        return [job.type for job in reversed(await read_all(self.store))]

    async def slots(self) -> dict[str, tuple[str, bool]]:
        state = await self.store.read_cron()
        return {slot.name: (f"{slot.slot:%H:%M:%S}", slot.job_id is not None) for slot in state.slots}


@pytest.fixture
def world() -> World:
    return World()


def every(minutes: int, name: str = "tidy", **more: Any) -> CronEntry:
    given = {"name": name, "expression": f"*/{minutes} * * * *", "make_job": lambda: new_job(type=name), **more}
    return CronEntry(**given)


async def test_a_name_that_was_never_seen_is_anchored_at_its_latest_slot(world: World) -> None:
    world.clock.advance(130)
    await world.scheduler(every(5)).fire_due()
    assert (await world.slots(), await world.jobs()) == ({"tidy": ("12:00:00", False)}, [])


async def test_the_first_job_is_that_of_the_next_slot(world: World) -> None:
    scheduler = world.scheduler(every(5))
    await scheduler.fire_due()
    world.clock.advance(299.999999)
    await scheduler.fire_due()
    assert await world.jobs() == []
    world.clock.advance(0.000001)
    await scheduler.fire_due()
    assert (await world.slots(), await world.jobs()) == ({"tidy": ("12:05:00", True)}, ["tidy"])


async def test_a_slot_fires_once_however_often_one_looks(world: World) -> None:
    scheduler = world.scheduler(every(5))
    for _ in range(61):
        for _ in range(3):
            await scheduler.fire_due()
        world.clock.advance(60)
    assert len(await world.jobs()) == 12


async def test_of_missed_slots_the_newest_fires_once(world: World) -> None:
    await world.scheduler(every(5)).fire_due()
    world.clock.advance(3 * 3600 + 60)
    scheduler = world.scheduler(every(5))
    for _ in range(3):
        await scheduler.fire_due()
    assert (await world.slots(), await world.jobs()) == ({"tidy": ("15:00:00", True)}, ["tidy"])


async def test_many_schedulers_fire_each_slot_once(world: World) -> None:
    schedulers = [world.scheduler(every(5), every(10, "report")) for _ in range(5)]
    for _ in range(13):
        await asyncio.gather(*(scheduler.fire_due() for scheduler in schedulers))
        world.clock.advance(300)
    jobs = await world.jobs()
    assert (jobs.count("tidy"), jobs.count("report")) == (12, 6)


async def test_a_schedulers_answer_is_the_time_to_the_next_slot(world: World) -> None:
    world.clock.advance(30.5)
    scheduler = world.scheduler(every(5), every(1, "often"))
    assert await scheduler.fire_due() == 29.5
    assert await world.scheduler(every(5)).fire_due() == limits.MAX_CRON_WAIT_SECONDS
    assert await world.scheduler().fire_due() == limits.MAX_CRON_WAIT_SECONDS
    world.clock.advance(29.499999)
    assert await scheduler.fire_due() == limits.MIN_CRON_WAIT_SECONDS


async def test_sleeping_as_told_misses_no_slot(world: World) -> None:
    """By the second, and with an entry in another zone beside it."""
    entries = [
        every(1, "minutely"),
        CronEntry(name="ten", expression="*/10 * * * * *", make_job=lambda: new_job(type="ten")),
        CronEntry(name="noon", expression="2 14 * * *", timezone="Europe/Berlin", make_job=new_job),
    ]
    scheduler = world.scheduler(*entries)
    seconds = await scheduler.fire_due()
    while world.clock.now() + timedelta(seconds=seconds) <= NOON + timedelta(minutes=3):
        world.clock.advance(seconds)
        seconds = await scheduler.fire_due()
    jobs = await world.jobs()
    assert (jobs.count("minutely"), jobs.count("ten"), jobs.count("example")) == (3, 18, 1)


async def test_a_changed_expression_goes_on_from_what_was_fired(world: World) -> None:
    await world.scheduler(every(5)).fire_due()
    world.clock.advance(301)
    await world.scheduler(every(5)).fire_due()
    hourly = world.scheduler(CronEntry(name="tidy", expression="0 * * * *", make_job=lambda: new_job(type="new")))
    await hourly.fire_due()
    assert await world.jobs() == ["tidy"], "12:00 is older than 12:05"
    world.clock.advance(3600)
    await hourly.fire_due()
    assert (await world.slots())["tidy"] == ("13:00:00", True)
    assert await world.jobs() == ["tidy", "new"]


async def test_a_cron_that_was_left_out_for_a_while_goes_on(world: World) -> None:
    await world.scheduler(every(5), every(5, "other")).fire_due()
    world.clock.advance(300)
    await world.scheduler(every(5)).fire_due()
    world.clock.advance(300)
    await world.scheduler(every(5), every(5, "other")).fire_due()
    assert sorted(await world.jobs()) == ["other", "tidy", "tidy"]


# bad luck


@pytest.mark.parametrize("verb", ["read_cron", "fire"])
@pytest.mark.parametrize("kind", FaultKind)
async def test_an_outage_at_any_moment_loses_and_doubles_nothing(world: World, verb: str, kind: FaultKind) -> None:
    await world.scheduler(every(5)).fire_due()
    world.clock.advance(300)
    store = FaultyStore(world.store, [PlannedFault(verb, kind)])
    scheduler = world.scheduler(every(5), store=store)
    with pytest.raises(Unavailable):
        await scheduler.fire_due()
    await scheduler.fire_due()
    await store.under_way()
    assert await world.jobs() == ["tidy"]


async def test_a_clock_that_goes_back_fires_nothing_twice(world: World) -> None:
    scheduler = world.scheduler(every(5))
    await scheduler.fire_due()
    world.clock.advance(300)
    await scheduler.fire_due()
    world.clock._now -= timedelta(seconds=200)
    for _ in range(10):
        await scheduler.fire_due()
        world.clock.advance(30)
    assert (await world.slots(), len(await world.jobs())) == ({"tidy": ("12:05:00", True)}, 1)


async def test_an_entry_that_fails_keeps_no_other_from_firing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> NewJob:
        raise ValueError("no payload today")

    refused = every(5, "refused", make_job=lambda: new_job(type=""))
    scheduler = world.scheduler(every(5, "failing", make_job=fail), refused, every(5))
    await scheduler.fire_due()
    world.clock.advance(300)
    with caplog.at_level(logging.ERROR, "holdfast.cron"):
        for _ in range(3):
            await scheduler.fire_due()
    assert await world.jobs() == ["tidy"]
    assert sorted(record.getMessage().split("'")[1] for record in caplog.records) == ["failing", "refused"]
    assert "no payload today" in caplog.text
    world.clock.advance(300)
    with caplog.at_level(logging.ERROR, "holdfast.cron"):
        await scheduler.fire_due()
    assert len(caplog.records) == 4, "once a slot"


async def test_a_refused_slot_fires_when_it_is_put_right(world: World) -> None:
    types = ["", "good"]
    scheduler = world.scheduler(every(5, make_job=lambda: new_job(type=types.pop(0))))
    await scheduler.fire_due()
    world.clock.advance(300)
    await scheduler.fire_due()
    assert await world.jobs() == []
    world.clock.advance(60)
    await scheduler.fire_due()
    assert (await world.slots(), await world.jobs()) == ({"tidy": ("12:05:00", True)}, ["good"])


async def test_more_entries_than_a_call_takes_all_fire(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_FIRES", 3)
    scheduler = world.scheduler(*(every(5, f"cron-{n}") for n in range(8)))
    await scheduler.fire_due()
    world.clock.advance(300)
    await scheduler.fire_due()
    assert sorted(await world.jobs()) == [f"cron-{n}" for n in range(8)]


def test_two_crons_of_one_name_are_refused(world: World) -> None:
    with pytest.raises(UsageError, match="two crons are called 'tidy'"):
        world.scheduler(every(5), every(10))


async def test_a_job_is_made_only_for_a_slot_that_is_to_be_fired(world: World) -> None:
    made: list[UUID] = []

    def make() -> NewJob:
        job = new_job()
        made.append(job.id)
        return job

    scheduler = world.scheduler(every(5, make_job=make))
    for _ in range(10):
        await scheduler.fire_due()
        world.clock.advance(60)
    assert [job.id for job in await read_all(world.store)] == made
