"""A v1 job as a job of the engine, and back: how the durable server keeps it, and what it reads there.

Every v1 job has the engine's type ``taskqueue.v1``, so that keys have one scope, and a queue of that name, so that no
worker of an app meets it. Its payload is the spec; the job type and the labels are tags, too. Pure.

ENGINEJOB-1. A job of another type is none of this API's.
ENGINEJOB-2. A job that a worker has had in hand reads RUNNING until it is terminal, also where the engine has put it
    back.
ENGINEJOB-3. A terminal job has an envelope: a checksum always, and a summary that says how it ended.
"""

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

import msgspec

from holdfast.core.commands import NewJob
from holdfast.core.failures import Category, Failure, PermanentError
from holdfast.core.job import DEFAULT_TIMEOUTS, Job, Timeouts
from holdfast.core.payload import Payload
from holdfast.core.retry import Retry
from holdfast.core.states import State
from holdfast.core.views import VIEWS, view_of
from holdfast.rpc import limits
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.work import NO_BYTES_CHECKSUM, WORKER_LOST, Output, canceled_summary, failed_summary

TYPE: Final = "taskqueue.v1"
REASON_TYPE: Final = "taskqueue.v1.cancel"
QUEUE: Final = "taskqueue.v1"
JOB_TYPE_TAG: Final = "job_type"
# A handler's failure is permanent; what is tried again is only the job of a worker that was lost.
RETRY: Final = Retry(max_attempts=1 + limits.MAX_REDELIVERIES)
SPARE_SECONDS: Final = 60.0


class Spec(msgspec.Struct, frozen=True):
    """The payload."""

    job_type: str
    work_duration_ms: int
    payload_size_bytes: int
    labels: dict[str, str]


class Envelope(msgspec.Struct, frozen=True):
    """The result of a job that is DONE."""

    output_summary: str
    output_bytes: bytes
    checksum: str
    runtime_ms: int


class Reason(msgspec.Struct, frozen=True):
    """The payload of the small job that keeps a cancel's reason."""

    job_id: str
    reason: str


class StructSignature:
    """A built-in handler's: it takes its Context and the payload as a struct, and returns a struct or nothing."""

    wants_context = True

    def __init__(self, kind: type[Any]) -> None:
        self._decode = msgspec.json.Decoder(kind).decode

    def decode(self, payload: Payload) -> dict[str, Any]:
        try:
            return {"given": self._decode(payload.data)}
        except msgspec.MsgspecError as error:
            raise PermanentError(f"the payload does not fit: {error}", code="payload_mismatch") from error

    def encode_result(self, value: Any) -> bytes | None:
        return None if value is None else msgspec.json.encode(value)


_spec_of = msgspec.json.Decoder(Spec).decode
_envelope_of = msgspec.json.Decoder(Envelope).decode


def new_job(job_id: UUID, spec: public.JobSpec, *, key: str) -> NewJob:
    labels = dict(spec.labels)
    return NewJob(
        id=job_id,
        type=TYPE,
        queue=QUEUE,
        payload=Payload(
            msgspec.json.encode(
                Spec(
                    job_type=spec.job_type,
                    work_duration_ms=spec.work_duration_ms,
                    payload_size_bytes=spec.payload_size_bytes,
                    labels=labels,
                ),
                order="sorted",
            )
        ),
        tags=_tags(spec.job_type, labels),
        key=key or None,
        retry=RETRY,
        timeouts=_timeouts(spec.work_duration_ms / 1000),
    )


def _tags(job_type: str, labels: Mapping[str, str]) -> dict[str, str]:
    # A tag has a value; a label need not. The payload has them all.
    return {**{name: value for name, value in labels.items() if value}, JOB_TYPE_TAG: job_type}


def _timeouts(work_seconds: float) -> Timeouts:
    """The engine's own, but never so short that the work it was asked for could not end."""
    least = work_seconds + SPARE_SECONDS
    if least <= DEFAULT_TIMEOUTS.execution:
        return DEFAULT_TIMEOUTS
    return Timeouts(execution=least, lifetime=DEFAULT_TIMEOUTS.lifetime + least)


def envelope(output: Output) -> Envelope:
    return Envelope(
        output_summary=output.output_summary,
        output_bytes=output.output_bytes,
        checksum=output.checksum,
        runtime_ms=output.runtime_ms,
    )


# the reason of a cancel


def new_reason(job_id: UUID, reason: str) -> NewJob:
    """The engine's cancel has no words of its own: they are kept as a small job beside the one that is canceled.

    Its ID is made from that one's, so that it is found by it, and a repeat changes nothing: the first reason stays.
    """
    return NewJob(
        id=reason_id(job_id),
        type=REASON_TYPE,
        queue=QUEUE,
        payload=Payload(msgspec.json.encode(Reason(job_id=str(job_id), reason=reason), order="sorted")),
    )


def reason_id(job_id: UUID) -> UUID:
    return UUID(bytes=sha256(REASON_TYPE.encode() + job_id.bytes).digest()[:16], version=4)


def reason_of(job: Job | None) -> str:
    if job is None or job.type != REASON_TYPE:
        return ""
    return str(job.payload.value().get("reason", ""))


# what a job is to a caller


def status_of(job: Job) -> public.JobStatus.ValueType:
    return public.JobStatus.Value(view_of(job.state, was_started=job.lease_version > 0).grpc)


def states_of(statuses: frozenset[int]) -> frozenset[State] | None:
    """The engine's states among which all jobs of these statuses are; None: all."""
    if not statuses:
        return None
    names = {public.JobStatus.Name(public.JobStatus.ValueType(status)) for status in statuses}
    found = {state for state, view in VIEWS.items() if view.grpc in names}
    if public.RUNNING in statuses:
        found |= {state for state in State if not state.is_terminal}
    return frozenset(found)


def summary_of(job: Job) -> public.JobSummary:
    status = status_of(job)
    return public.JobSummary(
        job_id=str(job.id),
        status=status,
        job_type=_spec_of(job.payload.data).job_type,
        created_at_ms=milliseconds(job.created_at),
        started_at_ms=_started_at_ms(job),
        finished_at_ms=milliseconds(job.completed_at),
        cancel_requested=_is_cancel_requested(job),
    )


def status_answer(job: Job) -> public.GetJobStatusResponse:
    status = status_of(job)
    return public.GetJobStatusResponse(
        job_id=str(job.id),
        status=status,
        cancel_requested=_is_cancel_requested(job),
        created_at_ms=milliseconds(job.created_at),
        started_at_ms=_started_at_ms(job),
        finished_at_ms=milliseconds(job.completed_at),
        failure_reason=failure_reason(job.failure) if status == public.FAILED else "",
    )


def result_answer(job: Job, *, cancel_reason: str) -> public.GetJobResultResponse | None:
    """None where a terminal job has no envelope, which should not be."""
    job_id = str(job.id)
    if not job.state.is_terminal:
        return public.GetJobResultResponse(job_id=job_id)
    if job.state is State.COMPLETED:
        return _done_answer(job)
    is_canceled = job.state is State.CANCELLED
    return public.GetJobResultResponse(
        job_id=job_id,
        result_ready=True,
        terminal_status=status_of(job),
        output_summary=canceled_summary(cancel_reason) if is_canceled else _failed_summary(job.failure),
        runtime_ms=_runtime_ms(job),
        checksum=NO_BYTES_CHECKSUM,
    )


def _done_answer(job: Job) -> public.GetJobResultResponse | None:
    try:
        found = _envelope_of(job.result or b"")
    except msgspec.MsgspecError:
        return None
    return public.GetJobResultResponse(
        job_id=str(job.id),
        result_ready=True,
        terminal_status=public.DONE,
        output_bytes=found.output_bytes,
        output_summary=found.output_summary,
        runtime_ms=found.runtime_ms,
        checksum=found.checksum,
    )


def failure_reason(failure: Failure | None) -> str:
    if failure is None:
        return "UNKNOWN"
    if failure.category is Category.SYSTEM:
        return WORKER_LOST
    return failure.code or failure.message


def _failed_summary(failure: Failure | None) -> str:
    reason = failure_reason(failure)
    said = failure.message.partition("\n")[0] if failure is not None else ""
    return said if said.startswith(reason) else failed_summary(f"{reason}: {said}" if said else reason)


def _is_cancel_requested(job: Job) -> bool:
    return job.cancel_requested or job.state is State.CANCELLED


def _started_at_ms(job: Job) -> int:
    if job.started_at is None and job.lease_version > 0:
        # Handed back by a worker that was stopped: the engine counts that as not started (ENGINEJOB-2).
        return milliseconds(job.updated_at)
    return milliseconds(job.started_at)


def _runtime_ms(job: Job) -> int:
    if job.started_at is None or job.completed_at is None:
        return 0
    return max(0, int((job.completed_at - job.started_at).total_seconds() * 1000))


def milliseconds(time: datetime | None) -> int:
    return 0 if time is None else int(time.timestamp() * 1000)
