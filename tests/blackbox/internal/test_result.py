"""ResultInternalService: the first envelope stays, and a later one is told which."""

from hashlib import sha256
from typing import Any
from uuid import uuid4

import grpc
import pytest

from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from tests.blackbox.api import named, refusal
from tests.blackbox.internal.parts import Parts

OUTPUT = b"some bytes"


def envelope(status: int = pb.DONE, **given: Any) -> dict[str, Any]:
    return {
        "terminal_status": status,
        "runtime_ms": 12,
        "output_summary": "went well",
        "output_bytes": OUTPUT,
        "checksum": sha256(OUTPUT).hexdigest(),
        **given,
    }


def store(parts: Parts, job_id: str, **given: Any) -> tuple[bool, bool, int]:
    answer = parts.coordinator("result", "StoreResult", job_id=job_id, **given)
    return answer.stored, answer.already_exists, answer.current_terminal_status


def test_what_was_stored_is_found(parts: Parts) -> None:
    job_id = str(uuid4())
    assert store(parts, job_id, **envelope()) == (True, False, pb.DONE)
    found = parts.gateway("result", "GetResult", job_id=job_id)
    assert named(found) == {"found": True, "job_id": job_id, **envelope()}


def test_what_was_not_stored_is_not_found(parts: Parts) -> None:
    found = parts.gateway("result", "GetResult", job_id=str(uuid4()))
    assert (found.found, found.terminal_status, found.output_bytes) == (False, pb.JOB_STATUS_UNSPECIFIED, b"")


def test_the_same_envelope_can_be_stored_again(parts: Parts) -> None:
    job_id = str(uuid4())
    store(parts, job_id, **envelope())
    for _ in range(3):
        assert store(parts, job_id, **envelope()) == (True, True, pb.DONE)


@pytest.mark.parametrize("later", [pb.FAILED, pb.CANCELED])
def test_a_later_envelope_of_another_status_is_told_which_one_stands(parts: Parts, later: int) -> None:
    job_id = str(uuid4())
    store(parts, job_id, **envelope())
    assert store(parts, job_id, **envelope(later, output_bytes=b"", checksum=sha256(b"").hexdigest())) == (
        False,
        True,
        pb.DONE,
    )
    assert parts.gateway("result", "GetResult", job_id=job_id).output_bytes == OUTPUT


def test_of_envelopes_at_once_one_stands(parts: Parts) -> None:
    job_id = str(uuid4())
    statuses = [pb.DONE, pb.FAILED, pb.CANCELED] * 5
    answers = parts.each(
        "result", "StoreResult", [{"job_id": job_id, **envelope(one)} for one in statuses], caller="coordinator"
    )
    assert sum(answer.stored and not answer.already_exists for answer in answers) == 1
    assert len({answer.current_terminal_status for answer in answers}) == 1
    found = parts.gateway("result", "GetResult", job_id=job_id)
    assert found.terminal_status == answers[0].current_terminal_status


@pytest.mark.parametrize("status", [pb.JOB_STATUS_UNSPECIFIED, pb.QUEUED, pb.RUNNING, 42])
def test_an_envelope_is_of_a_terminal_status(parts: Parts, status: int) -> None:
    job_id = str(uuid4())
    error = refusal(lambda: store(parts, job_id, **envelope(status)))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert not parts.gateway("result", "GetResult", job_id=job_id).found


def test_too_large_an_output_is_not_stored(parts: Parts) -> None:
    job_id, output = str(uuid4()), b"x" * 262_145
    checksum = sha256(output).hexdigest()
    error = refusal(lambda: store(parts, job_id, **envelope(output_bytes=output, checksum=checksum)))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert not parts.gateway("result", "GetResult", job_id=job_id).found
    assert store(parts, job_id, **envelope(output_bytes=output[1:], checksum=sha256(output[1:]).hexdigest()))[0]


@pytest.mark.parametrize("method", ["StoreResult", "GetResult"])
def test_a_malformed_id_is_refused(parts: Parts, method: str) -> None:
    given = {"terminal_status": pb.CANCELED} if method == "StoreResult" else {}
    error = refusal(lambda: parts.gateway("result", method, job_id="abc", **given))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
