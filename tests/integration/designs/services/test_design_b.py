"""Design B over real gRPC: DESIGNB-1 to DESIGNB-3."""

import asyncio
from typing import Any

import grpc
import pytest

from holdfast.designs.services import design_b
from holdfast.designs.services.part import Part
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.partition import make_owned_id, owner
from tests.integration.designs.services.conftest import Connect, free_addresses

SPEC = public.JobSpec(job_type="t", payload_size_bytes=5)


def key_of(node: int, count: int = 3) -> str:
    return next(key for key in (f"key-{number}" for number in range(1000)) if owner(key, count) == node)


async def refusal(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


async def test_a_node_owns_the_job_that_it_takes_and_runs_it(nodes: list[Part], connect: Connect) -> None:
    for index, part in enumerate(nodes):
        client = await connect(part.address)
        job_id = (await client.submit_job(SPEC)).job_id
        assert owner(job_id, len(nodes)) == index
        assert (await client.wait_for_result(job_id, timeout_seconds=30)).terminal_status == public.DONE


async def test_who_asks_the_wrong_node_is_forwarded(nodes: list[Part], connect: Connect) -> None:
    clients = [await connect(part.address) for part in nodes]
    job_id = (await clients[0].submit_job(job_type="t", work_duration_ms=60_000)).job_id
    for client in clients:
        assert (await client.get_job_status(job_id)).job_id == job_id
        assert not (await client.get_job_result(job_id)).result_ready
        assert (await client.cancel_job(job_id)).accepted


async def test_a_key_is_one_job_whichever_node_is_asked(nodes: list[Part], connect: Connect) -> None:
    clients = [await connect(part.address) for part in nodes]
    for place in range(len(nodes)):
        key = key_of(place)
        ids = {(await client.submit_job(SPEC, client_request_id=key)).job_id for client in clients}
        assert len(ids) == 1
        assert owner(ids.pop(), len(nodes)) == place
        for client in clients:
            error = await refusal(client.submit_job(job_type="other", client_request_id=key))
            assert error.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_call_is_forwarded_once(connect: Connect) -> None:
    """DESIGNB-1: two nodes with different lists: each takes the other one for the owner."""
    addresses = free_addresses(3)
    first = await design_b.start_node(addresses[0], index=0, addresses=addresses[:2], worker_id="w0")
    second = await design_b.start_node(addresses[1], index=0, addresses=[addresses[1], addresses[0]], worker_id="w1")
    client = await connect(addresses[0])
    error = await refusal(client.nodes[0].get_job_status(public.GetJobStatusRequest(job_id=make_owned_id(1, 2))))
    for part in (first, second):
        await part.stop(0)
    assert error.code() is grpc.StatusCode.INTERNAL  # asking again does not help
    assert "different lists" in str(error.details())


async def test_an_owner_that_is_away_is_unavailable_and_the_others_go_on(nodes: list[Part], connect: Connect) -> None:
    """DESIGNB-2."""
    client = await connect(nodes[0].address)
    await nodes[1].stop(0)
    node = client.nodes[0]
    gone = make_owned_id(1, 3)
    calls = [
        node.get_job_status(public.GetJobStatusRequest(job_id=gone)),
        node.get_job_result(public.GetJobResultRequest(job_id=gone)),
        node.cancel_job(public.CancelJobRequest(job_id=gone)),
        node.submit_job(public.SubmitJobRequest(spec=SPEC, client_request_id=key_of(1))),
    ]
    async with asyncio.timeout(30):
        assert [(await refusal(call)).code().name for call in calls] == ["UNAVAILABLE"] * len(calls)
        job_id = (await client.submit_job(SPEC)).job_id
        assert (await client.wait_for_result(job_id, timeout_seconds=30)).terminal_status == public.DONE
        assert (await client.submit_job(SPEC, client_request_id=key_of(2))).job_id


async def test_a_node_lists_its_own_jobs_and_a_client_can_merge_them(nodes: list[Part], connect: Connect) -> None:
    """DESIGNB-3."""
    client = await connect(*(part.address for part in nodes))
    ids = {(await client.submit_job(SPEC)).job_id for _ in range(6)}
    for index, part in enumerate(nodes):
        own = {job.job_id for job in (await (await connect(part.address)).list_jobs()).jobs}
        assert own == {job_id for job_id in ids if owner(job_id, len(nodes)) == index}
    assert {job.job_id for job in await client.list_jobs_everywhere()} == ids


@pytest.mark.parametrize(
    ("job_id", "code"),
    [("abc", "INVALID_ARGUMENT"), (make_owned_id(2, 3), "NOT_FOUND")],
    ids=["malformed", "unknown"],  # the same in every process
)
async def test_a_job_that_is_none_is_said_so_by_every_node(
    nodes: list[Part], connect: Connect, job_id: str, code: str
) -> None:
    for part in nodes:
        assert (await refusal((await connect(part.address)).get_job_status(job_id))).code().name == code
