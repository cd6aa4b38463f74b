"""Every field of a job is kept, whichever way the job was submitted, and whatever the jobs beside it have."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import pytest

from holdfast.core.batches import JobColumns
from holdfast.core.commands import Completed, Fire, Fired, NewJob, Submit, Submitted
from holdfast.core.job import AS_GIVEN, FIELDS, Job
from holdfast.core.ports import Store
from holdfast.testing.factories import (
    after,
    field_values,
    new_job,
    read_one,
    running_job,
    settle_answer,
    submit_jobs,
    submit_one,
)
from holdfast.testing.harness import StoreHarness

READ: Final = (*AS_GIVEN, "priority", "run_at")
"""What a job that is read has of the one that was given."""

Way = Callable[[Store, NewJob], Awaitable[list[UUID]]]
"""To submit a job; answers with those that were submitted beside it, which leave everything at its default."""


async def alone(store: Store, job: NewJob) -> list[UUID]:
    await submit_jobs(store, job)
    return []


async def before_others(store: Store, job: NewJob) -> list[UUID]:
    others = [new_job() for _ in range(2)]
    await submit_jobs(store, job, *others)
    return [other.id for other in others]


async def behind_others(store: Store, job: NewJob) -> list[UUID]:
    others = [new_job() for _ in range(2)]
    await submit_jobs(store, *others, job)
    return [other.id for other in others]


async def in_a_shared_call(store: Store, job: NewJob) -> list[UUID]:
    others = [new_job() for _ in range(3)]
    before, *behind = others
    answers = await store.submit([Submit(jobs=(before,)), Submit(jobs=(job,)), Submit(jobs=behind)])
    assert [len(answer) for answer in answers if isinstance(answer, tuple)] == [1, 1, 2]
    return [other.id for other in others]


async def as_columns(store: Store, job: NewJob) -> list[UUID]:
    """Of one job: no two may have one key."""
    (answer,) = await store.submit([Submit(jobs=JobColumns(job, [job.id], [job.payload]))])
    assert answer == (Submitted(job.id),)
    return []


async def beside_a_dependent(store: Store, job: NewJob) -> list[UUID]:
    """The verbs' way."""
    parent = new_job()
    await submit_jobs(store, parent, job, new_job(dependencies=after(parent.id)))
    return [parent.id]


async def by_spawning(store: Store, job: NewJob) -> list[UUID]:
    parent, sibling = await running_job(store), new_job()
    await settle_answer(store, parent, Completed(b"1", spawn=(sibling, job)))
    return [sibling.id]


async def by_firing(store: Store, job: NewJob) -> list[UUID]:
    now = (await store.read_cron()).now
    (answer,) = await store.fire([Fire(name=f"cron of {job.id}", slot=now, job=job)])
    assert answer == Fired(job.id)
    return []


WAYS: Final[Sequence[Way]] = (
    *(alone, before_others, behind_others, in_a_shared_call, as_columns),
    *(beside_a_dependent, by_spawning, by_firing),
)


@pytest.mark.parametrize("way", WAYS, ids=[way.__name__ for way in WAYS])
async def test_every_field_is_kept(harness: StoreHarness, way: Way) -> None:
    """As it was given, one at a time; the job's others, and those of the jobs beside it, are at their defaults."""
    store, now = harness.store, harness.clock.now()
    usual = fields_of(await read_one(store, await submit_one(store)))
    values = field_values(now)
    assert values.keys() == FIELDS.keys() - {"id", "dependencies"}
    for name, value in values.items():
        job = new_job(**{name: f"{value} {way.__name__}" if name == "key" else value})
        others = await way(store, job)
        expected = {**usual, **({name: getattr(job, name)} if name in READ else {})}
        if name == "delay_seconds":
            expected["run_at"] = now + timedelta(seconds=job.delay_seconds)
        assert fields_of(await read_one(store, job.id)) == expected, name
        for other in others:
            assert fields_of(await read_one(store, other)) == usual, name


async def test_everything_given_at_submit_can_be_read(harness: StoreHarness) -> None:
    now = harness.clock.now()
    given = new_job(**field_values(now) | {"delay_seconds": 0.0})
    await submit_jobs(harness.store, given)
    job = await read_one(harness.store, given.id)
    assert fields_of(job) == {name: getattr(given, name) for name in READ}
    assert job.lifetime_ends_at == now + timedelta(seconds=given.timeouts.lifetime)


def fields_of(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in READ}
