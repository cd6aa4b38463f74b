"""The caller matrix, written out once more by hand."""

from typing import Any

import grpc
import pytest

from holdfast.designs.services import callers
from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.refusals import Refusal

MATRIX = {
    "client": {"SubmitJob", "GetJobStatus", "GetJobResult", "CancelJob", "ListJobs"},
    "gateway": {
        *("CreateJob", "DeleteJobIfStatus", "GetJobRecord", "ListJobRecords", "SetCancelRequested"),
        *("TransitionJobStatus", "EnqueueJob", "RemoveJobIfPresent", "GetResult", "StoreResult"),
    },
    "coordinator": {"DequeueJob", "RemoveJobIfPresent", "TransitionJobStatus", "GetJobRecord", "StoreResult"},
    "worker": {"WorkerHeartbeat", "FetchWork", "ReportWorkOutcome"},
}
SERVICES = {
    public: {"TaskQueuePublicService": callers.GATEWAY_SERVICE},
    internal: {
        "JobInternalService": callers.JOB_SERVICE,
        "QueueInternalService": callers.QUEUE_SERVICE,
        "CoordinatorInternalService": callers.COORDINATOR_SERVICE,
        "ResultInternalService": callers.RESULT_SERVICE,
    },
}
STATUSES = public.JobStatus.values()


def test_every_caller_may_call_what_the_matrix_says_and_nothing_else() -> None:
    allowed = {
        method: names for services in SERVICES.values() for one in services.values() for method, names in one.items()
    }
    assert {caller: {method for method, names in allowed.items() if caller in names} for caller in MATRIX} == MATRIX
    assert {caller for names in allowed.values() for caller in names} == set(MATRIX)


def test_every_method_of_the_contract_has_its_callers() -> None:
    for contract, services in SERVICES.items():
        for name, allowed in services.items():
            assert set(contract.DESCRIPTOR.services_by_name[name].methods_by_name) == set(allowed)


def test_a_node_takes_the_public_calls_of_clients_and_of_nodes_that_forward_them() -> None:
    assert set(callers.NODE_SERVICE) == MATRIX["client"]
    assert set(callers.NODE_SERVICE.values()) == {frozenset({"client", "node"})}


@pytest.mark.parametrize("new", STATUSES)
@pytest.mark.parametrize("old", STATUSES)
def test_a_gateway_moves_a_status_for_a_queued_cancel_only(old: Any, new: Any) -> None:
    request = internal.TransitionJobStatusRequest(expected_from_status=old, to_status=new)
    callers.check_transition("coordinator", request)
    if (old, new) == (public.QUEUED, public.CANCELED):
        callers.check_transition("gateway", request)
        return
    with pytest.raises(Refusal) as caught:
        callers.check_transition("gateway", request)
    assert caught.value.code is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize("status", STATUSES)
def test_a_gateway_stores_the_envelope_of_a_cancel_only(status: Any) -> None:
    request = internal.StoreResultRequest(terminal_status=status)
    callers.check_store("coordinator", request)
    if status == public.CANCELED:
        callers.check_store("gateway", request)
        return
    with pytest.raises(Refusal) as caught:
        callers.check_store("gateway", request)
    assert caught.value.code is grpc.StatusCode.PERMISSION_DENIED
