"""What is refused as a bad request, and that the message names the field."""

import re
from typing import Any
from uuid import uuid4

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rpc import checks, limits
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.refusals import Refusal

GOOD_ID = "1b4e28ba-2fa1-4d3b-883f-0016d3cca427"


def refused(check: Any, *given: Any) -> str:
    with pytest.raises(Refusal) as found:
        check(*given)
    assert found.value.code is grpc.StatusCode.INVALID_ARGUMENT
    return found.value.message


def page(size: int = 0, token: str = "") -> public.PageRequest:
    return public.PageRequest(page_size=size, page_token=token)


def spec(**given: Any) -> public.JobSpec:
    return public.JobSpec(**{"job_type": "resize", **given})


def test_every_uuid4_is_a_job_id() -> None:
    for _ in range(100):
        job_id = str(uuid4())
        assert checks.check_job_id(job_id) == job_id


@pytest.mark.parametrize(
    "job_id",
    [
        "",
        "7",
        "not-a-uuid",
        GOOD_ID.upper(),
        GOOD_ID.replace("-", ""),
        f"{{{GOOD_ID}}}",
        f"urn:uuid:{GOOD_ID}",
        f"{GOOD_ID}\n",
        f" {GOOD_ID}",
        "1b4e28ba-2fa1-1d3b-883f-0016d3cca427",  # version 1
        "1b4e28ba-2fa1-4d3b-c83f-0016d3cca427",  # another variant
        "00000000-0000-0000-0000-000000000000",
        "x" * 100_000,
    ],
)
def test_what_is_no_uuid4_in_its_one_spelling_is_refused(job_id: str) -> None:
    message = refused(checks.check_job_id, job_id)
    assert "job_id" in message
    assert "SubmitJob" in message
    assert len(message) < 500


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (page(), (0, 50)),
        (page(1), (0, 1)),
        (page(200), (0, 200)),
        (page(201), (0, 200)),
        (page(10_000), (0, 200)),
        (page(2**32 - 1), (0, 200)),
        (page(7, "0"), (0, 7)),
        (page(7, "007"), (7, 7)),
        (page(0, "9223372036854775807"), (2**63 - 1, 50)),
    ],
)
def test_a_page_is_an_offset_and_a_bounded_size(given: public.PageRequest, read: tuple[int, int]) -> None:
    assert checks.check_page(given) == read


@pytest.mark.parametrize(
    "token", ["abc", "-1", "+1", " 1", "1 ", "1.0", "1_0", "0x1", "1e3", "١", "²", "9" * 19, "1" * 99]
)
def test_a_token_that_is_no_offset_is_refused(token: str) -> None:
    assert "page_token" in refused(checks.check_page, page(token=token))


@given(st.text())
def test_a_token_is_taken_as_the_number_it_spells_or_refused(token: str) -> None:
    try:
        offset, _ = checks.check_page(page(token=token.replace("\ud800", "")))
    except Refusal:
        return
    assert re.fullmatch("[0-9]*", token)
    assert offset == int(token or "0")


def test_a_spec_must_be_there_and_name_its_kind_of_work() -> None:
    assert "spec is missing" in refused(checks.check_submit, public.SubmitJobRequest())
    assert "job_type" in refused(checks.check_submit, public.SubmitJobRequest(spec=public.JobSpec()))
    assert "job_type" in refused(checks.check_spec, spec(job_type="x" * (limits.MAX_JOB_TYPE_CHARACTERS + 1)))


def test_labels_are_bounded() -> None:
    most = {f"label-{number}": "x" * limits.MAX_LABEL_VALUE_CHARACTERS for number in range(limits.MAX_LABELS)}
    checks.check_spec(spec(labels=most))
    checks.check_spec(spec(labels={"k" * limits.MAX_LABEL_KEY_CHARACTERS: ""}))
    assert "33" in refused(checks.check_spec, spec(labels={**most, "one": "more"}))
    assert "empty key" in refused(checks.check_spec, spec(labels={"": "x"}))
    assert "key" in refused(checks.check_spec, spec(labels={"k" * (limits.MAX_LABEL_KEY_CHARACTERS + 1): "x"}))
    assert "'colour'" in refused(
        checks.check_spec, spec(labels={"colour": "x" * (limits.MAX_LABEL_VALUE_CHARACTERS + 1)})
    )


def test_texts_are_bounded_and_have_no_nul() -> None:
    checks.check_client_request_id("")
    checks.check_client_request_id("☃" * limits.MAX_CLIENT_REQUEST_ID_CHARACTERS)
    too_long = "x" * (limits.MAX_CLIENT_REQUEST_ID_CHARACTERS + 1)
    assert "client_request_id" in refused(checks.check_client_request_id, too_long)
    assert "NUL" in refused(checks.check_client_request_id, "a\0b")
    assert "NUL" in refused(checks.check_spec, spec(job_type="a\0b"))
    assert "NUL" in refused(checks.check_spec, spec(labels={"a": "\0"}))
    assert "reason" in refused(checks.check_reason, "x" * (limits.MAX_REASON_CHARACTERS + 1))


def test_a_worker_has_a_name() -> None:
    assert checks.check_worker_id("host-1") == "host-1"
    assert "WORKER_ID" in refused(checks.check_worker_id, "")
    assert "worker_id" in refused(checks.check_worker_id, "x" * 256)


def test_a_status_is_one_of_five() -> None:
    every = [public.QUEUED, public.RUNNING, public.DONE, public.FAILED, public.CANCELED]
    assert checks.check_statuses("status_filter", every) == set(every)
    assert checks.check_statuses("status_filter", []) == set()
    for wrong in (public.JOB_STATUS_UNSPECIFIED, 6, -1):
        message = refused(checks.check_statuses, "status_filter", [public.DONE, wrong])
        assert "status_filter" in message
        assert "QUEUED, RUNNING, DONE, FAILED, CANCELED" in message


def test_an_order_is_one_of_two_and_newest_first_where_none_is_named() -> None:
    assert checks.check_sort(public.JOB_SORT_UNSPECIFIED) == public.CREATED_AT_DESC
    assert checks.check_sort(public.CREATED_AT_ASC) == public.CREATED_AT_ASC
    assert "sort" in refused(checks.check_sort, 3)
