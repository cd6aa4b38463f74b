"""Every service of Design A killed in its turn, under load.

The others say UNAVAILABLE, soon, and go on when it is back. What was accepted ends, as long as the service that keeps
it lives. What is lost with a service's memory is by design; it is counted here, and nothing else is lost.
"""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator

import grpc
import pytest

from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from tests.blackbox.api import TERMINAL, Api, code_of, new_key, refusal, spec, until
from tests.blackbox.faults.load import Load
from tests.blackbox.internal.parts import Parts

OK, UNAVAILABLE = grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE
SLOTS = 6
QUIET_SECONDS = 2.5
"""Longer than any pause between two tries of the services."""
LOOK_SECONDS = 0.02
Note = Callable[[str, object], None]
pytestmark = pytest.mark.xdist_group("blackbox-faults")


@pytest.fixture(scope="module")
def parts() -> Iterator[Parts]:
    started = Parts("job", "queue", "result", "coordinator", "gateway", "worker")
    try:
        started.start()
        yield started
    finally:
        started.close()


@pytest.fixture
def api(parts: Parts) -> Iterator[Api]:
    opened = Api([parts.addresses["gateway"]])
    yield opened
    opened.close()


def ended(api: Api, job_ids: list[str]) -> list[int]:
    return [api.ended(job_id).status for job_id in job_ids]


def test_without_its_gateway_nothing_is_answered_and_nothing_is_lost(parts: Parts, api: Api) -> None:
    with Load(api) as load:
        load.wait_for_accepted(30)
        parts.kill("gateway")
        load.wait_for_refused(20)
        parts.start("gateway")
        load.wait_for_accepted(30)
    assert set(load.submits) == set(load.reads) == {OK, UNAVAILABLE}
    assert set(ended(api, list(load.accepted.values()))) == {pb.DONE}
    load.check_canceled()


def test_without_its_worker_jobs_wait_and_those_that_ran_are_run_again(parts: Parts, api: Api) -> None:
    with Load(api, ms=50) as load:
        load.wait_for_accepted(30)
        api.started(next(reversed(load.accepted.values())))
        parts.kill("worker")
        load.wait_for_accepted(20)
        parts.start("worker")
        load.wait_for_accepted(20)
    assert set(load.submits) == set(load.reads) == {OK}
    assert set(ended(api, list(load.accepted.values()))) == {pb.DONE}
    load.check_canceled()


def test_without_its_coordinator_jobs_wait_and_nothing_is_lost(parts: Parts, api: Api) -> None:
    """What it had in its hands is given to its successor, by the queue and by the worker's heartbeats."""
    with Load(api) as load:
        load.wait_for_accepted(30)
        parts.kill("coordinator")
        load.wait_for_accepted(20)
        parts.start("coordinator")
        load.wait_for_accepted(20)
    assert set(load.submits) == set(load.reads) == {OK}
    assert set(ended(api, list(load.accepted.values()))) == {pb.DONE}
    load.check_canceled()


def test_without_its_queue_nothing_is_accepted_and_what_waited_can_be_submitted_again(
    parts: Parts, api: Api, record_property: Note
) -> None:
    """Its memory is which jobs wait. Their records live, so that the same key puts them back."""
    with Load(api) as load:
        load.wait_for_accepted(20)
        api.submit_many([spec("blocker", ms=600)] * SLOTS)
        load.wait_for_accepted(20)
        parts.kill("queue")
        load.wait_for_refused(20)
        parts.start("queue")
        load.wait_for_accepted(20)
    assert set(load.submits) == {OK, UNAVAILABLE}
    assert set(load.reads) == {OK}
    waiting = left_behind(api, load)
    record_property("lost_by_design", len(waiting))
    assert 0 < len(waiting) < len(load.accepted)
    for key, job_id in waiting:
        assert api.status(job_id).status == pb.QUEUED
        assert api.submit(load.given, key=key).job_id == job_id
    assert set(ended(api, list(load.accepted.values()))) == {pb.DONE}
    load.check_canceled(is_repeated=True)


def left_behind(api: Api, load: Load) -> list[tuple[str, str]]:
    """Keys and IDs of those that have not ended, once nothing changes any more."""
    behind = dict(load.accepted)
    changed_at = time.monotonic()
    while behind and time.monotonic() < changed_at + QUIET_SECONDS:
        now = {key: job_id for key, job_id in behind.items() if api.status(job_id).status not in TERMINAL}
        if len(now) < len(behind):
            changed_at = time.monotonic()
        behind = now
        time.sleep(LOOK_SECONDS)
    return list(behind.items())


def test_without_its_result_service_jobs_end_when_it_is_back_and_lost_results_are_said_so(
    parts: Parts, api: Api, record_property: Note
) -> None:
    """Its memory is how jobs ended. A job that is DONE and has no result is UNAVAILABLE, and an anomaly in the log."""
    with Load(api) as load:
        load.wait_for_accepted(20)
        before = list(load.accepted.values())
        for job_id in before:
            api.ended(job_id)
        parts.kill("result")
        load.wait_for_accepted(20)
        error = refusal(lambda: api.result(before[0]))
        assert error.code() is UNAVAILABLE
        parts.start("result")
        load.wait_for_accepted(20)
    assert set(load.submits) == set(load.reads) == {OK}
    assert set(ended(api, list(load.accepted.values()))) == {pb.DONE}
    load.check_canceled()
    codes = {job_id: code_of(lambda job_id=job_id: api.result(job_id)) for job_id in load.accepted.values()}  # type: ignore[misc]
    lost = [job_id for job_id, code in codes.items() if code is UNAVAILABLE]
    record_property("lost_by_design", len(lost))
    assert set(codes.values()) == {OK, UNAVAILABLE}
    assert set(before) <= set(lost)
    said = parts.log("gateway")
    anomalies = [line for line in said.splitlines() if "consistency_anomaly" in line]
    assert all(any(job_id in line for line in anomalies) for job_id in before)


def test_without_its_job_service_nothing_is_known_and_new_jobs_run_when_it_is_back(
    parts: Parts, api: Api, record_property: Note
) -> None:
    """Its memory is every job there is."""
    with Load(api) as load:
        load.wait_for_accepted(30)
        before = list(load.accepted.values())
        parts.kill("job")
        load.wait_for_refused(20)
        assert code_of(lambda: api.status(before[0])) is UNAVAILABLE
        assert code_of(lambda: api.page()) is UNAVAILABLE
        parts.start("job")
        load.wait_for_accepted(30)
    assert set(load.submits) == {OK, UNAVAILABLE}
    codes = {job_id: code_of(lambda job_id=job_id: api.status(job_id)) for job_id in load.accepted.values()}  # type: ignore[misc]
    lost = [job_id for job_id, code in codes.items() if code is grpc.StatusCode.NOT_FOUND]
    record_property("lost_by_design", len(lost))
    assert set(codes.values()) == {OK, grpc.StatusCode.NOT_FOUND}
    assert set(before) <= set(lost)
    kept = [job_id for job_id in load.accepted.values() if job_id not in set(lost)]
    assert set(ended(api, kept)) == {pb.DONE}
    load.check_canceled()


@pytest.mark.parametrize("role", ["job", "queue"])
def test_a_service_that_hangs_is_unavailable_in_bounded_time(parts: Parts, api: Api, role: str) -> None:
    pid = parts.running[role].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        request = pb.SubmitJobRequest(spec=spec("hangs"), client_request_id=new_key())
        error = refusal(lambda: api.stub.SubmitJob(request, timeout=10))
    finally:
        os.kill(pid, signal.SIGCONT)
    assert error.code() is UNAVAILABLE
    until(lambda: code_of(api.submit), is_so=lambda code: code is OK, what="was it back")
    assert api.ended(api.submit().job_id).status == pb.DONE


def test_every_answer_that_is_not_ok_is_one_json_line_with_the_contract_s_fields(parts: Parts, api: Api) -> None:
    job_id = "1b4e28ba-2fa1-4d3b-883f-0016d3cca427"
    refusal(lambda: api.cancel(job_id))
    (line,) = [line for line in parts.log("gateway").splitlines() if job_id in line]
    fields = json.loads(line)
    assert fields["ts_ms"] > 0
    assert fields["level"] in ("INFO", "info")
    assert (fields["service"], fields["method"], fields["grpc_code"]) == ("gateway", "CancelJob", "NOT_FOUND")
    assert (fields["job_id"], fields["caller"]) == (job_id, "client")
    assert {"event", "message"} <= set(fields)
