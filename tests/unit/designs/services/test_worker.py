"""The worker with the real coordinator and tables: WORKERSERVICE-1 to WORKERSERVICE-3."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import pytest

from holdfast.designs.services.protocols import Coordinator
from holdfast.designs.services.worker import Work, WorkerService, pause_seconds
from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.work import OUTPUT_TOO_LARGE, Output, do_work
from tests.unit.designs.services.conftest import Events
from tests.unit.designs.services.parts import LOG, Door, Parts

Start = Callable[..., Awaitable[Door]]


@pytest.fixture
async def start(parts: Parts) -> AsyncIterator[Start]:
    """Starts a worker, and gives the door between it and the coordinator."""
    workers: list[WorkerService] = []

    async def start_one(*, slots: int = 1, work: Work = do_work, door: Door | None = None) -> Door:
        door = door or Door(parts.coordinator)
        worker = WorkerService(cast(Coordinator, door), worker_id="w1", slots=slots, log=LOG, work=work)
        workers.append(worker)
        worker.start()
        return door

    yield start_one
    for worker in workers:
        await worker.stop(0)


async def ended(parts: Parts, job_id: str) -> public.GetJobStatusResponse:
    async with asyncio.timeout(30):
        while (record := await parts.read(job_id)).finished_at_ms == 0:
            await asyncio.sleep(0.005)
    return record


class Gate:
    """Work that waits for the test."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.at_work = 0
        self.most_at_work = 0

    async def __call__(self, spec: public.JobSpec) -> Output:
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            await self.opened.wait()
        finally:
            self.at_work -= 1
        return await do_work(spec)

    async def reached(self, count: int) -> None:
        async with asyncio.timeout(30):
            while self.at_work < count:
                await asyncio.sleep(0.005)


async def test_a_job_is_taken_when_it_comes_and_its_output_is_the_result(parts: Parts, start: Start) -> None:
    await start()
    job_id = await parts.submit(job_type="t", payload_size_bytes=40, work_duration_ms=5)
    assert (await ended(parts, job_id)).status == public.DONE
    result = await parts.result(job_id)
    assert len(result.output_bytes) == 40
    assert result.runtime_ms >= 5


async def test_a_worker_runs_as_many_jobs_at_a_time_as_it_has_slots(parts: Parts, start: Start) -> None:
    gate = Gate()
    await start(slots=3, work=gate)
    ids = [await parts.submit() for _ in range(7)]
    await gate.reached(3)
    gate.opened.set()
    for job_id in ids:
        assert (await ended(parts, job_id)).status == public.DONE
    assert gate.most_at_work == 3


async def test_an_idle_slot_waits_inside_its_call(parts: Parts, start: Start) -> None:
    door = await start(slots=2)
    while not parts.fifo._askers:
        await asyncio.sleep(0.005)
    before = door.calls.count("fetch_work")
    job_id = await parts.submit()
    await ended(parts, job_id)
    # Both were waiting: one took the job and asked again, and nobody asked in vain.
    assert door.calls.count("fetch_work") <= before + 2


async def test_work_that_raises_is_a_failure_that_says_why(parts: Parts, start: Start) -> None:
    async def fail(_: public.JobSpec) -> Output:
        raise OSError("disk full")

    await start(work=fail)
    job_id = await parts.submit()
    record = await ended(parts, job_id)
    assert (record.status, record.failure_reason) == (public.FAILED, "OSError: disk full")


async def test_too_large_an_output_is_failed_before_it_is_made(parts: Parts, start: Start) -> None:
    await start()
    job_id = await parts.submit(job_type="t", payload_size_bytes=2**32 - 1)
    record = await ended(parts, job_id)
    assert (record.status, record.failure_reason) == (public.FAILED, OUTPUT_TOO_LARGE)


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_a_report_is_repeated_until_it_is_answered(parts: Parts, start: Start, fault: Any) -> None:
    """WORKERSERVICE-1."""
    door = Door(parts.coordinator)
    door.fail("report_work_outcome", fault, times=2)
    await start(door=door)
    job_id = await parts.submit()
    assert (await ended(parts, job_id)).status == public.DONE
    next_one = await parts.submit()
    assert (await ended(parts, next_one)).status == public.DONE
    assert door.calls.count("report_work_outcome") == 4


async def test_a_report_that_is_refused_is_given_up_and_the_slot_goes_on(
    parts: Parts, start: Start, events: Events
) -> None:
    """WORKERSERVICE-1."""
    gate = Gate()
    await start(work=gate)
    gone = await parts.submit()
    await gate.reached(1)
    # The job service was restarted and knows it no more.
    parts.job_table._by_status[public.RUNNING].remove((parts.clock.now_ms(), gone))
    del parts.job_table._jobs[gone]
    gate.opened.set()
    next_one = await parts.submit()
    assert (await ended(parts, next_one)).status == public.DONE
    assert events.job_ids("report_refused") == [gone]


async def test_a_heartbeat_names_the_jobs_that_the_worker_has(parts: Parts) -> None:
    """WORKERSERVICE-2."""
    named: list[set[str]] = []

    class Listening(Door):
        async def worker_heartbeat(self, request: internal.WorkerHeartbeatRequest, *, holding: Any) -> Any:
            named.append(set(holding))
            return await parts.coordinator.worker_heartbeat(request, holding=holding)

    gate = Gate()
    worker = WorkerService(cast(Coordinator, Listening(parts.coordinator)), worker_id="w1", slots=2, log=LOG, work=gate)
    worker.start()
    ids = {await parts.submit(), await parts.submit()}
    await gate.reached(2)
    await worker._beat_once()
    gate.opened.set()
    for job_id in ids:
        await ended(parts, job_id)
    while worker._holding:
        await asyncio.sleep(0.005)
    await worker._beat_once()
    await worker.stop()
    assert named == [set(), ids, set()]


async def test_a_coordinator_that_is_away_is_asked_again_and_knows_the_worker_again(
    parts: Parts, start: Start, events: Events
) -> None:
    """WORKERSERVICE-3."""
    door = Door(parts.coordinator)
    for method in ("worker_heartbeat", "fetch_work"):
        door.fail(method, times=2)
    await start(door=door)
    job_id = await parts.submit()
    assert (await ended(parts, job_id)).status == public.DONE
    assert len(events.job_ids("coordinator_away")) == 1
    assert len(events.job_ids("coordinator_back")) == 1


async def test_a_worker_that_stops_finishes_the_job_that_it_has(parts: Parts) -> None:
    gate = Gate()
    worker = WorkerService(parts.coordinator, worker_id="w1", slots=2, log=LOG, work=gate)
    worker.start()
    job_id = await parts.submit()
    await gate.reached(1)
    stop = asyncio.ensure_future(worker.stop(30))
    await asyncio.sleep(0)
    waiting = await parts.submit()
    gate.opened.set()
    await stop
    assert await parts.status(job_id) == "DONE"
    assert await parts.status(waiting) == "QUEUED"


async def test_a_worker_that_must_stop_at_once_leaves_its_job_to_another(parts: Parts) -> None:
    worker = WorkerService(parts.coordinator, worker_id="w1", slots=1, log=LOG, work=Gate())
    worker.start()
    job_id = await parts.submit()
    while await parts.status(job_id) != "RUNNING":
        await asyncio.sleep(0.005)
    await worker.stop(0)
    await parts.lose_worker()
    await parts.heartbeat("w2")
    assert (await parts.fetch("w2")).job_id == job_id


def test_pauses_grow_to_a_second_and_no_further() -> None:
    assert all(0.05 <= pause_seconds(1) <= 0.1 for _ in range(100))
    assert all(0.5 <= pause_seconds(failures) <= 1.0 for failures in (5, 50, 5000))


@pytest.mark.parametrize("slots", [0, -1, 129])
def test_a_number_of_slots_that_cannot_be_is_refused(parts: Parts, slots: int) -> None:
    with pytest.raises(ValueError, match="slots"):
        WorkerService(parts.coordinator, worker_id="w1", slots=slots, log=LOG)
