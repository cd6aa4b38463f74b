"""Durability: what was accepted is there after a restart."""

from collections.abc import AsyncIterator

import pytest

from holdfast.core.commands import Report, Settled, Submitted
from holdfast.core.job import Progress, Timeouts
from holdfast.core.payload import Payload
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.testing.factories import (
    RETRY,
    after,
    claim,
    claim_one,
    job_in_state,
    new_claim,
    new_job,
    read_one,
    read_state,
    register,
    running_job,
    settle,
    settle_answer,
    submit_jobs,
    submit_one,
    tick,
)
from holdfast.testing.harness import StoreHarness
from holdfast.testing.invariants import snapshot


async def reopened(harness: StoreHarness) -> Store:
    if not harness.is_durable:
        pytest.skip("this store is for tests, and forgets")
    return await harness.reopened()


async def everything(harness: StoreHarness) -> AsyncIterator[None]:
    for state in State:
        job_id = await job_in_state(
            harness.store, state, key=f"k-{state}", tags={"a": "b"}, payload=Payload.of_bytes(b"\x00\xff")
        )
        await submit_one(harness.store, dependencies=after(job_id), queue="children")
        yield


async def test_every_job_is_there_after_a_restart(harness: StoreHarness) -> None:
    """What was accepted is durable."""
    async for _ in everything(harness):
        pass
    job = await running_job(harness.store)
    await harness.store.report([Report(lease=job.lease, progress=Progress(percent=5), checkpoint=b"x")])
    await harness.store.pause("children")
    before, workers = await snapshot(harness.store), await harness.store.read_workers()
    store = await reopened(harness)
    assert await snapshot(store) == before
    assert await store.read_workers() == workers


async def test_a_lease_is_valid_after_a_restart(harness: StoreHarness) -> None:
    """The worker can settle what it finished in the meantime."""
    job = await running_job(harness.store)
    store = await reopened(harness)
    assert await settle_answer(store, job) == Settled(State.COMPLETED)
    store = await reopened(harness)
    assert await settle_answer(store, job) == Settled(State.COMPLETED, is_repeat=True)


async def test_a_key_survives_a_restart(harness: StoreHarness) -> None:
    first = await submit_one(harness.store, key="k")
    store = await reopened(harness)
    assert await submit_jobs(store, new_job(key="k")) == (Submitted(first, is_duplicate=True),)


async def test_a_claim_may_be_repeated_after_a_restart(harness: StoreHarness) -> None:
    await submit_one(harness.store)
    worker = await register(harness.store)
    asked = new_claim(worker)
    first = await harness.store.claim(asked)
    store = await reopened(harness)
    assert await store.claim(new_claim(worker, nonce=asked.nonce, is_repeat=True)) == first


async def test_what_waits_goes_on_after_a_restart(harness: StoreHarness) -> None:
    """Every accepted job reaches a terminal state, whatever dies in between."""
    expiring = await running_job(harness.store, timeouts=Timeouts(visibility=60.0))
    retrying = await running_job(harness.store)
    await settle(harness.store, retrying, RETRY)
    delayed = await submit_one(harness.store, delay_seconds=60.0)
    child = await submit_one(harness.store, dependencies=after(delayed))
    store = await reopened(harness)
    harness.clock.advance(60)
    await tick(store)
    ids = [expiring.id, retrying.id, delayed, child]
    assert [await read_state(store, job_id) for job_id in ids] == [State.SCHEDULED] * 3 + [State.PENDING]
    await settle(store, await claim_one(store, await register(store)))
    assert await read_state(store, child) is State.SCHEDULED


async def test_places_and_fragility_survive_a_restart(harness: StoreHarness) -> None:
    worker = await register(harness.store)
    fragile = await submit_one(harness.store, timeouts=Timeouts(visibility=10.0))
    await claim_one(harness.store, worker)
    harness.clock.advance(10)
    await tick(harness.store)
    others = [await submit_one(harness.store) for _ in range(3)]
    store = await reopened(harness)
    later = await submit_one(store)
    assert [job.id for job in await claim(store, worker)] == [fragile]
    assert [job.id for job in await claim(store, worker)] == [*others, later]
    assert (await read_one(store, fragile)).lease_version == 2
