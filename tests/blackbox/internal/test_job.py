"""JobInternalService: the canonical record, its compare-and-set, and its keys."""

from itertools import product
from uuid import UUID, uuid4

import grpc
import pytest

from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from tests.blackbox.api import new_key, refusal, spec
from tests.blackbox.internal.parts import Parts

LISTED = {
    (pb.QUEUED, pb.RUNNING),
    (pb.QUEUED, pb.CANCELED),
    (pb.RUNNING, pb.DONE),
    (pb.RUNNING, pb.FAILED),
    (pb.RUNNING, pb.CANCELED),
}
STATUSES = [pb.QUEUED, pb.RUNNING, pb.DONE, pb.FAILED, pb.CANCELED]
UNLISTED = sorted(set(product(STATUSES, STATUSES)) - LISTED)
MAX_DEDUP_KEYS = 10_000


@pytest.fixture
def job_id(parts: Parts) -> str:
    return str(parts.gateway("job", "CreateJob", spec=spec("made", ms=3, size=4, labels={"a": "b"})).job_id)


def move(parts: Parts, job_id: str, before: int, after: int, reason: str = "") -> tuple[bool, int]:
    answer = parts.coordinator(
        "job",
        "TransitionJobStatus",
        job_id=job_id,
        expected_from_status=before,
        to_status=after,
        actor="coordinator",
        reason=reason,
    )
    return answer.applied, answer.current_status


def test_a_new_job_is_queued_and_its_record_holds_its_spec(parts: Parts, job_id: str) -> None:
    assert UUID(job_id).version == 4
    record = parts.coordinator("job", "GetJobRecord", job_id=job_id)
    assert record.spec == spec("made", ms=3, size=4, labels={"a": "b"})
    summary = record.summary
    assert (summary.job_id, summary.status, summary.job_type) == (job_id, pb.QUEUED, "made")
    assert (summary.created_at_ms > 0, summary.started_at_ms, summary.finished_at_ms) == (True, 0, 0)
    assert (summary.cancel_requested, record.failure_reason) == (False, "")


def test_create_deduplicates_by_key_and_payload(parts: Parts) -> None:
    key = new_key()
    first = parts.gateway("job", "CreateJob", spec=spec("one"), client_request_id=key)
    assert parts.gateway("job", "CreateJob", spec=spec("one"), client_request_id=key).job_id == first.job_id
    error = refusal(lambda: parts.gateway("job", "CreateJob", spec=spec("two"), client_request_id=key))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    unkeyed = {parts.gateway("job", "CreateJob", spec=spec("one")).job_id for _ in range(3)}
    assert len(unkeyed | {first.job_id}) == 4


def test_create_says_beside_its_answer_whether_it_made_the_job(parts: Parts) -> None:
    """So that the gateway compensates what this call has made, and nothing else."""
    key = new_key()
    made = [parts.trailing("job", "CreateJob", spec=spec(), client_request_id=key)["holdfast-created"] for _ in "12"]
    assert made[0] != made[1]


def test_a_status_moves_when_it_is_the_one_expected(parts: Parts, job_id: str) -> None:
    assert move(parts, job_id, pb.QUEUED, pb.RUNNING) == (True, pb.RUNNING)
    running = parts.gateway("job", "GetJobRecord", job_id=job_id).summary
    assert running.started_at_ms >= running.created_at_ms
    assert move(parts, job_id, pb.RUNNING, pb.FAILED, "it broke") == (True, pb.FAILED)
    record = parts.gateway("job", "GetJobRecord", job_id=job_id)
    assert record.summary.finished_at_ms >= running.started_at_ms
    assert record.failure_reason == "it broke"


def test_only_a_failure_has_a_failure_reason(parts: Parts, job_id: str) -> None:
    move(parts, job_id, pb.QUEUED, pb.RUNNING, "assigned")
    move(parts, job_id, pb.RUNNING, pb.DONE, "went well")
    assert parts.gateway("job", "GetJobRecord", job_id=job_id).failure_reason == ""


def test_a_status_that_is_another_one_stays_and_is_told(parts: Parts, job_id: str) -> None:
    assert move(parts, job_id, pb.RUNNING, pb.DONE) == (False, pb.QUEUED)
    assert move(parts, job_id, pb.QUEUED, pb.RUNNING) == (True, pb.RUNNING)
    assert move(parts, job_id, pb.QUEUED, pb.RUNNING) == (False, pb.RUNNING)
    assert move(parts, job_id, pb.QUEUED, pb.CANCELED) == (False, pb.RUNNING)


@pytest.mark.parametrize("first", [pb.DONE, pb.FAILED, pb.CANCELED])
def test_the_first_terminal_status_wins(parts: Parts, job_id: str, first: int) -> None:
    move(parts, job_id, pb.QUEUED, pb.RUNNING)
    assert move(parts, job_id, pb.RUNNING, first) == (True, first)
    before = parts.gateway("job", "GetJobRecord", job_id=job_id)
    for later in (pb.DONE, pb.FAILED, pb.CANCELED):
        assert move(parts, job_id, pb.RUNNING, later) == (False, first)
    assert parts.gateway("job", "GetJobRecord", job_id=job_id) == before


@pytest.mark.parametrize(("before", "after"), UNLISTED)
def test_a_move_that_is_not_in_the_table_is_rejected(parts: Parts, job_id: str, before: int, after: int) -> None:
    error = refusal(lambda: move(parts, job_id, before, after))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert parts.gateway("job", "GetJobRecord", job_id=job_id).summary.status == pb.QUEUED


@pytest.mark.parametrize("before", [pb.JOB_STATUS_UNSPECIFIED, 77])
def test_a_move_must_say_from_where(parts: Parts, job_id: str, before: int) -> None:
    error = refusal(lambda: move(parts, job_id, before, pb.RUNNING))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "expected_from_status" in (error.details() or "")


@pytest.mark.parametrize("after", [pb.JOB_STATUS_UNSPECIFIED, 77])
def test_a_move_must_say_where_to(parts: Parts, job_id: str, after: int) -> None:
    error = refusal(lambda: move(parts, job_id, pb.QUEUED, after))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_of_moves_at_once_one_is_applied(parts: Parts, job_id: str) -> None:
    moves = parts.together(
        "job",
        "TransitionJobStatus",
        16,
        caller="coordinator",
        job_id=job_id,
        expected_from_status=pb.QUEUED,
        to_status=pb.RUNNING,
        actor="coordinator",
    )
    assert sorted(answer.applied for answer in moves) == [False] * 15 + [True]
    assert {answer.current_status for answer in moves} == {pb.RUNNING}


def test_a_job_is_deleted_if_its_status_is_as_expected_and_its_key_with_it(parts: Parts) -> None:
    key = new_key()
    job_id = parts.gateway("job", "CreateJob", spec=spec("one"), client_request_id=key).job_id
    kept = parts.gateway("job", "DeleteJobIfStatus", job_id=job_id, expected_status=pb.RUNNING)
    assert (kept.deleted, kept.current_status) == (False, pb.QUEUED)
    assert parts.gateway("job", "DeleteJobIfStatus", job_id=job_id, expected_status=pb.QUEUED).deleted
    error = refusal(lambda: parts.gateway("job", "GetJobRecord", job_id=job_id))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    again = parts.gateway("job", "CreateJob", spec=spec("another"), client_request_id=key)
    assert again.job_id != job_id


def test_a_cancel_request_is_noted_once_and_for_all(parts: Parts, job_id: str) -> None:
    for _ in range(3):
        answer = parts.gateway("job", "SetCancelRequested", job_id=job_id, cancel_requested=True, reason="no more")
        assert (answer.applied, answer.current_status) == (True, pb.QUEUED)
    assert parts.coordinator("job", "GetJobRecord", job_id=job_id).summary.cancel_requested


def test_a_cancel_request_comes_too_late_for_a_terminal_job(parts: Parts, job_id: str) -> None:
    move(parts, job_id, pb.QUEUED, pb.RUNNING)
    move(parts, job_id, pb.RUNNING, pb.DONE)
    answer = parts.gateway("job", "SetCancelRequested", job_id=job_id, cancel_requested=True)
    assert (answer.applied, answer.current_status) == (False, pb.DONE)
    assert not parts.gateway("job", "GetJobRecord", job_id=job_id).summary.cancel_requested


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("GetJobRecord", {}),
        ("DeleteJobIfStatus", {"expected_status": pb.QUEUED}),
        ("SetCancelRequested", {"cancel_requested": True}),
        ("TransitionJobStatus", {"expected_from_status": pb.QUEUED, "to_status": pb.CANCELED, "actor": "gateway"}),
    ],
)
def test_an_unknown_job_is_not_found(parts: Parts, method: str, fields: dict[str, int]) -> None:
    error = refusal(lambda: parts.gateway("job", method, job_id=str(uuid4()), **fields))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    error = refusal(lambda: parts.gateway("job", method, job_id="no-uuid", **fields))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_records_are_listed_with_filter_order_and_pages(parts: Parts) -> None:
    made = [parts.gateway("job", "CreateJob", spec=spec("listed")).job_id for _ in range(5)]
    page = parts.gateway("job", "ListJobRecords", page=pb.PageRequest(page_size=100), status_filter=[pb.QUEUED])
    assert set(made) <= {job.job_id for job in page.jobs}
    assert {job.status for job in page.jobs} == {pb.QUEUED}
    error = refusal(lambda: parts.gateway("job", "ListJobRecords", page=pb.PageRequest(page_token="-1")))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_the_oldest_key_is_forgotten_when_there_are_too_many(parts: Parts) -> None:
    """Ten thousand are kept. A key that was forgotten is a new one."""
    keys = [new_key() for _ in range(MAX_DEDUP_KEYS + 1)]
    oldest, second = [parts.gateway("job", "CreateJob", spec=spec(), client_request_id=key) for key in keys[:2]]
    parts.each("job", "CreateJob", [{"spec": spec(), "client_request_id": key} for key in keys[2:]])
    kept = parts.gateway("job", "CreateJob", spec=spec(), client_request_id=keys[1])
    assert kept.job_id == second.job_id
    forgotten = parts.gateway("job", "CreateJob", spec=spec("another"), client_request_id=keys[0])
    assert forgotten.job_id != oldest.job_id
    assert parts.gateway("job", "GetJobRecord", job_id=oldest.job_id).summary.status == pb.QUEUED
