"""GetJobStatus and GetJobResult: what a job says of itself on its way, and at its end."""

import re
from hashlib import sha256

import pytest

from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from tests.blackbox.api import Api, named, spec

MAX_OUTPUT_BYTES = 262_144
NO_OUTPUT = sha256(b"").hexdigest()


def test_a_job_goes_from_queued_over_running_to_done(one: Api, blocked: list[str]) -> None:
    job_id = one.submit(spec(ms=100)).job_id
    queued = one.status(job_id)
    assert (queued.status, queued.started_at_ms, queued.finished_at_ms) == (pb.QUEUED, 0, 0)
    running = one.started(job_id)
    assert running.status == pb.RUNNING
    assert (running.started_at_ms > 0, running.finished_at_ms) == (True, 0)
    done = one.ended(job_id)
    assert (done.job_id, done.status, done.failure_reason) == (job_id, pb.DONE, "")
    assert done.created_at_ms == running.created_at_ms == queued.created_at_ms
    assert done.started_at_ms == running.started_at_ms
    assert done.created_at_ms <= done.started_at_ms <= done.finished_at_ms
    assert not done.cancel_requested


def test_a_job_that_has_not_ended_has_no_result_yet(one: Api, blocked: list[str]) -> None:
    waiting = one.submit(spec(size=7)).job_id
    for job_id in (waiting, blocked[0]):
        result = one.result(job_id)
        assert named(result) == {
            "job_id": job_id,
            "result_ready": False,
            "terminal_status": pb.JOB_STATUS_UNSPECIFIED,
            "output_bytes": b"",
            "output_summary": "",
            "runtime_ms": 0,
            "checksum": "",
        }


def test_the_result_is_there_as_soon_as_the_status_is_terminal(api: Api) -> None:
    """The envelope is written first."""
    for answer in api.submit_many([spec(size=3)] * 24):
        assert api.ended(answer.job_id).status == pb.DONE
        assert api.result(answer.job_id).result_ready


@pytest.mark.parametrize("size", [0, 1, 1000, MAX_OUTPUT_BYTES])
def test_a_result_has_as_many_bytes_as_asked_for_and_their_checksum(api: Api, size: int) -> None:
    job_id = api.done(spec(size=size))
    result = api.result(job_id)
    assert (result.job_id, result.result_ready, result.terminal_status) == (job_id, True, pb.DONE)
    assert len(result.output_bytes) == size
    assert result.checksum == sha256(result.output_bytes).hexdigest()
    assert re.fullmatch(r"[0-9a-f]{64}", result.checksum)
    assert result.output_summary


def test_the_runtime_is_that_of_the_work(api: Api) -> None:
    job_id = api.done(spec(ms=40))
    status, runtime_ms = api.status(job_id), api.result(job_id).runtime_ms
    assert runtime_ms >= 40
    assert status.finished_at_ms - status.started_at_ms >= 40 - 1  # the two are rounded


@pytest.mark.parametrize("size", [MAX_OUTPUT_BYTES + 1, 2**32 - 1])
def test_too_large_an_output_fails_the_job_and_is_not_kept(api: Api, size: int) -> None:
    job_id = api.submit(spec(size=size)).job_id
    status, result = api.ended(job_id), api.result(job_id)
    assert status.status == pb.FAILED
    assert "OUTPUT_TOO_LARGE" in status.failure_reason
    assert (result.result_ready, result.terminal_status, result.output_bytes) == (True, pb.FAILED, b"")
    assert "OUTPUT_TOO_LARGE" in result.output_summary
    assert result.checksum == NO_OUTPUT


def test_reads_can_be_repeated(api: Api) -> None:
    job_id = api.done(spec(size=100))
    assert len({api.status(job_id).SerializeToString(deterministic=True) for _ in range(12)}) == 1
    assert len({api.result(job_id).SerializeToString(deterministic=True) for _ in range(12)}) == 1


def test_a_status_never_goes_back(api: Api) -> None:
    """Looked at all the way, through every address: once RUNNING never QUEUED again, once terminal never another."""
    for answer in api.submit_many([spec(ms=10)] * 8):
        seen = [api.status(answer.job_id).status]
        while seen[-3:] != [pb.DONE] * 3:
            seen.append(api.status(answer.job_id).status)
        assert seen == sorted(seen)
