"""Design A over real gRPC: what only shows where the parts are in different servers."""

import asyncio
from typing import Any

import grpc
import pytest

from holdfast.designs.services.handlers import CREATED_KEY, SERVICES
from holdfast.rpc.channels import Peer
from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from tests.integration.designs.services.conftest import Connect, DesignA

SPEC = public.JobSpec(job_type="t", payload_size_bytes=5)


async def code_of(call: Any) -> str:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code().name
    return "OK"


async def test_a_job_goes_through_all_six_services(design: DesignA, connect: Connect) -> None:
    client = await connect(design.address("gateway"))
    ids = [(await client.submit_job(SPEC)).job_id for _ in range(20)]
    for job_id in ids:
        result = await client.wait_for_result(job_id, timeout_seconds=30)
        assert (result.terminal_status, len(result.output_bytes)) == (public.DONE, 5)
        assert (await client.get_job_status(job_id)).status == public.DONE


async def test_a_client_that_goes_in_the_middle_of_a_submit_leaves_no_half_of_a_job(
    design: DesignA, connect: Connect
) -> None:
    client = await connect(design.address("gateway"))
    for delay in range(40):
        call = asyncio.ensure_future(client.submit_job(SPEC))
        await asyncio.sleep(delay / 10_000)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    async with asyncio.timeout(30):
        while {job.status for job in (await client.list_jobs()).jobs} - {public.DONE}:
            await asyncio.sleep(0.02)


async def test_whether_a_submit_made_its_job_travels_behind_the_answer(design: DesignA) -> None:
    peer = Peer(design.address("job"), caller="gateway")
    create = peer.method(SERVICES["job"], "CreateJob")
    said = []
    for key in ("k", "k", ""):
        call = create.start(internal.CreateJobRequest(spec=SPEC, client_request_id=key))
        await call
        said.append(dict(await call.trailing_metadata()).get(CREATED_KEY))
    assert said == ["1", "0", None]
    await peer.channel.close()


@pytest.mark.parametrize("role", ["job", "queue", "result"])
async def test_a_service_that_was_away_is_found_again(design: DesignA, connect: Connect, role: str) -> None:
    client = await connect(design.address("gateway"))
    await design.stop(role)
    node = client.nodes[0]
    needs = {"job": "UNAVAILABLE", "queue": "UNAVAILABLE", "result": "OK"}
    assert await code_of(node.submit_job(public.SubmitJobRequest(spec=SPEC))) == needs[role]
    await design.start(role)
    async with asyncio.timeout(30):
        while await code_of(node.submit_job(public.SubmitJobRequest(spec=SPEC))) != "OK":
            await asyncio.sleep(0.05)
        accepted = await client.submit_job(SPEC)
        assert (await client.wait_for_result(accepted.job_id, timeout_seconds=30)).terminal_status == public.DONE


async def test_a_worker_survives_its_coordinators_restart_and_reports_what_it_ran(
    design: DesignA, connect: Connect
) -> None:
    client = await connect(design.address("gateway"))
    job_id = (await client.submit_job(job_type="t", work_duration_ms=400)).job_id
    async with asyncio.timeout(30):
        while (await client.get_job_status(job_id)).status != public.RUNNING:
            await asyncio.sleep(0.01)
    await design.stop("coordinator")
    await design.start("coordinator")
    assert (await client.wait_for_result(job_id, timeout_seconds=30)).terminal_status == public.DONE
    after = await client.submit_job(SPEC)
    assert (await client.wait_for_result(after.job_id, timeout_seconds=30)).terminal_status == public.DONE


async def test_a_worker_that_is_killed_and_back_at_once_runs_its_jobs_again(design: DesignA, connect: Connect) -> None:
    client = await connect(design.address("gateway"))
    job_id = (await client.submit_job(job_type="t", work_duration_ms=600)).job_id
    async with asyncio.timeout(30):
        while (await client.get_job_status(job_id)).status != public.RUNNING:
            await asyncio.sleep(0.01)
    await design.parts["worker"].stop(0)
    await design.start("worker")
    assert (await client.wait_for_result(job_id, timeout_seconds=30)).terminal_status == public.DONE


@pytest.mark.parametrize("caller", ["worker", "gateway", "coordinator", "node"])
async def test_a_gateway_serves_clients_only(design: DesignA, connect: Connect, caller: str) -> None:
    client = await connect(design.address("gateway"), caller=caller)
    assert await code_of(client.submit_job(SPEC)) == "PERMISSION_DENIED"


async def test_the_gateway_may_not_end_a_job_that_runs(design: DesignA) -> None:
    peer = Peer(design.address("job"), caller="gateway")
    move = peer.method(SERVICES["job"], "TransitionJobStatus")
    request = internal.TransitionJobStatusRequest(
        job_id="1b4e28ba-2fa1-4d3b-883f-0016d3cca427", expected_from_status=public.RUNNING, to_status=public.DONE
    )
    assert await code_of(move(request)) == "PERMISSION_DENIED"
    await peer.channel.close()
