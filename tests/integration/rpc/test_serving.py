"""The wrapper around every method, over a real connection. SERVING-1 to SERVING-5."""

import asyncio
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from holdfast.core.errors import ConfigError, Unavailable
from holdfast.rpc import channels, limits
from holdfast.rpc import serving as serving_module
from holdfast.rpc.channels import Peer
from holdfast.rpc.client import SERVICE, Client, Node
from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from holdfast.rpc.refusals import Code, not_found
from holdfast.rpc.serving import Call, Server, Service, anomaly
from tests.integration.rpc.servers import JOB_ID, PLAIN, Log, code_of, refusal, serving

REQUIRED = {"ts_ms", "level", "service", "method", "event", "grpc_code", "message", "caller", "latency_ms"}
METHOD = "/taskqueue.v1.TaskQueuePublicService/SubmitJob"


def raw(peer: Peer, method: str, data: bytes) -> Any:
    """Bytes as they are, without a deadline."""
    call: Any = peer.channel.unary_unary(method)
    return call(data)


async def refuse(request: Any, _: Call) -> Any:
    raise not_found(request.job_id)


async def fail(_: Any, __: Call) -> Any:
    raise ZeroDivisionError("a secret")


async def test_a_refusal_keeps_its_code_and_is_one_line_of_the_log() -> None:
    log = Log()
    async with serving(log=log, GetJobStatus=refuse) as address, Client(address) as client:
        error = await refusal(client.get_job_status(JOB_ID))
    assert (error.code(), JOB_ID in (error.details() or "")) == (Code.NOT_FOUND, True)
    (line,) = log.lines
    assert set(line) >= REQUIRED
    assert (line["method"], line["grpc_code"], line["job_id"]) == ("GetJobStatus", "NOT_FOUND", JOB_ID)
    assert (line["caller"], line["level"], line["message"]) == ("client", "INFO", error.details())


async def test_an_answer_that_is_ok_is_not_logged() -> None:
    log = Log()
    async with serving(log=log) as address, Client(address) as client:
        assert (await client.submit_job(job_type="x")).job_id == JOB_ID
    assert log.lines == []


async def test_what_is_unexpected_is_internal_and_its_trace_stays_in_the_log() -> None:
    log = Log()
    async with serving(log=log, SubmitJob=fail) as address, Client(address) as client:
        error = await refusal(client.submit_job(job_type="x"))
    assert error.code() is Code.INTERNAL
    assert "secret" not in str(error.details())
    (line,) = log.lines
    assert line["level"] == "ERROR"
    assert "ZeroDivisionError: a secret" in line["trace"]


async def test_an_answer_that_is_none_is_internal() -> None:
    async def answer(_: Any, __: Call) -> Any:
        return None

    async with serving(SubmitJob=answer) as address, Client(address) as client:
        assert await code_of(client.submit_job(job_type="x")) is Code.INTERNAL


async def test_an_error_of_the_engine_has_its_code() -> None:
    async def away(_: Any, __: Call) -> Any:
        raise Unavailable("the database is away")

    log = Log()
    async with serving(log=log, ListJobs=away) as address:
        node = Node(address)
        error = await refusal(node.list_jobs(pb.ListJobsRequest()))
        await node.channel.close()
    assert (error.code(), error.details()) == (Code.UNAVAILABLE, "the database is away")
    (line,) = log.lines
    assert (line["level"], "trace" in line) == ("WARNING", False)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (Code.NOT_FOUND, Code.NOT_FOUND),
        (Code.UNAVAILABLE, Code.UNAVAILABLE),
        (Code.PERMISSION_DENIED, Code.INTERNAL),
    ],
)
async def test_an_answer_of_a_service_behind_is_translated(theirs: grpc.StatusCode, ours: grpc.StatusCode) -> None:
    async def behind(_: Any, call: Call) -> Any:
        await call._context.abort(theirs, "from behind")

    async with serving(ListJobs=behind) as back:
        node = Node(back)

        async def ask(request: Any, _: Call) -> pb.ListJobsResponse:
            return await node.list_jobs(request)

        async with serving(ListJobs=ask) as front:
            before = Node(front)
            error = await refusal(before.list_jobs(pb.ListJobsRequest()))
            await before.channel.close()
        await node.channel.close()
    assert error.code() is ours
    assert "from behind" in (error.details() or "")


async def test_a_service_behind_that_is_gone_is_unavailable() -> None:
    async with serving() as back:
        node = Node(back)
        await node.list_jobs(pb.ListJobsRequest())

    async def ask(request: Any, _: Call) -> pb.ListJobsResponse:
        return await node.list_jobs(request)

    async with serving(ListJobs=ask) as front:
        before = Node(front)
        assert await code_of(before.list_jobs(pb.ListJobsRequest())) is Code.UNAVAILABLE
        await before.channel.close()
    await node.channel.close()


async def test_bytes_that_are_no_request_are_invalid() -> None:
    log = Log()
    async with serving(log=log) as address:
        peer = Peer(address)
        error = await refusal(raw(peer, METHOD, b"\xff\xff\xff"))
        await peer.channel.close()
    assert error.code() is Code.INVALID_ARGUMENT
    assert [line["grpc_code"] for line in log.lines] == ["INVALID_ARGUMENT"]


async def test_a_method_that_is_none_is_unimplemented_and_logged() -> None:
    log = Log()
    async with serving(log=log) as address:
        peer = Peer(address)
        error = await refusal(raw(peer, f"{METHOD}s", b""))
        await peer.channel.close()
    assert error.code() is Code.UNIMPLEMENTED
    assert [line["grpc_code"] for line in log.lines] == ["UNIMPLEMENTED"]


async def test_a_caller_that_may_not_is_refused_before_anything_is_done() -> None:
    asked = []

    async def note(request: Any, _: Call) -> pb.SubmitJobResponse:
        asked.append(request)
        return pb.SubmitJobResponse()

    log = Log()
    allowed = {**dict.fromkeys(PLAIN, frozenset({"client"})), "SubmitJob": frozenset({"gateway", "tester"})}
    async with serving(log=log, allowed=allowed, SubmitJob=note) as address:
        for caller, code in (("worker", Code.PERMISSION_DENIED), ("client", Code.PERMISSION_DENIED)):
            peer = Peer(address, caller=caller)
            error = await refusal(peer.method(SERVICE, "SubmitJob")(pb.SubmitJobRequest()))
            assert error.code() is code
            assert "gateway, tester" in (error.details() or "")
            await peer.channel.close()
        assert asked == []
        gateway = Peer(address, caller="gateway")
        await gateway.method(SERVICE, "SubmitJob")(pb.SubmitJobRequest())
        await gateway.channel.close()
    assert len(asked) == 1
    assert [line["caller"] for line in log.lines] == ["worker", "client"]


async def test_a_handler_knows_its_caller_its_time_and_sends_word_behind_the_answer() -> None:
    seen = []
    left = []

    async def look(_: Any, call: Call) -> pb.SubmitJobResponse:
        seen.append((call.caller, call.metadata("holdfast-forwarded"), call.metadata("nothing")))
        left.append(call.seconds_left())
        call.set_trailing("holdfast-created", "1")
        return pb.SubmitJobResponse()

    async with serving(SubmitJob=look) as address:
        peer = Peer(address, caller="gateway")
        method = peer.method(SERVICE, "SubmitJob", timeout_ms=3000)
        call = method.start(pb.SubmitJobRequest(), metadata=(("holdfast-forwarded", "2"),))
        await call
        trailing = dict(await call.trailing_metadata())
        # Without a deadline, as a foreign client may call.
        await raw(peer, METHOD, b"")
        await peer.channel.close()
    assert trailing["holdfast-created"] == "1"
    assert seen == [("gateway", "2", None), ("client", None, None)]
    # gRPC tells what is left by another clock than the one it sets deadlines by: some milliseconds more, at times.
    assert left[0] is not None
    assert 0 < left[0] < 4
    assert left[1] is None


async def test_a_call_whose_deadline_passes_is_ended_and_logged() -> None:
    ended = asyncio.Event()

    async def wait(_: Any, __: Call) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    log = Log()
    async with serving(log=log, ListJobs=wait) as address:
        node = Node(address, deadlines_ms={**dict.fromkeys(PLAIN, 1000), "ListJobs": 50})
        assert await code_of(node.list_jobs(pb.ListJobsRequest())) is Code.DEADLINE_EXCEEDED
        await ended.wait()
        await node.channel.close()
    # On a busy machine the caller, whose clock is another, may have given up first.
    assert [line["grpc_code"] for line in log.lines] in (["DEADLINE_EXCEEDED"], ["CANCELLED"])


async def test_a_caller_that_goes_away_ends_its_call() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def wait(_: Any, __: Call) -> Any:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    log = Log()
    async with serving(log=log, ListJobs=wait) as address:
        node = Node(address)
        call = node.list_jobs.start(pb.ListJobsRequest(), timeout_seconds=60)
        asking = asyncio.ensure_future(_answer(call))
        await started.wait()
        call.cancel()
        await ended.wait()
        await asyncio.wait([asking])
        await node.channel.close()
    assert [line["grpc_code"] for line in log.lines] == ["CANCELLED"]


async def _answer(call: Any) -> Any:
    return await call


async def test_every_server_tells_its_health_and_its_services() -> None:
    async with serving() as address:
        peer = Peer(address)
        check = health_pb2_grpc.HealthStub(peer.channel).Check
        for name in ("", "taskqueue.v1.TaskQueuePublicService"):
            answer = await check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        assert await code_of(check(health_pb2.HealthCheckRequest(service="other"))) is Code.NOT_FOUND
        reflection = reflection_pb2_grpc.ServerReflectionStub(peer.channel)
        asked = reflection.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
        names = {one.name for one in (await asked.read()).list_services_response.service}
        await peer.channel.close()
    assert names == {
        "taskqueue.v1.TaskQueuePublicService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }


async def test_a_server_that_stops_lets_a_call_finish_and_says_that_it_serves_no_more() -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def wait(_: Any, __: Call) -> pb.ListJobsResponse:
        started.set()
        await go_on.wait()
        return pb.ListJobsResponse(page=pb.PageResponse(next_page_token="7"))

    server = Server("test", [Service(descriptor=SERVICE, handlers={**PLAIN, "ListJobs": wait})], log=Log().logger)
    address = await server.start("127.0.0.1:0")
    node = Node(address)
    watch = health_pb2_grpc.HealthStub(node.channel).Watch(health_pb2.HealthCheckRequest())
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
    asking = asyncio.ensure_future(node.list_jobs(pb.ListJobsRequest(), timeout_seconds=60))
    await started.wait()
    stopping = asyncio.ensure_future(server.stop(grace_seconds=60))
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
    watch.cancel()
    go_on.set()
    assert (await asking).page.next_page_token == "7"
    await stopping
    await node.channel.close()


async def test_a_port_that_is_taken_is_said_so() -> None:
    async with serving() as address:
        with pytest.raises(ConfigError, match=f"cannot listen on {address}.*give another"):
            async with serving(listen=address):
                pass


def test_a_service_names_every_method_and_no_other() -> None:
    with pytest.raises(ValueError, match="ListJobs"):
        Service(descriptor=SERVICE, handlers={name: PLAIN[name] for name in PLAIN if name != "ListJobs"})
    with pytest.raises(ValueError, match="Nothing"):
        Service(descriptor=SERVICE, handlers={**PLAIN, "Nothing": fail})
    with pytest.raises(ValueError, match="SubmitJob"):
        Service(descriptor=SERVICE, handlers=PLAIN, allowed={})


def test_an_anomaly_is_a_line_with_its_job() -> None:
    log = Log()
    anomaly(log.logger, "no envelope", job_id=JOB_ID, method="GetJobResult", current_status="DONE")
    (line,) = log.lines
    assert (line["event"], line["level"], line["job_id"]) == ("consistency_anomaly", "ERROR", JOB_ID)
    assert (line["method"], line["current_status"]) == ("GetJobResult", "DONE")


async def test_callers_may_ping_their_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all intervals fifty times as short: a server that minded would hang up after a few pings."""
    for module in (serving_module, channels):
        quicker = tuple((name, value // 50 if name.endswith("_ms") else value) for name, value in module.OPTIONS)
        monkeypatch.setattr(module, "OPTIONS", quicker)

    async def take_long(_: Any, __: Call) -> pb.ListJobsResponse:
        await asyncio.sleep(30 * limits.KEEPALIVE_INTERVAL_MS / 50 / 1000)
        return pb.ListJobsResponse()

    async with serving(ListJobs=take_long) as address, Client(address, deadlines_ms={"ListJobs": 60_000}) as client:
        await client.nodes[0].list_jobs(pb.ListJobsRequest())
