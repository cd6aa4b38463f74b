"""Fire: a periodic job's slot fires once, and its job is accepted with it (CRON-1 to CRON-3)."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final
from uuid import UUID

import pytest

from holdfast.core import limits
from holdfast.core.commands import (
    AlreadyFired,
    CronSlot,
    CronState,
    Fire,
    FireAnswer,
    Fired,
    NewJob,
    Submitted,
)
from holdfast.core.errors import IdempotencyConflict, InvalidInput, Unavailable
from holdfast.core.job import Timeouts
from holdfast.core.payload import Payload
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.engine import work
from holdfast.testing.factories import (
    after,
    claimed_ids,
    new_job,
    read_all,
    read_counts,
    read_one,
    register,
    submit_jobs,
    submit_one,
    tick,
)
from holdfast.testing.faults import FaultKind, FaultyStore, PlannedFault
from holdfast.testing.harness import StoreHarness
from holdfast.testing.invariants import snapshot

ROUNDS: Final = 20
NAME: Final = "nightly"


async def fire_one(store: Store, slot: datetime, job: NewJob | None = None, name: str = NAME) -> FireAnswer:
    (answer,) = await work.fire(store, [Fire(name=name, slot=slot, job=job)])
    return answer


async def newest(store: Store) -> dict[str, tuple[datetime, UUID | None]]:
    return {slot.name: (slot.slot, slot.job_id) for slot in (await store.read_cron()).slots}


# the slot and its job


async def test_a_slot_is_fired_with_its_job(harness: StoreHarness) -> None:
    """A slot is a row of its own, unique by name and time."""
    now, job = harness.clock.now(), new_job(queue="cron", tags={"a": "b"})
    slot = now - timedelta(seconds=7)
    assert await fire_one(harness.store, slot, job) == Fired(job.id)
    assert (await read_one(harness.store, job.id)).state is State.SCHEDULED
    expected = CronSlot(name=NAME, slot=slot, job_id=job.id, fired_at=now)
    assert await harness.store.read_cron() == CronState(now, (expected,))


async def test_a_fired_job_can_be_claimed(harness: StoreHarness) -> None:
    job = new_job()
    await fire_one(harness.store, harness.clock.now(), job)
    assert await claimed_ids(harness.store, await register(harness.store)) == [job.id]


async def test_nothing_was_ever_fired_in_a_new_store(harness: StoreHarness) -> None:
    """read_cron: the time all the same."""
    assert await harness.store.read_cron() == CronState(harness.clock.now(), ())
    assert await work.fire(harness.store, []) == []


async def test_an_anchor_is_a_slot_without_a_job(harness: StoreHarness) -> None:
    """Fire.job: without one the slot is only written down."""
    slot = harness.clock.now()
    assert await fire_one(harness.store, slot) == Fired(None)
    assert await newest(harness.store) == {NAME: (slot, None)}
    assert await read_all(harness.store) == []
    assert await fire_one(harness.store, slot, new_job()) == AlreadyFired(slot, None)
    assert await read_all(harness.store) == []


async def test_a_slot_fires_once(harness: StoreHarness) -> None:
    """CRON-1."""
    slot, first = harness.clock.now(), new_job()
    await fire_one(harness.store, slot, first)
    assert await fire_one(harness.store, slot, new_job()) == AlreadyFired(slot, first.id)
    assert await fire_one(harness.store, slot) == AlreadyFired(slot, first.id)
    assert [job.id for job in await read_all(harness.store)] == [first.id]


async def test_an_older_slot_is_not_fired_any_more(harness: StoreHarness) -> None:
    """CRON-2: of missed slots the newest fires once."""
    now, first = harness.clock.now(), new_job()
    await fire_one(harness.store, now, first)
    for seconds in (1, 60, 10**8):
        late = await fire_one(harness.store, now - timedelta(seconds=seconds), new_job())
        assert late == AlreadyFired(now, first.id)
    assert await newest(harness.store) == {NAME: (now, first.id)}
    assert len(await read_all(harness.store)) == 1


async def test_a_newer_slot_fires(harness: StoreHarness) -> None:
    """CRON-2."""
    jobs = [new_job() for _ in range(3)]
    for job in jobs:
        assert await fire_one(harness.store, harness.clock.now(), job) == Fired(job.id)
        harness.clock.advance(0.000001)
    assert len(await read_all(harness.store)) == 3
    assert (await newest(harness.store))[NAME][1] == jobs[-1].id


async def test_names_do_not_know_each_other(harness: StoreHarness) -> None:
    """CRON-1: unique by (name, slot). Names are compared as they are."""
    now = harness.clock.now()
    names = ["a", "A", "ä", "a ", "b%", "nightly report of 'x'", "n" * limits.MAX_CRON_NAME_CHARACTERS]
    fires = [Fire(name=name, slot=now - timedelta(hours=n), job=new_job()) for n, name in enumerate(names)]
    answers = await work.fire(harness.store, fires)
    assert answers == [Fired(fire.job.id) for fire in fires if fire.job is not None]
    state = await harness.store.read_cron()
    assert [slot.name for slot in state.slots] == sorted(names)
    assert {slot.name: slot.slot for slot in state.slots} == {fire.name: fire.slot for fire in fires}


async def test_a_slot_is_a_moment_in_whatever_zone(harness: StoreHarness) -> None:
    """PORT-3: UTC."""
    now = harness.clock.now()
    await fire_one(harness.store, now.astimezone(timezone(timedelta(hours=5, minutes=30))), new_job())
    (slot,) = (await harness.store.read_cron()).slots
    assert (slot.slot, slot.slot.utcoffset()) == (now, timedelta(0))
    assert isinstance(await fire_one(harness.store, now.astimezone(UTC), new_job()), AlreadyFired)


async def test_answers_come_in_the_order_asked(harness: StoreHarness) -> None:
    """PORT-1: item by item; a refused one leaves its neighbours alone."""
    now = harness.clock.now()
    old = new_job()
    await fire_one(harness.store, now, old, name="old")
    good, other = new_job(), new_job()
    answers = await work.fire(
        harness.store,
        [
            Fire(name="bad", slot=now, job=new_job(type="")),
            Fire(name="good", slot=now, job=good),
            Fire(name="old", slot=now, job=new_job()),
            Fire(name="anchor", slot=now),
            Fire(name="other", slot=now, job=other),
        ],
    )
    assert isinstance(answers[0], InvalidInput)
    assert answers[1:] == [Fired(good.id), AlreadyFired(now, old.id), Fired(None), Fired(other.id)]
    assert set(await newest(harness.store)) == {"old", "good", "anchor", "other"}


# the rules of submit hold


async def test_a_job_with_a_key_stands_for_the_one_that_has_it(harness: StoreHarness) -> None:
    """The slot is fired all the same."""
    existing = await submit_one(harness.store, key="k")
    slot = harness.clock.now()
    assert await fire_one(harness.store, slot, new_job(key="k")) == Fired(existing, is_duplicate=True)
    assert await newest(harness.store) == {NAME: (slot, existing)}
    assert len(await read_all(harness.store)) == 1


async def test_a_fired_job_waits_for_what_it_depends_on(harness: StoreHarness) -> None:
    parent = await submit_one(harness.store)
    job = new_job(dependencies=after(parent))
    await fire_one(harness.store, harness.clock.now(), job)
    assert (await read_one(harness.store, job.id)).state is State.PENDING


async def test_a_fired_job_may_be_delayed(harness: StoreHarness) -> None:
    job = new_job(delay_seconds=5.0)
    await fire_one(harness.store, harness.clock.now(), job)
    assert (await read_one(harness.store, job.id)).state is State.DELAYED


async def refused_job(harness: StoreHarness, case: str) -> NewJob:
    match case:
        case "type":
            return new_job(type="")
        case "unknown dependency":
            return new_job(dependencies=after(new_job().id))
        case "run_at":
            late = harness.clock.now() + timedelta(seconds=11)
            return new_job(run_at=late, timeouts=Timeouts(lifetime=10.0))
        case "payload":
            return new_job(payload=Payload.of_bytes(bytes(limits.DEFAULT_PAYLOAD_BYTES + 1)))
        case _:
            await submit_one(harness.store, key="k")
            return new_job(key="k", payload=Payload.of({"other": 1}))


@pytest.mark.parametrize("case", ["type", "unknown dependency", "run_at", "payload", "key"])
async def test_a_refused_job_leaves_its_slot_to_be_fired(harness: StoreHarness, case: str) -> None:
    """PORT-5; CRON-1: a slot is never there without its job."""
    bad = await refused_job(harness, case)
    before = await snapshot(harness.store)
    slot = harness.clock.now()
    answer = await fire_one(harness.store, slot, bad)
    assert isinstance(answer, IdempotencyConflict if case == "key" else InvalidInput)
    assert await snapshot(harness.store) == before
    good = new_job()
    assert await fire_one(harness.store, slot, good) == Fired(good.id)


async def test_faults_name_the_item_of_the_call(harness: StoreHarness) -> None:
    """PORT-5."""
    now = harness.clock.now()
    answers = await work.fire(harness.store, [Fire(name="a", slot=now), Fire(name="", slot=now, job=new_job(type=""))])
    assert isinstance(answers[1], InvalidInput)
    assert [(fault.item, fault.field) for fault in answers[1].faults] == [(1, "name"), (1, "type")]


# bad input


async def test_a_slot_in_the_future_is_refused(harness: StoreHarness) -> None:
    """CRON-3: by the store's clock, to the microsecond."""
    now = harness.clock.now()
    answer = await fire_one(harness.store, now + timedelta(microseconds=1), new_job())
    assert isinstance(answer, InvalidInput)
    assert "future" in str(answer)
    assert await newest(harness.store) == {}
    assert isinstance(await fire_one(harness.store, now, new_job()), Fired)


BAD_FIRES: Final[dict[str, dict[str, Any]]] = {
    "no name": {"name": ""},
    "a long name": {"name": "n" * (limits.MAX_CRON_NAME_CHARACTERS + 1)},
    "NUL": {"name": "a\0b"},
    "a surrogate": {"name": "a\ud800b"},
    "a number": {"name": 7},
    "a naive slot": {"slot": datetime(2020, 1, 1)},  # noqa: DTZ001
    "no slot": {"slot": None},
    "a text": {"slot": "2020-01-01"},
    "the first day": {"slot": datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))},
    "the last day": {"slot": datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))},
}


@pytest.mark.parametrize("case", BAD_FIRES)
async def test_a_fire_that_cannot_be_is_refused(harness: StoreHarness, case: str) -> None:
    """PORT-5."""
    fire = Fire(**{"name": NAME, "slot": harness.clock.now(), "job": new_job(), **BAD_FIRES[case]})
    (answer,) = await work.fire(harness.store, [fire])
    assert isinstance(answer, InvalidInput)
    assert (await newest(harness.store), await read_all(harness.store)) == ({}, [])


async def test_a_call_that_names_one_cron_twice_is_refused(harness: StoreHarness) -> None:
    """PORT-5."""
    now = harness.clock.now()
    with pytest.raises(InvalidInput, match="twice"):
        await work.fire(harness.store, [Fire(name=NAME, slot=now), Fire(name=NAME, slot=now, job=new_job())])
    assert await newest(harness.store) == {}


async def test_more_fires_than_the_limit_are_refused(harness: StoreHarness) -> None:
    """PORT-5; limits.MAX_FIRES."""
    fires = [Fire(name=str(n), slot=harness.clock.now()) for n in range(limits.MAX_FIRES + 1)]
    with pytest.raises(InvalidInput, match=str(limits.MAX_FIRES)):
        await work.fire(harness.store, fires)
    assert await work.fire(harness.store, fires[:-1]) == [Fired(None)] * limits.MAX_FIRES
    assert len((await harness.store.read_cron()).slots) == limits.MAX_FIRES


# races


async def test_many_that_fire_one_slot_make_one_job(harness: StoreHarness) -> None:
    """CRON-1: however many workers run."""
    stores = (harness.store, await harness.second_store())
    for n in range(ROUNDS):
        harness.clock.advance(60)
        slot, jobs = harness.clock.now(), [new_job(queue=f"q{n}") for _ in range(6)]
        answers = await asyncio.gather(*(fire_one(stores[m % 2], slot, job) for m, job in enumerate(jobs)))
        assert Counter(type(answer) for answer in answers) == {Fired: 1, AlreadyFired: 5}
        (winner,) = [answer.job_id for answer in answers if isinstance(answer, Fired)]
        assert {answer.job_id for answer in answers if not isinstance(answer, Exception)} == {winner}
        assert [job.id for job in await read_all(harness.store) if job.queue == f"q{n}"] == [winner]


async def test_of_two_slots_at_once_the_older_never_follows_the_newer(harness: StoreHarness) -> None:
    """CRON-2: in the order in which they are written."""
    first, second = harness.store, await harness.second_store()
    for _ in range(ROUNDS):
        harness.clock.advance(60)
        newer = harness.clock.now()
        older = newer - timedelta(seconds=30)
        old, new = await asyncio.gather(fire_one(first, older, new_job()), fire_one(second, newer, new_job()))
        assert isinstance(new, Fired)
        assert isinstance(old, Fired) or old == AlreadyFired(newer, new.job_id)
        assert (await newest(first))[NAME] == (newer, new.job_id)


async def test_fires_of_many_names_at_once_do_not_block_each_other(harness: StoreHarness) -> None:
    """PORT-1: in opposite order, with keys, from two stores."""
    first, second = harness.store, await harness.second_store()
    names = [f"cron-{n}" for n in range(8)]
    for _ in range(ROUNDS // 2):
        harness.clock.advance(60)
        now = harness.clock.now()

        def fires(order: list[str], now: datetime = now) -> list[Fire]:
            return [Fire(name=n, slot=now, job=new_job(key=f"{n} {now}")) for n in order]

        forth, back = await asyncio.gather(first.fire(fires(names)), second.fire(fires(names[::-1])))
        for one, other in zip(forth, back[::-1], strict=True):
            assert Counter([type(one), type(other)]) == {Fired: 1, AlreadyFired: 1}
    assert await read_counts(first) == {State.SCHEDULED: (ROUNDS // 2) * len(names)}


async def test_a_fire_and_a_submit_with_one_key_make_one_job(harness: StoreHarness) -> None:
    first, second = harness.store, await harness.second_store()
    for n in range(ROUNDS):
        harness.clock.advance(1)
        slot = harness.clock.now()
        fired, submitted = await asyncio.gather(
            fire_one(first, slot, new_job(key=f"k{n}")), submit_jobs(second, new_job(key=f"k{n}"))
        )
        assert isinstance(fired, Fired)
        assert fired.is_duplicate is not submitted[0].is_duplicate
        assert fired.job_id == submitted[0].job_id
    assert await read_counts(first) == {State.SCHEDULED: ROUNDS}


async def test_a_fire_and_a_tick_do_not_block_each_other(harness: StoreHarness) -> None:
    """PORT-6: retention removes slots and keys while others are written."""
    first, second = harness.store, await harness.second_store()
    for _ in range(ROUNDS // 2):
        harness.clock.advance(limits.CRON_RETENTION_SECONDS)
        job = new_job(key="k", key_window_seconds=1.0, timeouts=Timeouts(lifetime=1e8))
        answer, _ = await asyncio.gather(fire_one(first, harness.clock.now(), job), tick(second))
        assert answer == Fired(job.id)
    await tick(first)
    assert len((await first.read_cron()).slots) == 1


# faults


@pytest.mark.parametrize("kind", FaultKind)
async def test_a_repeated_fire_loses_and_doubles_nothing(harness: StoreHarness, kind: FaultKind) -> None:
    """PORT-4: the one who repeats finds its own job there, and is told that it fired."""
    store = FaultyStore(harness.store, [PlannedFault("fire", kind)])
    slot, job = harness.clock.now(), new_job(key="k")
    with pytest.raises(Unavailable):
        await fire_one(store, slot, job)
    answer = await fire_one(store, slot, job)
    await store.under_way()
    assert answer in (Fired(job.id), Fired(job.id, is_repeat=True))
    assert (kind is FaultKind.AFTER_COMMIT) <= (answer == Fired(job.id, is_repeat=True))
    assert [one.id for one in await read_all(harness.store)] == [job.id]
    assert await newest(harness.store) == {NAME: (slot, job.id)}


@pytest.mark.parametrize("kind", FaultKind)
async def test_a_fire_tried_again_with_another_job_doubles_nothing(harness: StoreHarness, kind: FaultKind) -> None:
    """PORT-4, CRON-1: as a scheduler does that forgets what it tried."""
    store = FaultyStore(harness.store, [PlannedFault("fire", kind)])
    slot = harness.clock.now()
    with pytest.raises(Unavailable):
        await fire_one(store, slot, new_job())
    await fire_one(store, slot, new_job())
    await store.under_way()
    (job,) = await read_all(harness.store)
    assert await newest(harness.store) == {NAME: (slot, job.id)}


async def test_a_late_repeat_is_still_told_that_it_fired(harness: StoreHarness) -> None:
    """PORT-4: after newer slots, too."""
    slot, job = harness.clock.now(), new_job()
    await fire_one(harness.store, slot, job)
    harness.clock.advance(60)
    await fire_one(harness.store, harness.clock.now(), new_job())
    assert await fire_one(harness.store, slot, job) == Fired(job.id, is_repeat=True)


async def test_slots_are_there_after_a_restart(harness: StoreHarness) -> None:
    """CRON-1."""
    if not harness.is_durable:
        pytest.skip("this store is for tests, and forgets")
    slot, job = harness.clock.now(), new_job()
    await fire_one(harness.store, slot, job)
    before = await harness.store.read_cron()
    store = await harness.reopened()
    assert await store.read_cron() == before
    assert await fire_one(store, slot, new_job()) == AlreadyFired(slot, job.id)
    assert await submit_jobs(store, job) == (Submitted(job.id),)


# retention


async def test_old_slots_are_removed_but_never_the_newest(harness: StoreHarness) -> None:
    """CRON-1: whoever asks again finds at least the newest."""
    start, jobs = harness.clock.now(), [new_job() for _ in range(3)]
    for job in jobs:
        await fire_one(harness.store, harness.clock.now(), job)
        harness.clock.advance(1)
    await fire_one(harness.store, start, name="once")
    harness.clock.advance(limits.CRON_RETENTION_SECONDS - 3)
    await tick(harness.store)
    # Only the first is old enough: asked for again by its own job, it is not known any more.
    repeats = [await fire_one(harness.store, start + timedelta(seconds=n), job) for n, job in enumerate(jobs)]
    last = start + timedelta(seconds=2)
    assert repeats[0] == AlreadyFired(last, jobs[2].id)
    assert repeats[1:] == [Fired(job.id, is_repeat=True) for job in jobs[1:]]
    harness.clock.advance(10 * limits.CRON_RETENTION_SECONDS)
    await tick(harness.store)
    assert await newest(harness.store) == {NAME: (last, jobs[2].id), "once": (start, None)}
    assert await fire_one(harness.store, start + timedelta(seconds=1), new_job()) == AlreadyFired(last, jobs[2].id)


async def test_many_old_slots_are_removed_batch_by_batch(harness: StoreHarness) -> None:
    """Also those of names that do not fire any more."""
    start = harness.clock.now()
    await work.fire(harness.store, [Fire(name=f"gone-{n}", slot=start) for n in range(10)])
    jobs = [new_job() for _ in range(6)]
    for job in jobs:
        await fire_one(harness.store, harness.clock.now(), job)
        harness.clock.advance(1)
    harness.clock.advance(limits.CRON_RETENTION_SECONDS)
    for _ in range(3):
        await tick(harness.store, batch=2)
    repeats = [await fire_one(harness.store, start + timedelta(seconds=n), job) for n, job in enumerate(jobs)]
    assert [isinstance(answer, Fired) for answer in repeats] == [False] * 5 + [True]
    assert len((await harness.store.read_cron()).slots) == 11
