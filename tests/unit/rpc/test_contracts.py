"""The frozen contracts, written out once more by hand: packages, services, messages, fields and enums."""

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor, FileDescriptor

from holdfast.rpc.generated import taskqueue_internal_pb2, taskqueue_public_pb2

ROOT = Path(__file__).parents[3]
PUBLIC = taskqueue_public_pb2.DESCRIPTOR
INTERNAL = taskqueue_internal_pb2.DESCRIPTOR

ENUMS = {
    PUBLIC: {
        "JobStatus": "JOB_STATUS_UNSPECIFIED QUEUED RUNNING DONE FAILED CANCELED",
        "JobSort": "JOB_SORT_UNSPECIFIED CREATED_AT_DESC CREATED_AT_ASC",
    },
    INTERNAL: {"JobOutcome": "JOB_OUTCOME_UNSPECIFIED SUCCEEDED FAILED CANCELED"},
}

SERVICES = {
    PUBLIC: {"TaskQueuePublicService": "SubmitJob GetJobStatus GetJobResult CancelJob ListJobs"},
    INTERNAL: {
        "JobInternalService": (
            "CreateJob DeleteJobIfStatus GetJobRecord ListJobRecords TransitionJobStatus SetCancelRequested"
        ),
        "QueueInternalService": "EnqueueJob DequeueJob RemoveJobIfPresent",
        "CoordinatorInternalService": "WorkerHeartbeat FetchWork ReportWorkOutcome",
        "ResultInternalService": "StoreResult GetResult",
    },
}

# In the contract's order, which gives the numbers from 1.
MESSAGES = {
    PUBLIC: {
        "JobSpec": "string job_type, uint32 work_duration_ms, uint32 payload_size_bytes, map labels",
        "JobSummary": (
            "string job_id, JobStatus status, string job_type, int64 created_at_ms, int64 started_at_ms, "
            "int64 finished_at_ms, bool cancel_requested"
        ),
        "PageRequest": "uint32 page_size, string page_token",
        "PageResponse": "string next_page_token",
        "SubmitJobRequest": "JobSpec spec, string client_request_id",
        "SubmitJobResponse": "string job_id, JobStatus initial_status, int64 accepted_at_ms",
        "GetJobStatusRequest": "string job_id",
        "GetJobStatusResponse": (
            "string job_id, JobStatus status, bool cancel_requested, int64 created_at_ms, int64 started_at_ms, "
            "int64 finished_at_ms, string failure_reason"
        ),
        "GetJobResultRequest": "string job_id",
        "GetJobResultResponse": (
            "string job_id, bool result_ready, JobStatus terminal_status, bytes output_bytes, string output_summary, "
            "uint32 runtime_ms, string checksum"
        ),
        "CancelJobRequest": "string job_id, string reason",
        "CancelJobResponse": "string job_id, bool accepted, JobStatus current_status, bool already_terminal",
        "ListJobsRequest": "repeated JobStatus status_filter, PageRequest page, JobSort sort",
        "ListJobsResponse": "repeated JobSummary jobs, PageResponse page",
    },
    INTERNAL: {
        "CreateJobRequest": "JobSpec spec, string client_request_id",
        "CreateJobResponse": "string job_id, JobStatus status",
        "DeleteJobIfStatusRequest": "string job_id, JobStatus expected_status",
        "DeleteJobIfStatusResponse": "bool deleted, JobStatus current_status",
        "GetJobRecordRequest": "string job_id",
        "GetJobRecordResponse": "JobSummary summary, string failure_reason, JobSpec spec",
        "ListJobRecordsRequest": "repeated JobStatus status_filter, PageRequest page, JobSort sort",
        "ListJobRecordsResponse": "repeated JobSummary jobs, PageResponse page",
        "TransitionJobStatusRequest": (
            "string job_id, JobStatus expected_from_status, JobStatus to_status, string actor, string reason"
        ),
        "TransitionJobStatusResponse": "bool applied, JobStatus current_status",
        "SetCancelRequestedRequest": "string job_id, bool cancel_requested, string reason",
        "SetCancelRequestedResponse": "bool applied, JobStatus current_status",
        "EnqueueJobRequest": "string job_id, int64 enqueued_at_ms",
        "EnqueueJobResponse": "bool accepted",
        "DequeueJobRequest": "string worker_id",
        "DequeueJobResponse": "bool found, string job_id",
        "RemoveJobIfPresentRequest": "string job_id",
        "RemoveJobIfPresentResponse": "bool removed",
        "WorkerHeartbeatRequest": "string worker_id, int64 heartbeat_at_ms, uint32 capacity_hint",
        "WorkerHeartbeatResponse": "bool accepted, uint32 next_heartbeat_in_ms",
        "FetchWorkRequest": "string worker_id",
        "FetchWorkResponse": "bool assigned, string job_id, JobSpec spec, uint32 retry_after_ms",
        "ReportWorkOutcomeRequest": (
            "string worker_id, string job_id, JobOutcome outcome, uint32 runtime_ms, string failure_reason, "
            "string output_summary, bytes output_bytes, string checksum"
        ),
        "ReportWorkOutcomeResponse": "bool accepted",
        "StoreResultRequest": (
            "string job_id, JobStatus terminal_status, uint32 runtime_ms, string output_summary, bytes output_bytes, "
            "string checksum"
        ),
        "StoreResultResponse": "bool stored, bool already_exists, JobStatus current_terminal_status",
        "GetResultRequest": "string job_id",
        "GetResultResponse": (
            "bool found, string job_id, JobStatus terminal_status, uint32 runtime_ms, string output_summary, "
            "bytes output_bytes, string checksum"
        ),
    },
}

TYPES = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_INT64: "int64",
}


def type_name(field: FieldDescriptor) -> str:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        entry = field.message_type.fields_by_name
        assert [TYPES[entry[part].type] for part in ("key", "value")] == ["string", "string"]
        return "map"
    named = field.message_type or field.enum_type
    return ("repeated " if field.is_repeated else "") + (named.name if named else TYPES[field.type])


FILES = pytest.mark.parametrize("file", [PUBLIC, INTERNAL], ids=["public", "internal"])


def test_the_packages_are_those_of_the_contract() -> None:
    assert (PUBLIC.package, INTERNAL.package) == ("taskqueue.v1", "taskqueue.internal.v1")
    assert [file.name for file in INTERNAL.dependencies] == ["taskqueue_public.proto"]


@FILES
def test_every_message_has_exactly_its_fields_with_their_numbers(file: FileDescriptor) -> None:
    found = {
        name: [(field.number, f"{type_name(field)} {field.name}") for field in message.fields]
        for name, message in file.message_types_by_name.items()
    }
    assert found == {name: list(enumerate(fields.split(", "), start=1)) for name, fields in MESSAGES[file].items()}


@FILES
def test_every_enum_has_exactly_its_values(file: FileDescriptor) -> None:
    found = {name: [(v.number, v.name) for v in enum.values] for name, enum in file.enum_types_by_name.items()}
    assert found == {name: list(enumerate(values.split())) for name, values in ENUMS[file].items()}


@FILES
def test_every_service_has_exactly_its_unary_methods(file: FileDescriptor) -> None:
    found = {name: [method.name for method in service.methods] for name, service in file.services_by_name.items()}
    assert found == {name: methods.split() for name, methods in SERVICES[file].items()}
    for service in file.services_by_name.values():
        for method in service.methods:
            assert method.input_type.name == f"{method.name}Request"
            assert method.output_type.name == f"{method.name}Response"
            assert not method.client_streaming
            assert not method.server_streaming


def test_the_generated_code_is_that_of_the_proto_files(tmp_path: Path) -> None:
    made = tmp_path / "generated"
    subprocess.run([ROOT / "tools/proto", Path(sys.executable).parent, made], cwd=ROOT, check=True)
    kept = ROOT / "src/holdfast/rpc/generated"
    names = sorted(path.name for path in made.iterdir())
    assert names == sorted(path.name for path in kept.glob("taskqueue_*"))
    for name in names:
        assert (made / name).read_text() == (kept / name).read_text(), f"{name} is not up to date: run `make proto`"
