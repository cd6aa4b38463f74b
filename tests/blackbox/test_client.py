"""``holdfast.rpc.client`` against real servers. All other tests here speak with the generated stubs."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import grpc
import pytest

from holdfast.core.errors import UsageError
from holdfast.rpc.client import Client
from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from tests.blackbox.api import Api, new_key
from tests.blackbox.targets import Target
from tests.servers.process import free_port


@pytest.fixture
async def client(target: Target) -> AsyncIterator[Client]:
    async with Client(target.addresses) as opened:
        yield opened


async def test_a_job_is_submitted_waited_for_and_read(client: Client) -> None:
    accepted = await client.submit_job(job_type="resize", work_duration_ms=5, payload_size_bytes=20, labels={"a": "b"})
    result = await client.wait_for_result(accepted.job_id, timeout_seconds=30)
    assert (result.terminal_status, len(result.output_bytes)) == (pb.DONE, 20)
    assert (await client.get_job_status(accepted.job_id)).status == pb.DONE
    assert (await client.cancel_job(accepted.job_id)).already_terminal


async def test_submits_go_to_every_server_in_turn_and_reads_to_the_owner(client: Client, api: Api) -> None:
    accepted = [await client.submit_job(job_type="turn") for _ in range(2 * len(api.addresses))]
    for number, answer in enumerate(accepted):
        owner = api.at(number % len(api.addresses))
        assert answer.job_id in [job.job_id for job in owner.page(size=200).jobs]
        assert client.owner(answer.job_id).target == owner.addresses[0]


async def test_one_key_is_one_job_whichever_server_gets_it(client: Client) -> None:
    key = new_key()
    answers = await asyncio.gather(*(client.submit_job(job_type="k", client_request_id=key) for _ in range(12)))
    assert len({answer.job_id for answer in answers}) == 1


async def test_jobs_of_all_servers_can_be_listed_in_one_order(client: Client) -> None:
    accepted = [await client.submit_job(job_type="all") for _ in range(12)]
    for answer in accepted:
        await client.wait_for_result(answer.job_id, timeout_seconds=30)
    newest = await client.list_jobs_everywhere(limit=12)
    assert {job.job_id for job in newest} == {answer.job_id for answer in accepted}
    everything = await client.list_jobs_everywhere()
    assert [job.job_id for job in everything] == [
        job.job_id for job in sorted(everything, key=lambda job: (-job.created_at_ms, job.job_id))
    ]
    upwards = await client.list_jobs_everywhere(sort=pb.CREATED_AT_ASC)
    assert upwards == sorted(everything, key=lambda job: (job.created_at_ms, job.job_id))


async def test_a_refusal_reaches_the_caller_with_its_code_and_words(client: Client) -> None:
    job_id = str(uuid4())
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await client.get_job_status(job_id)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert job_id in (caught.value.details() or "")


async def test_a_server_that_is_away_is_unavailable_and_a_keyed_submit_goes_to_the_next(target: Target) -> None:
    away = f"127.0.0.1:{free_port()}"
    async with Client(away) as client:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await client.submit_job(job_type="nowhere")
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    async with Client([away, target.addresses[0]]) as client:
        answer = await client.submit_job(job_type="second", client_request_id=new_key())
        assert answer.initial_status == pb.QUEUED


@pytest.mark.parametrize("targets", ["", [], ["127.0.0.1:1", ""]])
async def test_a_client_without_an_address_is_refused(targets: str | list[str]) -> None:
    with pytest.raises(UsageError, match="address"):
        Client(targets)
