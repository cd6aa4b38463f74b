"""client_request_id: one key, one job."""

import random
from itertools import islice
from typing import Any

import grpc
import pytest

from holdfast.rpc import limits
from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from holdfast.rpc.partition import owner
from tests.blackbox.api import LONG_SECONDS, OPTIONS, Api, new_key, refusal, spec
from tests.blackbox.targets import Target

AT_ONCE = 250

OTHERS = {
    "job_type": spec("other", ms=1, size=2, labels={"a": "b"}),
    "work_duration_ms": spec("one", ms=2, size=2, labels={"a": "b"}),
    "payload_size_bytes": spec("one", ms=1, size=3, labels={"a": "b"}),
    "a label's value": spec("one", ms=1, size=2, labels={"a": "c"}),
    "a label's key": spec("one", ms=1, size=2, labels={"b": "b"}),
    "a label more": spec("one", ms=1, size=2, labels={"a": "b", "c": "d"}),
    "no labels": spec("one", ms=1, size=2),
}


def test_the_same_key_and_payload_is_the_same_job(api: Api) -> None:
    key = new_key()
    first = api.submit(spec(ms=1), key=key)
    again = [api.submit(spec(ms=1), key=key) for _ in range(7)]
    assert {answer.job_id for answer in again} == {first.job_id}
    assert {answer.initial_status for answer in again} == {pb.QUEUED}


def test_a_key_is_good_after_its_job_has_ended(api: Api) -> None:
    key = new_key()
    first = api.submit(key=key)
    before = api.ended(first.job_id)
    again = api.submit(key=key)
    assert again.job_id == first.job_id
    assert again.initial_status == pb.QUEUED
    assert api.status(first.job_id) == before


def test_a_key_is_good_after_its_job_was_canceled(api: Api, blocked: list[str]) -> None:
    """And does not bring it back: a duplicate that is queued still is enqueued again, this one is not queued."""
    key = new_key()
    first = api.submit(key=key)
    api.cancel(first.job_id)
    before = api.ended(first.job_id)
    assert api.submit(key=key).job_id == first.job_id
    assert api.status(first.job_id) == before


def test_the_order_of_labels_does_not_matter(api: Api) -> None:
    """Many of them, and on the wire in every other order: a map of few is in one order whatever was sent."""
    labels = [(f"label-{number}", str(number)) for number in range(32)]
    chance = random.Random(7)
    key = new_key()
    orders = [chance.sample(labels, len(labels)) for _ in range(12)]
    assert len({submit_raw(api, key, order) for order in orders}) == 1


def submit_raw(api: Api, key: str, labels: list[tuple[str, str]]) -> str:
    """A spec is the bytes of its parts behind each other."""
    parts = [spec(), *(pb.JobSpec(labels={name: value}) for name, value in labels)]
    packed = b"".join(part.SerializeToString() for part in parts)
    assert 128 <= len(packed) < 2**14  # so that its length is written in two bytes, seven bits each
    request = bytes([0x0A, len(packed) & 0x7F | 0x80, len(packed) >> 7]) + packed
    request += pb.SubmitJobRequest(client_request_id=key).SerializeToString()
    with grpc.insecure_channel(api.addresses[0], options=OPTIONS) as channel:
        call: Any = channel.unary_unary(
            "/taskqueue.v1.TaskQueuePublicService/SubmitJob", response_deserializer=pb.SubmitJobResponse.FromString
        )
        return str(call(request, timeout=LONG_SECONDS).job_id)


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_the_same_key_with_another_payload_is_refused(api: Api, other: pb.JobSpec) -> None:
    key, given = new_key(), spec("one", ms=1, size=2, labels={"a": "b"})
    job_id = api.submit(given, key=key).job_id
    error = refusal(lambda: api.submit(other, key=key))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "key" in (error.details() or "")
    assert api.submit(given, key=key).job_id == job_id


def test_keys_that_differ_in_anything_are_different(api: Api) -> None:
    key = new_key()
    keys = [key, key.upper(), f"{key} ", f" {key}", f"{key}é", f"{key}e\u0301", f"{key}%", f"{key}_"]
    assert len({api.submit(key=one).job_id for one in keys}) == len(keys)


@pytest.mark.parametrize("key", ["k", "x" * 256, "ключ 鍵 🔑", "a'b\"c;--", "a/b?c=d&e"])
def test_any_text_can_be_a_key(api: Api, key: str) -> None:
    mine = (key + new_key())[-256:]
    assert api.submit(key=mine).job_id == api.submit(key=mine).job_id


def test_submits_at_once_with_one_key_make_one_job(api: Api) -> None:
    for _ in range(5):
        key = new_key()
        answers = api.submit_many([spec(ms=2)] * 32, keys=[key] * 32)
        assert {getattr(answer, "job_id", answer) for answer in answers} == {answers[0].job_id}
        listed = [job for one in api.each() for job in one.page(size=200).jobs if job.job_id == answers[0].job_id]
        assert len(listed) == 1


def test_of_submits_at_once_with_one_key_and_two_payloads_one_payload_wins(api: Api) -> None:
    for _ in range(5):
        key = new_key()
        given = [spec("left"), spec("right")] * 12
        answers = api.submit_many(given, keys=[key] * 24)
        accepted = [one for one, answer in zip(given, answers, strict=True) if not isinstance(answer, grpc.RpcError)]
        assert len({one.job_type for one in accepted}) == 1
        assert len(accepted) == 12
        assert len({answer.job_id for answer in answers if not isinstance(answer, grpc.RpcError)}) == 1
        refused = [answer for answer in answers if isinstance(answer, grpc.RpcError)]
        assert {error.code() for error in refused} == {grpc.StatusCode.FAILED_PRECONDITION}


def test_a_keyed_job_runs_once_however_often_it_is_submitted(api: Api) -> None:
    key = new_key()
    job_id = api.submit(spec(ms=30), key=key).job_id
    api.started(job_id)
    while api.status(job_id).status == pb.RUNNING:
        assert api.submit(spec(ms=30), key=key).job_id == job_id
    before = api.status(job_id)
    api.submit(spec(ms=30), key=key)
    assert api.status(job_id) == before
    assert before.status == pb.DONE


def test_the_newest_ten_thousand_keys_are_remembered(api: Api, target: Target) -> None:
    """Of one node, which is not the one whose jobs other tests list. Design A: ``internal/test_gateway.py``."""
    if not target.is_design_b:
        pytest.skip("Design A has processes of its own for this; the durable server keeps keys by time")
    nodes = len(target.addresses)
    last = nodes - 1
    node = api.at(last)
    keys = list(islice((key for key in iter(new_key, "") if owner(key, nodes) == last), limits.MAX_DEDUP_KEYS + 1))
    first, second = (node.submit(key=key).job_id for key in keys[:2])
    for begin in range(2, len(keys), AT_ONCE):
        some = keys[begin : begin + AT_ONCE]
        answers = node.submit_many([spec()] * len(some), keys=some)
        assert all(isinstance(answer, pb.SubmitJobResponse) for answer in answers)
    assert node.submit(key=keys[1]).job_id == second
    again = node.submit(key=keys[0]).job_id
    assert again != first
    assert api.ended(again).status == pb.DONE
