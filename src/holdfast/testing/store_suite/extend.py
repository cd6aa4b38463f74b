"""Extend: a lease lives on while its holder asks for it, and no longer."""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

from holdfast.core.commands import Extended
from holdfast.core.errors import StaleLease
from holdfast.core.job import Timeouts
from holdfast.core.states import State
from holdfast.testing.factories import cancel_one, claim_one, read_one, read_state, register, running_job, settle, tick
from holdfast.testing.harness import StoreHarness
from holdfast.testing.invariants import snapshot

SHORT = Timeouts(visibility=10.0)


async def test_an_extended_lease_does_not_expire(harness: StoreHarness) -> None:
    """Each heartbeat extends it by its whole length."""
    job = await running_job(harness.store, timeouts=SHORT)
    for _ in range(5):
        harness.clock.advance(9)
        answer = await harness.store.extend([job.lease])
        assert answer == [Extended(harness.clock.now() + timedelta(seconds=10), cancel_requested=False)]
        await tick(harness.store)
    read = await read_one(harness.store, job.id)
    assert read.lease == replace(job.lease, expires_at=harness.clock.now() + timedelta(seconds=10))
    harness.clock.advance(10)
    await tick(harness.store)
    assert await read_state(harness.store, job.id) is State.SCHEDULED


async def test_extend_after_expiry_but_before_reclaim_is_accepted(harness: StoreHarness) -> None:
    """A lease is valid until its token is replaced or cleared."""
    job = await running_job(harness.store, timeouts=SHORT)
    harness.clock.advance(100)
    (answer,) = await harness.store.extend([job.lease])
    assert isinstance(answer, Extended)
    await tick(harness.store)
    assert await read_state(harness.store, job.id) is State.RUNNING


async def test_a_stale_lease_cannot_be_extended(harness: StoreHarness) -> None:
    """PORT-2: extend answers per item."""
    expired = await running_job(harness.store, timeouts=SHORT)
    harness.clock.advance(10)
    await tick(harness.store)
    ended = await running_job(harness.store)
    await settle(harness.store, ended)
    valid = await running_job(harness.store)
    unknown = replace(valid.lease, seq=valid.lease.seq + 1_000_000, job_id=uuid4())
    before = await snapshot(harness.store)
    answers = await harness.store.extend([expired.lease, ended.lease, unknown, valid.lease])
    assert [type(answer) for answer in answers] == [StaleLease, StaleLease, StaleLease, Extended]
    assert await snapshot(harness.store) == before, "the valid one was extended to where it ended anyway"


async def test_a_stale_lease_does_not_extend_the_newer_one(harness: StoreHarness) -> None:
    """PORT-2."""
    stale = await running_job(harness.store, timeouts=SHORT)
    harness.clock.advance(10)
    await tick(harness.store)
    newer = await claim_one(harness.store, await register(harness.store), queues=(stale.queue,))
    harness.clock.advance(5)
    (answer,) = await harness.store.extend([stale.lease])
    assert isinstance(answer, StaleLease)
    assert (await read_one(harness.store, stale.id)).lease == newer.lease


async def test_extend_tells_of_a_cancel_request(harness: StoreHarness) -> None:
    job = await running_job(harness.store)
    await cancel_one(harness.store, job.id)
    (answer,) = await harness.store.extend([job.lease])
    assert isinstance(answer, Extended)
    assert answer.cancel_requested


async def test_nothing_extended_and_no_answer(harness: StoreHarness) -> None:
    """PORT-1."""
    assert await harness.store.extend([]) == []
