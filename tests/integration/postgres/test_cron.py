"""Periodic jobs among several processes: who fires waits for who is firing, and a crash leaves nothing half done."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from holdfast.core.commands import AlreadyFired, Fire, Fired
from holdfast.core.errors import Unavailable
from holdfast.core.states import State
from holdfast.engine.cron import CronEntry, CronScheduler
from holdfast.stores.postgres import PostgresStore
from holdfast.testing import ManualClock
from holdfast.testing.factories import new_job, read_all, read_counts
from tests.integration.postgres.databases import connected, fetch, opened, somebody_waits_for_a_lock

NAME = "nightly"
PAST = datetime(2026, 1, 1, tzinfo=UTC)
ADD = "INSERT INTO holdfast.cron_slot (name, slot, job_id, fired_at) VALUES ($1, $2, $3, now())"
LOCK = "LOCK TABLE holdfast.cron_slot IN SHARE ROW EXCLUSIVE MODE"


async def test_an_older_slot_waits_for_a_newer_one_that_is_being_fired(store: PostgresStore, url: str) -> None:
    """CRON-2: without the lock both would be fired, the older one last."""
    newer, job_id = PAST + timedelta(minutes=5), uuid4()
    async with connected(url) as other:
        async with other.transaction():
            await other.execute(LOCK)
            await other.execute(ADD, NAME, newer, job_id)
            asked = asyncio.create_task(store.fire([Fire(name=NAME, slot=PAST, job=new_job())]))
            await somebody_waits_for_a_lock(url)
        assert await asked == [AlreadyFired(newer, job_id)]
    assert await read_all(store) == []


async def test_who_finds_every_slot_fired_waits_for_nobody(store: PostgresStore, url: str) -> None:
    """Of many processes that look at once, nearly all find nothing to do."""
    first = new_job()
    await store.fire([Fire(name=NAME, slot=PAST, job=first)])
    async with connected(url) as other, other.transaction():
        await other.execute(LOCK)
        assert await store.fire([Fire(name=NAME, slot=PAST, job=new_job())]) == [AlreadyFired(PAST, first.id)]
        assert [slot.job_id for slot in (await store.read_cron()).slots] == [first.id]


@pytest.mark.parametrize("table", ["cron_slot", "ready", "idempotency"])
async def test_a_fire_that_is_cut_off_leaves_nothing(store: PostgresStore, url: str, table: str) -> None:
    """PORT-1, PORT-4: wherever in its transaction it is; the repeat is the first."""
    fire = Fire(name=NAME, slot=PAST, job=new_job(key="k"))
    async with connected(url) as other, other.transaction():
        await other.execute(f"LOCK TABLE holdfast.{table} IN SHARE MODE")
        asked = asyncio.create_task(store.fire([fire]))
        await somebody_waits_for_a_lock(url)
        await fetch(url, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted")
        with pytest.raises(Unavailable):
            await asked
    assert (await store.read_cron()).slots == ()
    assert await read_counts(store) == {}
    assert fire.job is not None
    assert await store.fire([fire]) == [Fired(fire.job.id)]
    assert await read_counts(store) == {State.SCHEDULED: 1}


async def test_two_stores_that_fire_under_load_make_one_job_a_slot(
    store: PostgresStore, other_store: PostgresStore
) -> None:
    """CRON-1: with many connections each."""
    names = [f"cron-{n}" for n in range(5)]

    async def fire(one: PostgresStore, minute: int) -> list[UUID]:
        slot = PAST + timedelta(minutes=minute)
        answers = await one.fire([Fire(name=name, slot=slot, job=new_job()) for name in names])
        return [answer.job_id for answer in answers if isinstance(answer, Fired) and answer.job_id is not None]

    for minute in range(10):
        fired = await asyncio.gather(*(fire(one, minute) for one in (store, other_store) for _ in range(8)))
        assert sum(len(ids) for ids in fired) == len(names)
    assert await read_counts(store) == {State.SCHEDULED: 10 * len(names)}


async def test_schedulers_in_two_processes_fire_each_slot_once(url: str) -> None:
    """SCHEDULER-1: by the database's clock, whatever those of the processes say."""
    clock = ManualClock(datetime(2026, 5, 1, 11, 58, 30, tzinfo=UTC))
    expressions = {"minutely": "* * * * *", "five": "*/5 * * * *", "noon": "0 14 * * *"}

    def entry(name: str) -> CronEntry:
        return CronEntry(
            name=name,
            expression=expressions[name],
            timezone="Europe/Berlin",
            make_job=lambda: new_job(queue=name),
        )

    entries = [entry(name) for name in expressions]
    async with opened(url, clock=clock) as one, opened(url, clock=clock) as two:
        schedulers = [CronScheduler(store, entries) for store in (one, two) for _ in range(3)]
        for _ in range(20):
            await asyncio.gather(*(scheduler.fire_due() for scheduler in schedulers))
            clock.advance(30)
        fired = {name: await read_counts(one, name) for name in expressions}
    # 11:59 … 12:08, 12:00 and 12:05, and noon by UTC.
    assert fired == {name: {State.SCHEDULED: n} for name, n in (("minutely", 10), ("five", 2), ("noon", 1))}


async def test_the_clock_is_the_databases_own(store: PostgresStore) -> None:
    """SCHEDULER-1: without a clock of the test's."""
    scheduler = CronScheduler(store, [CronEntry(name=NAME, expression="* * * * * *", make_job=new_job)])
    await scheduler.fire_due()
    while not await read_all(store):
        await asyncio.sleep(await scheduler.fire_due())
    (slot,) = (await store.read_cron()).slots
    assert slot.slot <= slot.fired_at
