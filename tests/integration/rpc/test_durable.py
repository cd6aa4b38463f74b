"""The durable server on SQLite and PostgreSQL, in one process. What all servers share is in ``tests/blackbox``."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from holdfast.core.commands import Claim, Completed, HandedBack, NewJob, Settlement, Submit
from holdfast.core.job import Job
from holdfast.core.payload import Payload
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.rpc.client import Client
from holdfast.rpc.durable import DurableServer
from holdfast.rpc.engine_jobs import QUEUE, TYPE, new_job
from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from holdfast.rpc.refusals import Code
from holdfast.stores.postgres import migrate
from holdfast.wiring import create_store
from tests.conftest import NewDatabase
from tests.integration.rpc.servers import Log, code_of, refusal

LONG_SECONDS = 60.0


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'jobs.db'}"
        return
    made: NewDatabase = request.getfixturevalue("new_database")
    found = made()
    asyncio.run(migrate.upgrade(found))
    yield found


@asynccontextmanager
async def durable(url: str, *, slots: int = 2, log: Log | None = None) -> AsyncIterator[Client]:
    server = DurableServer(url, slots=slots, log=(log or Log()).logger)
    await server.engine.open()
    try:
        address = await server.start("127.0.0.1:0")
        async with Client(address) as client:
            yield client
    finally:
        await server.stop(0)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    """The same database, as another program has it."""
    store = create_store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def read(store: Store, job_id: str) -> Job:
    (job,) = await store.read([UUID(job_id)])
    assert job is not None
    return job


async def wait_for(client: Client, job_id: str, status: "pb.JobStatus.ValueType") -> pb.GetJobStatusResponse:
    async with asyncio.timeout(LONG_SECONDS):
        while (found := await client.get_job_status(job_id)).status != status:
            await asyncio.sleep(0.01)
        return found


async def test_a_job_is_in_the_database_as_the_engine_s_own(url: str) -> None:
    async with durable(url, slots=0) as client, opened(url) as store:
        accepted = await client.submit_job(
            job_type="resize",
            work_duration_ms=20,
            payload_size_bytes=7,
            labels={"team": "media", "empty": "", "job_type": "x"},
            client_request_id="order-7",
        )
        job = await read(store, accepted.job_id)
    assert (accepted.initial_status, job.state) == (pb.QUEUED, State.SCHEDULED)
    assert (job.type, job.queue, job.key) == ("taskqueue.v1", "taskqueue.v1", "order-7")
    assert job.payload.value() == {
        "job_type": "resize",
        "work_duration_ms": 20,
        "payload_size_bytes": 7,
        "labels": {"team": "media", "empty": "", "job_type": "x"},
    }
    assert job.tags == {"team": "media", "job_type": "resize"}


async def test_a_key_is_good_across_restarts(url: str) -> None:
    spec = pb.JobSpec(job_type="resize", labels={"a": "1", "b": "2"})
    async with durable(url) as client:
        first = await client.submit_job(spec, client_request_id="k")
        await client.wait_for_result(first.job_id, timeout_seconds=LONG_SECONDS)
    async with durable(url) as client:
        again = pb.JobSpec(job_type="resize", labels={"b": "2", "a": "1"})
        assert (await client.submit_job(again, client_request_id="k")).job_id == first.job_id
        for other in (
            pb.JobSpec(job_type="resize", labels={"a": "1"}),
            pb.JobSpec(job_type="resize", labels={"a": "1", "b": "2"}, work_duration_ms=1),
            pb.JobSpec(job_type="resize", labels={"a": "1", "b": "2"}, payload_size_bytes=1),
            pb.JobSpec(job_type="other", labels={"a": "1", "b": "2"}),
        ):
            error = await refusal(client.submit_job(other, client_request_id="k"))
            assert error.code() is Code.FAILED_PRECONDITION
            assert first.job_id in (error.details() or "")
        assert (await client.submit_job(spec)).job_id != first.job_id


async def test_submits_at_once_with_one_key_are_one_job(url: str) -> None:
    async with durable(url) as client:
        answers = await asyncio.gather(*(client.submit_job(job_type="x", client_request_id="k") for _ in range(32)))
        assert len({answer.job_id for answer in answers}) == 1
        assert len((await client.list_jobs()).jobs) == 1


async def test_a_result_survives_a_restart(url: str) -> None:
    async with durable(url) as client:
        job_id = (await client.submit_job(job_type="x", payload_size_bytes=262_144)).job_id
        before = await client.wait_for_result(job_id, timeout_seconds=LONG_SECONDS)
    async with durable(url, slots=0) as client:
        assert await client.get_job_result(job_id) == before
    assert before.checksum == sha256(before.output_bytes).hexdigest()
    assert len(before.output_bytes) == 262_144


async def test_a_server_without_slots_leaves_the_work_to_others(url: str) -> None:
    async with durable(url, slots=0) as front:
        job_id = (await front.submit_job(job_type="x")).job_id
        assert (await front.get_job_status(job_id)).status == pb.QUEUED
        async with durable(url):
            assert (await front.wait_for_result(job_id, timeout_seconds=LONG_SECONDS)).terminal_status == pb.DONE


async def test_no_more_jobs_run_than_there_are_slots(url: str) -> None:
    """Also after many quick ones, when a worker would claim ahead."""
    async with durable(url, slots=2) as client:
        quick = [(await client.submit_job(job_type="quick")).job_id for _ in range(40)]
        await asyncio.gather(*(client.wait_for_result(job_id, timeout_seconds=LONG_SECONDS) for job_id in quick))
        slow = [(await client.submit_job(job_type="slow", work_duration_ms=60_000)).job_id for _ in range(5)]
        for job_id in slow[:2]:
            await wait_for(client, job_id, pb.RUNNING)
        listed = await client.list_jobs(status_filter=[pb.QUEUED, pb.RUNNING])
        assert sorted(job.status for job in listed.jobs) == [pb.QUEUED] * 3 + [pb.RUNNING] * 2
        for job_id in slow:
            await client.cancel_job(job_id)
        for job_id in slow:
            await wait_for(client, job_id, pb.CANCELED)


async def test_the_reason_of_a_cancel_is_kept(url: str) -> None:
    async with durable(url, slots=1) as client:
        running = (await client.submit_job(job_type="x", work_duration_ms=60_000)).job_id
        await wait_for(client, running, pb.RUNNING)
        queued = (await client.submit_job(job_type="x")).job_id
        for job_id in (queued, running):
            assert (await client.cancel_job(job_id, reason=f"about {job_id}")).accepted
            await client.cancel_job(job_id, reason="another one")
        await wait_for(client, running, pb.CANCELED)
    async with durable(url, slots=1) as client:
        for job_id in (queued, running):
            result = await client.get_job_result(job_id)
            assert (result.terminal_status, result.output_summary) == (pb.CANCELED, f"canceled: about {job_id}")
            assert result.checksum == sha256(b"").hexdigest()
        assert {job.job_id for job in (await client.list_jobs()).jobs} == {queued, running}


async def test_a_job_that_runs_in_another_server_is_canceled_there(url: str) -> None:
    """Told by its next heartbeat, every second."""
    async with durable(url, slots=0) as front, durable(url, slots=1):
        job_id = (await front.submit_job(job_type="x", work_duration_ms=600_000)).job_id
        await wait_for(front, job_id, pb.RUNNING)
        answer = await front.cancel_job(job_id)
        assert (answer.accepted, answer.current_status, answer.already_terminal) == (True, pb.RUNNING, False)
        assert (await front.get_job_status(job_id)).cancel_requested
        assert (await wait_for(front, job_id, pb.CANCELED)).cancel_requested


async def test_jobs_of_others_are_not_to_be_seen(url: str) -> None:
    """ENGINEJOB-1: neither read, nor listed, nor canceled."""
    other = NewJob(id=uuid4(), type="resize", payload=Payload.of({"job_type": "resize"}))
    async with durable(url) as client, opened(url) as store:
        await store.submit([Submit(jobs=(other,))])
        mine = (await client.submit_job(job_type="x")).job_id
        for call in (client.get_job_status, client.get_job_result, client.cancel_job):
            assert await code_of(call(str(other.id))) is Code.NOT_FOUND
        assert [job.job_id for job in (await client.list_jobs()).jobs] == [mine]
        assert (await read(store, str(other.id))).state is State.SCHEDULED


async def test_a_job_once_started_reads_running_until_it_is_terminal(url: str) -> None:
    """ENGINEJOB-2: although the engine has put it back among those that wait."""
    worker = uuid4()
    async with durable(url, slots=0) as client, opened(url) as store:
        job_id = (await client.submit_job(job_type="x")).job_id
        await store.register(worker, name="test")
        (claimed,) = await store.claim(Claim(owner=worker, queues=(QUEUE,), limit=1, nonce=uuid4()))
        await store.settle([Settlement(lease=claimed.lease, outcome=HandedBack())])
        assert (await read(store, job_id)).state is State.SCHEDULED
        status = await client.get_job_status(job_id)
        assert (status.status, status.started_at_ms > 0) == (pb.RUNNING, True)
        assert [job.job_id for job in (await client.list_jobs(status_filter=[pb.RUNNING])).jobs] == [job_id]
        assert not (await client.list_jobs(status_filter=[pb.QUEUED])).jobs
        assert (await client.cancel_job(job_id)).current_status == pb.CANCELED


async def test_a_job_of_a_server_that_was_stopped_runs_again(url: str) -> None:
    async with durable(url, slots=1) as client:
        job_id = (await client.submit_job(job_type="x", work_duration_ms=300)).job_id
        await wait_for(client, job_id, pb.RUNNING)
    async with durable(url, slots=1) as client:
        assert (await client.wait_for_result(job_id, timeout_seconds=LONG_SECONDS)).terminal_status == pb.DONE


async def test_an_end_without_an_envelope_is_an_anomaly(url: str) -> None:
    """As a foreign worker might leave it."""
    log, worker = Log(), uuid4()
    async with durable(url, slots=0, log=log) as client, opened(url) as store:
        job_id = (await client.submit_job(job_type="x")).job_id
        await store.register(worker, name="test")
        (claimed,) = await store.claim(Claim(owner=worker, queues=(QUEUE,), limit=1, nonce=uuid4()))
        await store.settle([Settlement(lease=claimed.lease, outcome=Completed(b'"something else"'))])
        assert (await client.get_job_status(job_id)).status == pb.DONE
        assert await code_of(client.nodes[0].get_job_result(pb.GetJobResultRequest(job_id=job_id))) is Code.UNAVAILABLE
    lines = [(line["event"], line["job_id"], line["method"]) for line in log.lines]
    assert lines == [("consistency_anomaly", job_id, "GetJobResult"), ("call_refused", job_id, "GetJobResult")]


async def test_jobs_are_listed_by_time_and_then_by_id_in_both_orders(url: str) -> None:
    """Written in one transaction, so at one time: the engine's own order is another one."""
    jobs = [new_job(uuid4(), pb.JobSpec(job_type="x"), key="") for _ in range(450)]
    async with durable(url, slots=0) as client, opened(url) as store:
        first = (await client.submit_job(job_type="first")).job_id
        await asyncio.sleep(0.002)
        await store.submit([Submit(jobs=tuple(jobs))])
        await asyncio.sleep(0.002)
        last = (await client.submit_job(job_type="last")).job_id
        middle = sorted(str(job.id) for job in jobs)
        for sort, listed in (
            (pb.CREATED_AT_ASC, [first, *middle, last]),
            (pb.CREATED_AT_DESC, [last, *middle, first]),
        ):
            pages, token = [], ""
            while True:
                page = await client.list_jobs(sort=sort, page_size=100, page_token=token)
                pages += [job.job_id for job in page.jobs]
                token = page.page.next_page_token
                if not token:
                    break
            assert pages == listed


async def test_work_may_take_longer_than_the_engine_s_own_bounds(url: str) -> None:
    async with durable(url, slots=0) as client, opened(url) as store:
        job_id = (await client.submit_job(job_type="x", work_duration_ms=2**32 - 1)).job_id
        timeouts = (await read(store, job_id)).timeouts
    assert timeouts.execution > (2**32 - 1) / 1000
    assert timeouts.lifetime > timeouts.execution


def test_the_type_is_the_contract_s_package() -> None:
    assert pb.DESCRIPTOR.package == TYPE
