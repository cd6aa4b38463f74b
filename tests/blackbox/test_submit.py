"""SubmitJob: what is accepted, and what is refused with which words."""

import time
from collections.abc import Callable
from uuid import RFC_4122, UUID

import grpc
import pytest

from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from tests.blackbox.api import Api, named, new_key, refusal, spec

CLOCKS_DIFFER_MS = 60_000
BAD = {
    "no spec": (lambda: pb.SubmitJobRequest(), "spec"),
    "no spec but a key": (lambda: pb.SubmitJobRequest(client_request_id=new_key()), "spec"),
    "empty job_type": (lambda: pb.SubmitJobRequest(spec=spec("")), "job_type"),
    "long job_type": (lambda: pb.SubmitJobRequest(spec=spec("x" * 10_000)), "job_type"),
    "NUL in job_type": (lambda: pb.SubmitJobRequest(spec=spec("a\0b")), "job_type"),
    "many labels": (lambda: pb.SubmitJobRequest(spec=spec(labels={str(n): "" for n in range(5000)})), "labels"),
    "long label": (lambda: pb.SubmitJobRequest(spec=spec(labels={"name": "x" * 100_000})), "labels"),
    "long label key": (lambda: pb.SubmitJobRequest(spec=spec(labels={"x" * 100_000: "value"})), "labels"),
    "empty label key": (lambda: pb.SubmitJobRequest(spec=spec(labels={"": "value"})), "labels"),
    "long key": (lambda: pb.SubmitJobRequest(spec=spec(), client_request_id="k" * 10_000), "client_request_id"),
}


def test_an_accepted_job_has_a_uuid4_is_queued_and_says_when(api: Api) -> None:
    answer = api.submit()
    parsed = UUID(answer.job_id)
    assert (parsed.version, parsed.variant) == (4, RFC_4122)
    assert answer.job_id == str(parsed)
    assert answer.initial_status == pb.QUEUED
    assert abs(answer.accepted_at_ms - time.time() * 1000) < CLOCKS_DIFFER_MS


def test_every_submit_without_a_key_is_a_new_job(api: Api) -> None:
    answers = api.submit_many([spec()] * 24)
    assert len({answer.job_id for answer in answers}) == 24


@pytest.mark.parametrize("given", ["a", "x" * 128, "ünïcode ☃ 漢字 🦀", "with\nlines\tand 'quotes' \"%s\""])
def test_any_text_can_be_a_job_type(api: Api, one: Api, given: str) -> None:
    job_id = one.done(spec(given))
    assert [job.job_type for job in one.page().jobs if job.job_id == job_id] == [given]


def test_labels_at_their_bounds_are_taken(api: Api) -> None:
    labels = {f"{number:02}".ljust(63, "k"): "v" * 128 for number in range(32)}
    assert api.ended(api.submit(spec(labels=labels)).job_id).status == pb.DONE


@pytest.mark.parametrize(("request_of", "field"), BAD.values(), ids=BAD)
def test_a_bad_request_is_refused_and_told_what_to_fix(
    api: Api, request_of: Callable[[], pb.SubmitJobRequest], field: str
) -> None:
    error = refusal(lambda: api.stub.SubmitJob(request_of(), timeout=10))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert field in (error.details() or "")


def test_a_refused_submit_leaves_nothing_behind(one: Api) -> None:
    key = new_key()
    before = {job.job_id for job in one.walk()}
    refusal(lambda: one.submit(spec(""), key=key))
    assert {job.job_id for job in one.walk()} == before
    one.submit(spec(), key=key)  # the key is still free


def test_a_message_beyond_grpc_s_own_bound_is_refused_and_the_server_goes_on(api: Api) -> None:
    error = refusal(lambda: api.submit(spec("x" * 5_000_000)))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert api.submit().initial_status == pb.QUEUED


def test_the_largest_numbers_of_a_spec_are_taken(api: Api) -> None:
    """The work is not begun: it is too large, and that is found out before the long sleep."""
    status = api.ended(api.submit(spec(ms=2**32 - 1, size=2**32 - 1)).job_id)
    assert status.status == pb.FAILED
    assert "OUTPUT_TOO_LARGE" in status.failure_reason


def test_an_answer_has_no_field_left_out(api: Api) -> None:
    assert all(named(api.submit()).values())
