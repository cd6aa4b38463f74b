"""Report: progress and checkpoints, fenced by the token and kept over retries."""

from dataclasses import replace
from uuid import uuid4

import pytest

from holdfast.core import limits
from holdfast.core.commands import Report
from holdfast.core.errors import InvalidInput, StaleLease
from holdfast.core.job import Progress, Timeouts
from holdfast.core.states import State
from holdfast.engine import work
from holdfast.testing.factories import (
    COMPLETED,
    FAIL,
    RETRY,
    claim_one,
    read_one,
    register,
    replay_one,
    running_job,
    settle,
    tick,
)
from holdfast.testing.harness import StoreHarness
from holdfast.testing.invariants import snapshot

HALF = Progress(percent=50, message="half way, ß\U0001f600")


async def test_progress_and_checkpoint_can_be_read(harness: StoreHarness) -> None:
    job = await running_job(harness.store)
    assert await harness.store.report([Report(lease=job.lease, progress=HALF, checkpoint=b"\x00\xff")]) == [None]
    read = await read_one(harness.store, job.id)
    assert (read.progress, read.checkpoint, read.state) == (HALF, b"\x00\xff", State.RUNNING)


async def test_what_is_not_reported_stays_as_it_is(harness: StoreHarness) -> None:
    """Report: None leaves what is stored as it is."""
    job = await running_job(harness.store)
    await harness.store.report([Report(lease=job.lease, progress=HALF)])
    await harness.store.report([Report(lease=job.lease, checkpoint=b"1")])
    await harness.store.report([Report(lease=job.lease, checkpoint=b"")])
    read = await read_one(harness.store, job.id)
    assert (read.progress, read.checkpoint) == (HALF, b"")


async def test_the_newest_report_wins(harness: StoreHarness) -> None:
    """Also within one call."""
    job = await running_job(harness.store)
    reports = [Report(lease=job.lease, progress=Progress(percent=n), checkpoint=bytes([n])) for n in (10, 30, 20)]
    assert await harness.store.report(reports) == [None, None, None]
    read = await read_one(harness.store, job.id)
    assert (read.progress, read.checkpoint) == (Progress(percent=20), bytes([20]))


async def test_a_checkpoint_is_there_for_the_next_attempt(harness: StoreHarness) -> None:
    """A retry starts from it, and so does a replay."""
    job = await running_job(harness.store, timeouts=Timeouts(visibility=100.0))
    await harness.store.report([Report(lease=job.lease, progress=HALF, checkpoint=b"after a retry")])
    worker = await register(harness.store)
    await settle(harness.store, job, RETRY)
    harness.clock.advance(60)
    await tick(harness.store)
    job = await claim_one(harness.store, worker, queues=(job.queue,))
    assert job.checkpoint == b"after a retry"
    harness.clock.advance(100)
    await tick(harness.store)
    job = await claim_one(harness.store, worker, queues=(job.queue,))
    assert job.checkpoint == b"after a retry", "over a reclaim"
    await settle(harness.store, job, FAIL)
    await replay_one(harness.store, job.id)
    job = await claim_one(harness.store, worker, queues=(job.queue,))
    assert job.checkpoint == b"after a retry", "over a replay"
    await settle(harness.store, job, COMPLETED)
    read = await read_one(harness.store, job.id)
    assert (read.checkpoint, read.progress) == (b"after a retry", HALF)


async def test_a_stale_lease_cannot_report(harness: StoreHarness) -> None:
    """PORT-2: it does not fail its neighbours."""
    stale = await running_job(harness.store, timeouts=Timeouts(visibility=10.0))
    ended = await running_job(harness.store)
    await settle(harness.store, ended)
    harness.clock.advance(10)
    await tick(harness.store)
    valid = await running_job(harness.store)
    forged = replace(valid.lease, token=uuid4())
    leases = (stale.lease, ended.lease, forged, valid.lease)
    answers = await harness.store.report([Report(lease=lease, progress=HALF, checkpoint=b"x") for lease in leases])
    assert [isinstance(answer, StaleLease) for answer in answers] == [True, True, True, False]
    read = [await read_one(harness.store, job.id) for job in (stale, ended, valid)]
    assert [job.progress for job in read] == [None, None, HALF]
    assert [job.checkpoint for job in read] == [None, None, b"x"]


async def test_a_report_after_expiry_but_before_reclaim_is_accepted(harness: StoreHarness) -> None:
    """A lease is valid until its token is replaced or cleared."""
    job = await running_job(harness.store, timeouts=Timeouts(visibility=10.0))
    harness.clock.advance(100)
    assert await harness.store.report([Report(lease=job.lease, checkpoint=b"late")]) == [None]
    assert (await read_one(harness.store, job.id)).checkpoint == b"late"


async def test_a_checkpoint_may_be_as_large_as_the_limit(harness: StoreHarness) -> None:
    """limits.MAX_CHECKPOINT_BYTES."""
    job = await running_job(harness.store)
    largest = b"x" * limits.MAX_CHECKPOINT_BYTES
    assert await harness.store.report([Report(lease=job.lease, checkpoint=largest)]) == [None]
    assert (await read_one(harness.store, job.id)).checkpoint == largest


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"progress": Progress(percent=100.5)}, "progress.percent"),
        ({"progress": Progress(percent=-1)}, "progress.percent"),
        ({"progress": Progress(percent=float("nan"))}, "progress.percent"),
        ({"progress": Progress(percent=1, message="x" * 1001)}, "progress.message"),
        ({"progress": Progress(percent=1, message="a\0b")}, "progress.message"),
        ({"progress": Progress(percent=1, message="\ud800")}, "progress.message"),
        ({"checkpoint": b"x" * (limits.MAX_CHECKPOINT_BYTES + 1)}, "checkpoint"),
    ],
    ids=["too much", "negative", "not a number", "long", "NUL", "surrogate", "checkpoint"],
)
async def test_a_report_of_nonsense_is_refused(harness: StoreHarness, given: dict[str, object], field: str) -> None:
    """PORT-5."""
    job = await running_job(harness.store)
    before = await snapshot(harness.store)
    with pytest.raises(InvalidInput) as caught:
        await work.report(harness.store, [Report(lease=job.lease, **given)])  # type: ignore[arg-type]
    assert [fault.field for fault in caught.value.faults] == [field]
    assert await snapshot(harness.store) == before


async def test_nothing_reported_and_no_answer(harness: StoreHarness) -> None:
    """PORT-1."""
    assert await harness.store.report([]) == []
