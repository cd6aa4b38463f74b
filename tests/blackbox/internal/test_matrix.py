"""Who may call what: the caller-to-method matrix, written out once more by hand."""

from itertools import product
from typing import Any
from uuid import uuid4

import grpc
import pytest

from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from tests.blackbox.api import code_of, refusal, spec
from tests.blackbox.internal.parts import Parts

PUBLIC = ["SubmitJob", "GetJobStatus", "GetJobResult", "CancelJob", "ListJobs"]
METHODS = {
    "gateway": PUBLIC,
    "job": [
        "CreateJob",
        "DeleteJobIfStatus",
        "GetJobRecord",
        "ListJobRecords",
        "TransitionJobStatus",
        "SetCancelRequested",
    ],
    "queue": ["EnqueueJob", "DequeueJob", "RemoveJobIfPresent"],
    "coordinator": ["WorkerHeartbeat", "FetchWork", "ReportWorkOutcome"],
    "result": ["StoreResult", "GetResult"],
}
ALLOWED = {
    ("client", "gateway"): PUBLIC,
    ("gateway", "job"): [
        "CreateJob",
        "DeleteJobIfStatus",
        "GetJobRecord",
        "ListJobRecords",
        "SetCancelRequested",
        "TransitionJobStatus",
    ],
    ("gateway", "queue"): ["EnqueueJob", "RemoveJobIfPresent"],
    ("gateway", "result"): ["GetResult", "StoreResult"],
    ("coordinator", "queue"): ["DequeueJob", "RemoveJobIfPresent"],
    ("coordinator", "job"): ["TransitionJobStatus", "GetJobRecord"],
    ("coordinator", "result"): ["StoreResult"],
    ("worker", "coordinator"): ["WorkerHeartbeat", "FetchWork", "ReportWorkOutcome"],
}
OF_A_QUEUED_CANCEL: dict[str, dict[str, Any]] = {
    "TransitionJobStatus": {"expected_from_status": pb.QUEUED, "to_status": pb.CANCELED},
    "StoreResult": {"terminal_status": pb.CANCELED},
}
"""All that the gateway may do with these two."""
BAD_PAGE: dict[str, dict[str, Any]] = {
    method: {"page": pb.PageRequest(page_token="abc")} for method in ("ListJobs", "ListJobRecords")
}
CALLERS = ["client", "gateway", "job", "queue", "coordinator", "worker", "result", "stranger", ""]
PAIRS = [(role, method) for role, methods in METHODS.items() for method in methods]


def harmless(role: str, method: str) -> Any:
    """A request that is refused for what is missing in it, if its caller was allowed to make it at all."""
    kind = getattr(pb if role == "gateway" else internal, f"{method}Request")
    return kind(**OF_A_QUEUED_CANCEL.get(method, {}), **BAD_PAGE.get(method, {}))


@pytest.mark.parametrize(("role", "method"), PAIRS)
def test_each_method_is_for_the_callers_of_the_matrix_and_no_others(parts: Parts, role: str, method: str) -> None:
    answered = {
        caller: code_of(lambda caller=caller: parts.call(role, method, harmless(role, method), caller=caller))  # type: ignore[misc]
        for caller in CALLERS
    }
    named = {caller: caller or "client" for caller in CALLERS}
    expected = {
        caller: grpc.StatusCode.INVALID_ARGUMENT
        if method in ALLOWED.get((named[caller], role), [])
        else grpc.StatusCode.PERMISSION_DENIED
        for caller in CALLERS
    }
    assert answered == expected


def test_a_refused_caller_is_told_who_may(parts: Parts) -> None:
    request = internal.DequeueJobRequest(worker_id="w")
    error = refusal(lambda: parts.call("queue", "DequeueJob", request, caller="worker"))
    assert "worker" in (error.details() or "")
    assert "coordinator" in (error.details() or "")


def test_nothing_has_happened_when_a_caller_was_refused(parts: Parts) -> None:
    job_id = str(uuid4())
    request = internal.EnqueueJobRequest(job_id=job_id, enqueued_at_ms=1)
    for caller in ("client", "worker", "coordinator"):
        code = code_of(lambda caller=caller: parts.call("queue", "EnqueueJob", request, caller=caller))  # type: ignore[misc]
        assert code is grpc.StatusCode.PERMISSION_DENIED
    removed = parts.gateway("queue", "RemoveJobIfPresent", job_id=job_id)
    assert not removed.removed


TERMINAL_ONES = [pb.DONE, pb.FAILED, pb.CANCELED]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pair
        for pair in product([pb.QUEUED, pb.RUNNING, *TERMINAL_ONES], [pb.RUNNING, *TERMINAL_ONES])
        if pair != (pb.QUEUED, pb.CANCELED)
    ],
)
def test_the_gateway_moves_a_status_for_a_queued_cancel_only(
    parts: Parts, before: "pb.JobStatus.ValueType", after: "pb.JobStatus.ValueType"
) -> None:
    job_id = parts.gateway("job", "CreateJob", spec=spec()).job_id
    refused = refusal(
        lambda: parts.gateway(
            "job", "TransitionJobStatus", job_id=job_id, expected_from_status=before, to_status=after, actor="gateway"
        )
    )
    assert refused.code() is grpc.StatusCode.PERMISSION_DENIED
    assert parts.gateway("job", "GetJobRecord", job_id=job_id).summary.status == pb.QUEUED


@pytest.mark.parametrize("terminal", [pb.DONE, pb.FAILED])
def test_the_gateway_stores_the_envelope_of_a_cancel_only(parts: Parts, terminal: "pb.JobStatus.ValueType") -> None:
    job_id = str(uuid4())
    refused = refusal(lambda: parts.gateway("result", "StoreResult", job_id=job_id, terminal_status=terminal))
    assert refused.code() is grpc.StatusCode.PERMISSION_DENIED
    assert not parts.gateway("result", "GetResult", job_id=job_id).found
