"""The client: what it tries again, where it asks, how it finds a server that was away (CLIENT-1 to CLIENT-4)."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import grpc
import pytest

from holdfast.core.errors import UsageError
from holdfast.core.retry import Jitter, Retry
from holdfast.rpc import limits
from holdfast.rpc.client import NO_RETRY, RETRY, Client
from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from holdfast.rpc.partition import owner
from holdfast.rpc.refusals import Code, Refusal
from holdfast.rpc.serving import Call
from tests.integration.rpc.servers import JOB_ID, code_of, serving

AT_ONCE = Retry(max_attempts=limits.RETRY_MAX_ATTEMPTS, initial_delay=0.0)
EVERY_CODE = sorted(set(Code) - {Code.OK}, key=lambda code: code.name)
RETRIED = {Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.RESOURCE_EXHAUSTED}


class Refusing:
    """Says no so many times, then yes."""

    def __init__(self, code: grpc.StatusCode, *, times: int) -> None:
        self._code = code
        self._times = times
        self.asked: list[Any] = []

    async def __call__(self, request: Any, _: Call) -> pb.SubmitJobResponse:
        self.asked.append(request)
        if len(self.asked) <= self._times:
            raise Refusal(self._code, "not now")
        return pb.SubmitJobResponse(job_id=JOB_ID)


def test_the_profile_is_the_contract_s() -> None:
    assert (RETRY.max_attempts, RETRY.jitter) == (4, Jitter.FULL)
    assert [RETRY.delay_seconds(attempt, random=1.0) for attempt in (1, 2, 3, 4, 5, 9)] == [0.1, 0.2, 0.4, 0.8, 1, 1]
    assert RETRY.delay_seconds(3, random=0.0) == 0


@pytest.mark.parametrize("code", EVERY_CODE, ids=lambda code: code.name)
async def test_only_what_may_help_is_tried_again(code: grpc.StatusCode) -> None:
    refusing = Refusing(code, times=99)
    async with serving(SubmitJob=refusing) as address, Client(address, retry=AT_ONCE) as client:
        assert await code_of(client.submit_job(job_type="x", client_request_id="k")) is code
    assert len(refusing.asked) == (4 if code in RETRIED else 1)
    assert len({request.client_request_id for request in refusing.asked}) == 1


async def test_a_submit_with_a_key_is_repeated_until_it_is_accepted() -> None:
    refusing = Refusing(Code.UNAVAILABLE, times=3)
    async with serving(SubmitJob=refusing) as address, Client(address, retry=AT_ONCE) as client:
        assert (await client.submit_job(job_type="x", client_request_id="k")).job_id == JOB_ID
    assert len(refusing.asked) == 4


async def test_a_submit_without_a_key_is_never_repeated() -> None:
    refusing = Refusing(Code.UNAVAILABLE, times=1)
    async with serving(SubmitJob=refusing) as address, Client(address, retry=AT_ONCE) as client:
        assert await code_of(client.submit_job(job_type="x")) is Code.UNAVAILABLE
    assert len(refusing.asked) == 1


async def test_reads_and_cancels_are_repeated() -> None:
    counts: Counter[str] = Counter()

    def failing_once(name: str, answer: Any) -> Any:
        async def handle(_: Any, __: Call) -> Any:
            counts[name] += 1
            if counts[name] == 1:
                raise Refusal(Code.UNAVAILABLE, "not now")
            return answer

        return handle

    async with (
        serving(
            GetJobStatus=failing_once("status", pb.GetJobStatusResponse()),
            GetJobResult=failing_once("result", pb.GetJobResultResponse()),
            CancelJob=failing_once("cancel", pb.CancelJobResponse()),
            ListJobs=failing_once("list", pb.ListJobsResponse()),
        ) as address,
        Client(address, retry=AT_ONCE) as client,
    ):
        await client.get_job_status(JOB_ID)
        await client.get_job_result(JOB_ID)
        await client.cancel_job(JOB_ID)
        await client.list_jobs()
    assert counts == {"status": 2, "result": 2, "cancel": 2, "list": 2}


async def test_every_method_has_its_deadline() -> None:
    left: dict[str, float | None] = {}

    def look(name: str, answer: Any) -> Any:
        async def handle(_: Any, call: Call) -> Any:
            left[name] = call.seconds_left()
            return answer

        return handle

    async with (
        serving(
            SubmitJob=look("SubmitJob", pb.SubmitJobResponse()),
            GetJobStatus=look("GetJobStatus", pb.GetJobStatusResponse()),
            GetJobResult=look("GetJobResult", pb.GetJobResultResponse()),
            CancelJob=look("CancelJob", pb.CancelJobResponse()),
            ListJobs=look("ListJobs", pb.ListJobsResponse()),
        ) as address,
        Client(address, deadlines_ms={"ListJobs": 60_000}) as client,
    ):
        await client.submit_job(job_type="x")
        await client.get_job_status(JOB_ID)
        await client.get_job_result(JOB_ID)
        await client.cancel_job(JOB_ID)
        await client.list_jobs()
    # On the way they are rounded up a little, and a moment has passed.
    given = {name: min((1, 3, 60), key=lambda one: abs(one - (seconds or 0))) for name, seconds in left.items()}
    assert given == {"SubmitJob": 3, "CancelJob": 3, "GetJobStatus": 1, "GetJobResult": 1, "ListJobs": 60}


async def test_a_server_that_was_away_is_found_again() -> None:
    async with serving() as address:
        client = Client(address)
        await client.get_job_status(JOB_ID)
    assert await code_of(Client(address, retry=NO_RETRY).get_job_status(JOB_ID)) is Code.UNAVAILABLE
    asking = asyncio.ensure_future(client.submit_job(job_type="x", client_request_id="k"))
    async with serving(listen=address):
        assert (await asking).job_id == JOB_ID
    await client.close()


class Nodes:
    """Three servers that note who was asked what."""

    def __init__(self) -> None:
        self.submits: list[int] = []
        self.asked: dict[str, int] = {}

    def submit(self, number: int) -> Any:
        async def handle(_: Any, __: Call) -> pb.SubmitJobResponse:
            self.submits.append(number)
            return pb.SubmitJobResponse(job_id=str(uuid4()))

        return handle

    def status(self, number: int) -> Any:
        async def handle(request: Any, _: Call) -> pb.GetJobStatusResponse:
            self.asked[request.job_id] = number
            return pb.GetJobStatusResponse()

        return handle


async def test_submits_go_round_and_questions_to_the_owner() -> None:
    nodes = Nodes()
    async with (
        serving(SubmitJob=nodes.submit(0), GetJobStatus=nodes.status(0)) as first,
        serving(SubmitJob=nodes.submit(1), GetJobStatus=nodes.status(1)) as second,
        serving(SubmitJob=nodes.submit(2), GetJobStatus=nodes.status(2)) as third,
        Client([first, second, third]) as client,
    ):
        for _ in range(7):
            await client.submit_job(job_type="x")
        job_ids = [str(uuid4()) for _ in range(30)]
        for job_id in job_ids:
            await client.get_job_status(job_id)
    assert nodes.submits == [0, 1, 2, 0, 1, 2, 0]
    assert nodes.asked == {job_id: owner(job_id, 3) for job_id in job_ids}


async def test_a_submit_that_is_repeated_goes_to_the_next_node() -> None:
    nodes, refusing = Nodes(), Refusing(Code.UNAVAILABLE, times=99)
    async with (
        serving(SubmitJob=refusing) as first,
        serving(SubmitJob=nodes.submit(1)) as second,
        Client([first, second], retry=AT_ONCE) as client,
    ):
        await client.submit_job(job_type="x", client_request_id="k")
    assert (len(refusing.asked), nodes.submits) == (1, [1])


def listing(jobs: Sequence[pb.JobSummary]) -> Any:
    """ListJobs over these, as a server gives them: page by page."""

    async def handle(request: pb.ListJobsRequest, _: Call) -> pb.ListJobsResponse:
        sign = 1 if request.sort == pb.CREATED_AT_ASC else -1
        listed = sorted(jobs, key=lambda job: (sign * job.created_at_ms, job.job_id))
        start, size = int(request.page.page_token or 0), min(request.page.page_size or 50, 200)
        more = str(start + size) if len(listed) > start + size else ""
        return pb.ListJobsResponse(jobs=listed[start : start + size], page=pb.PageResponse(next_page_token=more))

    return handle


@pytest.mark.parametrize("sort", [pb.CREATED_AT_DESC, pb.CREATED_AT_ASC, pb.JOB_SORT_UNSPECIFIED])
async def test_the_lists_of_all_nodes_are_merged_in_their_order(sort: "pb.JobSort.ValueType") -> None:
    jobs = [pb.JobSummary(job_id=str(uuid4()), created_at_ms=number // 3) for number in range(900)]
    async with (
        serving(ListJobs=listing(jobs[::2])) as first,
        serving(ListJobs=listing(jobs[1::2])) as second,
        Client([first, second]) as client,
    ):
        everything = await client.list_jobs_everywhere(sort=sort)
        some = await client.list_jobs_everywhere(sort=sort, limit=250)
    sign = 1 if sort == pb.CREATED_AT_ASC else -1
    assert everything == sorted(jobs, key=lambda job: (sign * job.created_at_ms, job.job_id))
    assert some == everything[:250]


async def test_a_result_is_waited_for() -> None:
    asked = 0

    async def answer(request: Any, _: Call) -> pb.GetJobResultResponse:
        nonlocal asked
        asked += 1
        return pb.GetJobResultResponse(job_id=request.job_id, result_ready=asked == 3)

    async with serving(GetJobResult=answer) as address, Client(address) as client:
        assert (await client.wait_for_result(JOB_ID, timeout_seconds=60)).result_ready
    assert asked == 3


async def test_a_result_that_does_not_come_is_a_timeout() -> None:
    async with serving() as address, Client(address) as client:
        with pytest.raises(TimeoutError):
            await client.wait_for_result(JOB_ID, timeout_seconds=0.05)


async def test_a_client_without_a_server_or_with_a_method_that_is_none_is_refused() -> None:
    nothing: list[str] = []
    for nowhere in ("", nothing):
        with pytest.raises(UsageError, match="address of a server"):
            Client(nowhere)
    with pytest.raises(UsageError, match="SubmitJobs"):
        Client("127.0.0.1:1", deadlines_ms={"SubmitJobs": 1})
