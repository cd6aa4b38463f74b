"""CoordinatorInternalService, with these tests as its only worker: what is handed out, and what a report does."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import grpc
import pytest

from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from tests.blackbox.api import Api, refusal, spec
from tests.blackbox.internal.parts import Parts

HEARTBEAT_INTERVAL_MS = 1000
HINT_MIN_MS, HINT_MS, HINT_MAX_MS = 50, 200, 1000
FETCH_DEADLINE_SECONDS = 1.5


@pytest.fixture
def api(parts: Parts) -> Iterator[Api]:
    """The gateway."""
    opened = Api([parts.addresses["gateway"]])
    yield opened
    opened.close()


class Worker:
    """Speaks to the coordinator as a worker does."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.name = f"worker-{uuid4()}"

    def beat(self) -> Any:
        now = int(time.time() * 1000)
        return self.parts.worker(
            "coordinator", "WorkerHeartbeat", worker_id=self.name, heartbeat_at_ms=now, capacity_hint=1
        )

    def fetch(self) -> Any:
        request = internal.FetchWorkRequest(worker_id=self.name)
        return self.parts.call("coordinator", "FetchWork", request, caller="worker", timeout=FETCH_DEADLINE_SECONDS * 4)

    def fetch_job(self, job_id: str) -> Any:
        """The work that is handed out, which is this job."""
        for _ in range(40):
            answer = self.fetch()
            if answer.job_id == job_id:
                return answer
            if answer.assigned:  # another test has left it
                self.report(answer.job_id)
        raise AssertionError(f"{job_id} was never handed out")

    def report(self, job_id: str, outcome: int = internal.SUCCEEDED, **given: Any) -> bool:
        output = given.pop("output_bytes", b"")
        answer = self.parts.worker(
            "coordinator",
            "ReportWorkOutcome",
            worker_id=self.name,
            job_id=job_id,
            outcome=outcome,
            output_bytes=output,
            checksum=given.pop("checksum", sha256(output).hexdigest()),
            **given,
        )
        return bool(answer.accepted)


@pytest.fixture
def worker(parts: Parts) -> Worker:
    made = Worker(parts)
    made.beat()
    return made


@contextmanager
def beating(worker: Worker) -> Iterator[None]:
    over = Event()

    def beat() -> None:
        while not over.wait(HEARTBEAT_INTERVAL_MS / 1000):
            worker.beat()

    thread = Thread(target=beat)
    thread.start()
    yield
    over.set()
    thread.join()


def test_a_heartbeat_is_accepted_and_told_when_to_beat_again(worker: Worker) -> None:
    for _ in range(3):
        answer = worker.beat()
        assert (answer.accepted, answer.next_heartbeat_in_ms) == (True, HEARTBEAT_INTERVAL_MS)


def test_with_no_work_a_worker_is_told_when_to_ask_again(worker: Worker) -> None:
    while (answer := worker.fetch()).assigned:  # another test has left it
        worker.report(answer.job_id)
    assert (answer.assigned, answer.job_id) == (False, "")
    assert HINT_MIN_MS <= answer.retry_after_ms <= HINT_MAX_MS
    assert answer.retry_after_ms == HINT_MS


def test_work_is_the_job_and_its_spec_and_the_job_is_running(api: Api, worker: Worker) -> None:
    given = spec("resize", ms=7, size=9, labels={"a": "b"})
    job_id = api.submit(given).job_id
    work = worker.fetch_job(job_id)
    assert work.spec == given
    assert api.status(job_id).status == pb.RUNNING
    assert worker.report(job_id)


def test_a_worker_that_waits_gets_the_job_that_comes(api: Api, worker: Worker) -> None:
    waiting = worker.parts.future("coordinator", "FetchWork", caller="worker", worker_id=worker.name, timeout=6)
    job_id = api.submit().job_id
    work = waiting.result()
    if not work.assigned:  # had waited its time before the job was there
        work = worker.fetch_job(job_id)
    assert work.job_id == job_id
    worker.report(job_id)


def test_a_report_of_success_is_the_result_and_the_job_is_done(api: Api, worker: Worker) -> None:
    job_id = api.submit(spec(size=5)).job_id
    worker.fetch_job(job_id)
    assert worker.report(job_id, runtime_ms=33, output_bytes=b"12345", output_summary="five bytes")
    assert api.status(job_id).status == pb.DONE
    result = api.result(job_id)
    assert (result.terminal_status, result.runtime_ms) == (pb.DONE, 33)
    assert (result.output_bytes, result.output_summary) == (b"12345", "five bytes")
    assert result.checksum == sha256(b"12345").hexdigest()


def test_a_report_of_failure_says_why(api: Api, worker: Worker) -> None:
    job_id = api.submit().job_id
    worker.fetch_job(job_id)
    assert worker.report(job_id, internal.FAILED, failure_reason="disk full", output_summary="failed: disk full")
    status, result = api.status(job_id), api.result(job_id)
    assert (status.status, status.failure_reason) == (pb.FAILED, "disk full")
    assert (result.terminal_status, result.output_bytes) == (pb.FAILED, b"")
    assert "disk full" in result.output_summary


def test_the_first_report_wins(api: Api, worker: Worker) -> None:
    job_id = api.submit().job_id
    worker.fetch_job(job_id)
    worker.report(job_id, output_summary="first")
    before = api.status(job_id), api.result(job_id)
    worker.report(job_id, internal.FAILED, failure_reason="second")
    worker.report(job_id, output_summary="third")
    assert (api.status(job_id), api.result(job_id)) == before


def test_a_cancel_before_the_report_wins_over_it(api: Api, worker: Worker) -> None:
    job_id = api.submit().job_id
    worker.fetch_job(job_id)
    answer = api.cancel(job_id, "too slow")
    assert (answer.accepted, answer.current_status, answer.already_terminal) == (True, pb.RUNNING, False)
    assert worker.report(job_id, output_bytes=b"late", output_summary="done")
    status, result = api.status(job_id), api.result(job_id)
    assert (status.status, result.terminal_status, result.output_bytes) == (pb.CANCELED, pb.CANCELED, b"")
    assert "cancel" in result.output_summary


def test_a_queued_job_that_is_canceled_is_never_handed_out(api: Api, worker: Worker) -> None:
    job_id, next_one = api.submit().job_id, api.submit().job_id
    assert api.cancel(job_id).current_status == pb.CANCELED
    worker.fetch_job(next_one)
    worker.report(next_one)


def test_too_large_an_output_of_a_worker_fails_its_job(api: Api, worker: Worker) -> None:
    job_id = api.submit().job_id
    worker.fetch_job(job_id)
    worker.report(job_id, output_bytes=b"x" * 262_145)
    status, result = api.status(job_id), api.result(job_id)
    assert status.status == pb.FAILED
    assert "OUTPUT_TOO_LARGE" in status.failure_reason
    assert (result.terminal_status, result.output_bytes) == (pb.FAILED, b"")


def test_a_report_on_a_job_that_does_not_exist_is_not_found(worker: Worker) -> None:
    error = refusal(lambda: worker.report(str(uuid4())))
    assert error.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("outcome", [internal.JOB_OUTCOME_UNSPECIFIED, 9])
def test_a_report_must_say_how_it_went(api: Api, worker: Worker, outcome: int) -> None:
    job_id = api.submit().job_id
    worker.fetch_job(job_id)
    error = refusal(lambda: worker.report(job_id, outcome))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert api.status(job_id).status == pb.RUNNING
    worker.report(job_id)


@pytest.mark.parametrize("method", ["WorkerHeartbeat", "FetchWork", "ReportWorkOutcome"])
def test_a_worker_must_have_a_name(parts: Parts, method: str) -> None:
    rest = {"job_id": str(uuid4()), "outcome": internal.SUCCEEDED} if method == "ReportWorkOutcome" else {}
    error = refusal(lambda: parts.worker("coordinator", method, worker_id="", **rest))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "worker_id" in (error.details() or "")


def test_a_dead_worker_s_job_is_handed_to_another_and_stays_running_meanwhile(api: Api, worker: Worker) -> None:
    job_id = api.submit().job_id
    worker.fetch_job(job_id)  # and is never heard of again
    heir = Worker(worker.parts)
    heir.beat()
    with beating(heir):
        work = heir.fetch_job(job_id)
    assert work.job_id == job_id
    assert api.status(job_id).status == pb.RUNNING
    assert heir.report(job_id, output_summary="by the heir")
    # The dead one was only slow: its report comes second, and changes nothing.
    worker.report(job_id, internal.FAILED, failure_reason="too late")
    assert api.status(job_id).status == pb.DONE
    assert api.result(job_id).output_summary == "by the heir"
