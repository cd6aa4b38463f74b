"""Calls about one job whose ID is no ID, or nobody's; and deadlines."""

from collections import Counter
from collections.abc import Callable
from itertools import cycle
from typing import Any
from uuid import uuid4

import grpc
import pytest

from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from holdfast.rpc.generated.taskqueue_public_pb2_grpc import TaskQueuePublicServiceStub
from tests.blackbox.api import Api, code_of, new_key, refusal, spec, until

CALLS: dict[str, Callable[[Api, str], Any]] = {"status": Api.status, "result": Api.result, "cancel": Api.cancel}
MALFORMED = {
    "empty": "",
    "a word": "job",
    "a number": "42",
    "cut off": "1b4e28ba-2fa1-4d3b-883f-0016d3cca42",
    "one too long": "1b4e28ba-2fa1-4d3b-883f-0016d3cca4270",
    "version 1": "1b4e28ba-2fa1-11d2-883f-0016d3cca427",
    "nil": "00000000-0000-0000-0000-000000000000",
    "variant": "1b4e28ba-2fa1-4d3b-c83f-0016d3cca427",
    "no dashes": "1b4e28ba2fa14d3b883f0016d3cca427",
    "braces": "{1b4e28ba-2fa1-4d3b-883f-0016d3cca427}",
    "upper case": "1B4E28BA-2FA1-4D3B-883F-0016D3CCA427",
    "urn": "urn:uuid:1b4e28ba-2fa1-4d3b-883f-0016d3cca427",
    "a line's end": "1b4e28ba-2fa1-4d3b-883f-0016d3cca427\n",
    "other digits": "1b4e28ba-2fa1-4d3b-883f-0016d3cca42\u0667",
    "SQL": "' OR 1=1 --",
    "very long": "a" * 100_000,
    "NUL": "\0",
}


@pytest.mark.parametrize("job_id", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_malformed_id_is_refused_and_told_what_one_looks_like(
    api: Api, call: Callable[[Api, str], Any], job_id: str
) -> None:
    error = refusal(lambda: call(api, job_id))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "job_id" in (error.details() or "")
    assert "UUID" in (error.details() or "")


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_id_that_was_never_given_is_not_found(api: Api, call: Callable[[Api, str], Any]) -> None:
    for _ in range(len(api.addresses)):
        job_id = str(uuid4())
        error = refusal(lambda job_id=job_id: call(api, job_id))  # type: ignore[misc]
        assert error.code() is grpc.StatusCode.NOT_FOUND
        assert job_id in (error.details() or "")


def test_a_long_reason_is_refused(api: Api) -> None:
    job_id = api.done()
    error = refusal(lambda: api.cancel(job_id, "x" * 100_000))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "reason" in (error.details() or "")


def test_a_submit_whose_deadline_has_passed_can_be_repeated_with_its_key(api: Api) -> None:
    """It may have been accepted or not; nobody knows until the key is asked."""
    keys = [new_key() for _ in range(40)]
    codes = Counter(
        code_of(lambda key=key, ms=ms: api.stub.SubmitJob(keyed(key), timeout=ms / 1000))  # type: ignore[misc]
        # 0: gRPC counts in milliseconds, and a fast server is quicker than one.
        for key, ms in zip(keys, cycle([0, 0.01, 0.3, 1, 2]), strict=False)
    )
    # UNAVAILABLE: a server that has asked another one in vain may say so before the deadline does.
    assert set(codes) <= {grpc.StatusCode.OK, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE}
    assert codes[grpc.StatusCode.DEADLINE_EXCEEDED] > 0
    first = [api.submit(key=key).job_id for key in keys]
    assert [api.submit(key=key).job_id for key in keys] == first
    assert {api.ended(job_id).status for job_id in first} == {pb.DONE}


def test_a_short_deadline_is_enough_for_a_quick_answer_whichever_server_is_asked(api: Api) -> None:
    request = pb.GetJobStatusRequest(job_id=api.done())
    for one in api.each():

        def ask(stub: TaskQueuePublicServiceStub = one.stub) -> grpc.StatusCode:
            return code_of(lambda: stub.GetJobStatus(request, timeout=0.09))

        until(ask, is_so=lambda code: code is grpc.StatusCode.OK, what="was it quick")


def keyed(key: str) -> pb.SubmitJobRequest:
    return pb.SubmitJobRequest(spec=spec(), client_request_id=key)


def test_a_method_that_does_not_exist_is_unimplemented(api: Api) -> None:
    with grpc.insecure_channel(api.addresses[0]) as channel:
        unknown: Any = channel.unary_unary("/taskqueue.v1.TaskQueuePublicService/DeleteJob")
        assert refusal(lambda: unknown(b"", timeout=10)).code() is grpc.StatusCode.UNIMPLEMENTED


def test_bytes_that_are_no_message_do_no_harm(api: Api) -> None:
    with grpc.insecure_channel(api.addresses[0]) as channel:
        raw: Any = channel.unary_unary("/taskqueue.v1.TaskQueuePublicService/SubmitJob")
        error = refusal(lambda: raw(b"\xff\xff\xff\xff", timeout=10))
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert api.submit().initial_status == pb.QUEUED
