"""A v1 job as the engine's, and what is read from it. ENGINEJOB-1 to ENGINEJOB-3."""

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from holdfast.core.checks import require_valid_submit
from holdfast.core.commands import Submit
from holdfast.core.decisions import CANCEL, LEASE_EXPIRED, LIFETIME_OVER, WORKER_LOST
from holdfast.core.failures import Category, Failure
from holdfast.core.job import DEFAULT_TIMEOUTS, Job
from holdfast.core.payload import Payload
from holdfast.core.priority import Priority
from holdfast.core.states import State
from holdfast.rpc import engine_jobs, limits
from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from holdfast.rpc.work import do_work

NOW = datetime(2026, 11, 16, 12, 0, 0, 123456, tzinfo=UTC)
NOW_MS = 1794830400123
STATUSES = {
    State.PENDING: pb.QUEUED,
    State.DELAYED: pb.QUEUED,
    State.SCHEDULED: pb.QUEUED,
    State.RETRYING: pb.RUNNING,
    State.RUNNING: pb.RUNNING,
    State.COMPLETED: pb.DONE,
    State.FAILED: pb.FAILED,
    State.DEAD_LETTER: pb.FAILED,
    State.CANCELLED: pb.CANCELED,
}
LARGEST = pb.JobSpec(
    job_type="☃" * limits.MAX_JOB_TYPE_CHARACTERS,
    work_duration_ms=2**32 - 1,
    payload_size_bytes=2**32 - 1,
    labels={
        f"{number:0{limits.MAX_LABEL_KEY_CHARACTERS}}": "☃" * limits.MAX_LABEL_VALUE_CHARACTERS
        for number in range(limits.MAX_LABELS)
    },
)


def job(state: State = State.SCHEDULED, **given: Any) -> Job:
    new = engine_jobs.new_job(uuid4(), pb.JobSpec(job_type="resize"), key="")
    known: dict[str, Any] = {
        "id": new.id,
        "type": new.type,
        "queue": new.queue,
        "payload": new.payload,
        "priority": Priority.NORMAL,
        "state": state,
        "created_at": NOW,
        "updated_at": NOW,
        "timeouts": new.timeouts,
        "retry": new.retry,
        "tags": new.tags,
        "dependencies": (),
        "cancel_requested": False,
        **dict.fromkeys(("seq", "attempt", "replays", "depth", "lease_version"), 0),
    }
    return Job(**{**{one.name: None for one in fields(Job)}, **known, **given})


@pytest.mark.parametrize("spec", [pb.JobSpec(job_type="x"), LARGEST], ids=["smallest", "largest"])
def test_what_passes_the_checks_the_engine_takes(spec: pb.JobSpec) -> None:
    key = "k" * limits.MAX_CLIENT_REQUEST_ID_CHARACTERS
    made = engine_jobs.new_job(uuid4(), spec, key=key)
    require_valid_submit(Submit(jobs=(made,)))
    assert (made.key, made.tags["job_type"]) == (key, spec.job_type)
    require_valid_submit(Submit(jobs=(engine_jobs.new_reason(uuid4(), "☃" * limits.MAX_REASON_CHARACTERS),)))


def test_the_order_of_labels_makes_no_other_payload() -> None:
    made = [
        engine_jobs.new_job(uuid4(), pb.JobSpec(job_type="x", labels=labels), key="").payload
        for labels in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}, {"a": "1", "b": "3"})
    ]
    assert made[0].digest() == made[1].digest() != made[2].digest()


def test_no_key_is_no_key() -> None:
    assert engine_jobs.new_job(uuid4(), pb.JobSpec(job_type="x"), key="").key is None


def test_a_lost_worker_s_job_is_run_again_as_often_as_in_the_designs() -> None:
    assert engine_jobs.RETRY.max_attempts == 1 + limits.MAX_REDELIVERIES


def test_long_work_has_the_time_it_needs() -> None:
    short, long = (
        engine_jobs.new_job(uuid4(), pb.JobSpec(job_type="x", work_duration_ms=ms), key="").timeouts
        for ms in (1000, 7_200_000)
    )
    assert short is DEFAULT_TIMEOUTS
    assert long.execution > 7200
    assert long.lifetime > DEFAULT_TIMEOUTS.lifetime


@pytest.mark.parametrize("state", State)
def test_a_state_is_one_of_the_five(state: State) -> None:
    assert engine_jobs.status_of(job(state)) == STATUSES[state]


@pytest.mark.parametrize("state", [state for state in State if not state.is_terminal])
def test_a_job_once_started_reads_running(state: State) -> None:
    started = job(state, lease_version=1, updated_at=NOW + timedelta(seconds=1))
    assert engine_jobs.status_of(started) == pb.RUNNING
    assert engine_jobs.summary_of(started).started_at_ms == NOW_MS + 1000


@pytest.mark.parametrize("status", sorted(set(pb.JobStatus.values()) - {0}))
def test_a_filter_s_states_hold_every_job_of_the_status(status: int) -> None:
    asked = engine_jobs.states_of(frozenset({status}))
    assert asked is not None
    for state in State:
        for version in (0, 1):
            if engine_jobs.status_of(job(state, lease_version=version)) == status:
                assert state in asked


def test_no_filter_is_every_state() -> None:
    assert engine_jobs.states_of(frozenset()) is None


def test_times_are_milliseconds_and_nothing_is_zero() -> None:
    listed = engine_jobs.summary_of(job())
    assert (listed.created_at_ms, listed.started_at_ms, listed.finished_at_ms) == (NOW_MS, 0, 0)
    assert (listed.job_type, listed.status, listed.cancel_requested) == ("resize", pb.QUEUED, False)


async def test_an_envelope_is_read_as_it_was_kept() -> None:
    output = await do_work(pb.JobSpec(job_type="x", payload_size_bytes=1000))
    kept = msgspec.json.encode(engine_jobs.envelope(output))
    answer = engine_jobs.result_answer(job(State.COMPLETED, result=kept), cancel_reason="")
    assert answer is not None
    assert (answer.result_ready, answer.terminal_status) == (True, pb.DONE)
    assert (answer.output_bytes, answer.checksum) == (output.output_bytes, output.checksum)
    assert answer.output_summary == output.output_summary


@pytest.mark.parametrize("result", [None, b"", b"null", b'"text"', b"{}", b"\xff"])
def test_an_end_whose_envelope_cannot_be_read_has_none(result: bytes | None) -> None:
    assert engine_jobs.result_answer(job(State.COMPLETED, result=result), cancel_reason="") is None


@pytest.mark.parametrize("state", [state for state in State if not state.is_terminal])
def test_a_job_that_has_not_ended_has_no_result(state: State) -> None:
    waiting = job(state)
    answer = engine_jobs.result_answer(waiting, cancel_reason="")
    assert answer == pb.GetJobResultResponse(job_id=str(waiting.id))


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (
            Failure(category=Category.PERMANENT, message="OUTPUT_TOO_LARGE: …", code="OUTPUT_TOO_LARGE"),
            "OUTPUT_TOO_LARGE",
        ),
        (WORKER_LOST, "WORKER_LOST"),
        (LEASE_EXPIRED, "WORKER_LOST"),
        (LIFETIME_OVER, "lifetime"),
        (Failure(category=Category.PERMANENT, message="boom"), "boom"),
        (None, "UNKNOWN"),
    ],
)
def test_a_failure_says_why_in_status_and_envelope(failure: Failure | None, reason: str) -> None:
    failed = job(State.DEAD_LETTER, failure=failure, completed_at=NOW)
    assert engine_jobs.status_answer(failed).failure_reason == reason
    answer = engine_jobs.result_answer(failed, cancel_reason="")
    assert answer is not None
    assert (answer.result_ready, answer.terminal_status, answer.output_bytes) == (True, pb.FAILED, b"")
    assert reason in answer.output_summary
    assert answer.checksum == sha256(b"").hexdigest()


def test_a_cancel_says_why_and_is_no_failure() -> None:
    started = NOW - timedelta(milliseconds=250)
    canceled = job(State.CANCELLED, failure=CANCEL, started_at=started, completed_at=NOW, lease_version=1)
    status = engine_jobs.status_answer(canceled)
    assert (status.status, status.failure_reason, status.cancel_requested) == (pb.CANCELED, "", True)
    answer = engine_jobs.result_answer(canceled, cancel_reason="no longer needed")
    assert answer is not None
    assert (answer.output_summary, answer.runtime_ms) == ("canceled: no longer needed", 250)
    assert answer.checksum == sha256(b"").hexdigest()


def test_a_reason_is_found_by_its_job_and_is_nobody_else_s() -> None:
    job_id = uuid4()
    kept = engine_jobs.new_reason(job_id, "because")
    assert kept.id == engine_jobs.reason_id(job_id) != engine_jobs.reason_id(uuid4())
    assert UUID(str(kept.id)).version == 4
    assert engine_jobs.reason_of(job(id=kept.id, type=kept.type, payload=kept.payload)) == "because"
    assert engine_jobs.reason_of(None) == ""
    assert engine_jobs.reason_of(job(type="other", payload=Payload.of({"reason": "x"}))) == ""
