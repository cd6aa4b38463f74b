"""Read: one job, and pages of them by every filter."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from holdfast.core.commands import EQUAL, Filter
from holdfast.core.states import State
from holdfast.testing.factories import (
    field_values,
    job_in_state,
    new_job,
    read_all,
    read_pages,
    submit_jobs,
    submit_one,
)
from holdfast.testing.harness import StoreHarness


async def found(harness: StoreHarness, **criteria: object) -> list[UUID]:
    """Oldest first, through pages of two."""
    jobs = await read_all(harness.store, Filter(**criteria), limit=2)  # type: ignore[arg-type]
    return [job.id for job in reversed(jobs)]


async def test_read_answers_in_the_order_asked(harness: StoreHarness) -> None:
    """Store.read: None for what is not there."""
    first, second = [await submit_one(harness.store) for _ in range(2)]
    jobs = await harness.store.read([second, uuid4(), first, second])
    assert [job.id if job else None for job in jobs] == [second, None, first, second]
    assert await harness.store.read([]) == []


async def test_reading_what_is_not_there(harness: StoreHarness) -> None:
    """Store.read_attempts, read_upstream."""
    assert await harness.store.read_attempts(uuid4()) == []
    assert await harness.store.read_upstream(uuid4()) == []
    assert (await harness.store.read_page(Filter(), limit=10)).jobs == ()
    assert (await harness.store.read_page(Filter(), limit=10)).next_cursor is None


async def test_a_page_is_newest_first(harness: StoreHarness) -> None:
    """Page."""
    ids = [await job_in_state(harness.store, state) for state in State]
    listed = [job.id for job in await read_all(harness.store) if job.id in ids]
    assert listed == ids[::-1]


async def test_a_page_lists_each_job_as_read_gives_it(harness: StoreHarness) -> None:
    """Page, Job."""
    for state in State:
        await job_in_state(harness.store, state, tags={"state": state}, correlation_id="c", key=f"key of {state}")
    listed = await read_all(harness.store)
    assert await harness.store.read([job.id for job in listed]) == listed


@pytest.mark.parametrize("limit", [1, 3, 10, 11, 100])
async def test_pages_together_list_every_job_once(harness: StoreHarness, limit: int) -> None:
    """Page: go on until there is no cursor."""
    jobs = [new_job() for _ in range(11)]
    await submit_jobs(harness.store, *jobs)
    pages = await read_pages(harness.store, limit=limit)
    assert [job.id for page in pages for job in page.jobs] == [job.id for job in reversed(jobs)]
    assert all(len(page.jobs) <= limit for page in pages)


async def test_a_job_that_moves_is_listed_once(harness: StoreHarness) -> None:
    """Page: a cursor is a place in the order of submits, which no change of state touches."""
    jobs = [new_job() for _ in range(6)]
    await submit_jobs(harness.store, *jobs)
    first = await harness.store.read_page(Filter(), limit=3)
    await harness.store.cancel([jobs[0].id, jobs[2].id, jobs[4].id])
    await submit_one(harness.store)
    second = await harness.store.read_page(Filter(), limit=10, cursor=first.next_cursor)
    assert [job.id for job in (*first.jobs, *second.jobs)] == [job.id for job in reversed(jobs)]


@pytest.mark.parametrize("state", State)
async def test_a_page_by_state(harness: StoreHarness, state: State) -> None:
    """Filter.states."""
    ids = {one: [await job_in_state(harness.store, one, type="mine") for _ in range(3)] for one in State}
    assert await found(harness, states=frozenset({state}), type="mine") == ids[state]


async def test_a_page_by_several_states(harness: StoreHarness) -> None:
    """Filter.states: newest first over all of them, whichever tables they are in."""
    states = (State.COMPLETED, State.SCHEDULED, State.DELAYED, State.FAILED)
    ids = [await job_in_state(harness.store, state, type="mine") for state in (*states, *states)]
    await job_in_state(harness.store, State.CANCELLED, type="mine")
    assert await found(harness, states=frozenset(states), type="mine") == ids
    assert await found(harness, states=frozenset()) == []


async def test_a_page_by_queue_type_and_tag(harness: StoreHarness) -> None:
    """Filter: all that is given must hold."""
    jobs = {
        (queue, kind, tag): await submit_one(harness.store, queue=queue, type=kind, tags={"tag": tag, "x": "y"})
        for queue in ("a", "b")
        for kind in ("a", "b")
        for tag in ("a", "b")
    }
    await submit_one(harness.store, queue="a", type="a")

    def expected(wanted: dict[int, str]) -> list[UUID]:
        return [jobs[key] for key in jobs if all(key[place] == value for place, value in wanted.items())]

    assert await found(harness, queue="b") == expected({0: "b"})
    assert await found(harness, type="b") == expected({1: "b"})
    assert await found(harness, tag=("tag", "b")) == expected({2: "b"})
    assert await found(harness, tag=("x", "y")) == expected({})
    assert await found(harness, queue="a", type="b", tag=("tag", "a")) == expected({0: "a", 1: "b", 2: "a"})
    assert await found(harness, tag=("tag", "c")) == []
    assert await found(harness, tag=("other", "a")) == []
    assert await found(harness, queue="c") == []


async def test_a_filter_asks_for_the_fields_of_a_job(harness: StoreHarness) -> None:
    """Filter: every one of them; a job without a value is never found by one."""
    values = field_values(harness.clock.now())
    jobs = {name: new_job(**{name: values[name]}) for name in EQUAL}
    await submit_jobs(harness.store, *jobs.values(), new_job())
    for name, job in jobs.items():
        assert await found(harness, **{name: values[name]}) == [job.id], name
        assert await found(harness, **{name: "nobody's"}) == [], name


async def test_tags_with_signs_of_their_own_are_found(harness: StoreHarness) -> None:
    """Filter.tag: exact, whatever the characters."""
    names = ['"', "'", "\\", "a.b", "$", "[0]", "ä\U0001f600", "a b", "%", "{}"]
    ids = {name: await submit_one(harness.store, tags={name: name}) for name in names}
    for name in names:
        assert await found(harness, tag=(name, name)) == [ids[name]], name
        assert await found(harness, tag=(name, "x")) == [], name


async def test_a_page_by_time(harness: StoreHarness) -> None:
    """Filter: created_from inclusive, created_until exclusive."""
    start = harness.clock.now()
    ids = []
    for _ in range(5):
        ids.append(await submit_one(harness.store))
        harness.clock.advance(1)
    one, three = start + timedelta(seconds=1), start + timedelta(seconds=3)
    assert await found(harness, created_from=one, created_until=three) == ids[1:3]
    assert await found(harness, created_from=three) == ids[3:]
    assert await found(harness, created_until=one) == ids[:1]
    assert await found(harness, created_from=one, created_until=one) == []
    assert await found(harness, created_from=one, queue="default", states=frozenset({State.SCHEDULED})) == ids[1:]


async def test_a_rare_match_is_found_behind_many_others(harness: StoreHarness) -> None:
    """Page: a page may be short, even empty, and still have a cursor; nothing is overlooked."""
    rare = await submit_one(harness.store, tags={"rare": "yes"}, type="rare")
    await submit_jobs(harness.store, *(new_job() for _ in range(1500)))
    assert await found(harness, tag=("rare", "yes")) == [rare]
    assert await found(harness, type="rare") == [rare]
