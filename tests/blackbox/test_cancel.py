"""CancelJob: of a job that waits, runs, or has ended; once, again, and against its end."""

import random
import time
from hashlib import sha256

import pytest

from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from tests.blackbox.api import TERMINAL, Api, spec, until

RACES = 40
LONGEST_SECONDS = 0.012


def test_a_queued_job_is_canceled_at_once_and_never_runs(one: Api, blocked: list[str]) -> None:
    job_id = one.submit(spec(size=100)).job_id
    after_it = one.submit().job_id
    answer = one.cancel(job_id, "changed my mind")
    assert (answer.job_id, answer.accepted) == (job_id, True)
    assert (answer.current_status, answer.already_terminal) == (pb.CANCELED, False)
    status = one.status(job_id)
    assert (status.status, status.started_at_ms, status.failure_reason) == (pb.CANCELED, 0, "")
    assert status.finished_at_ms >= status.created_at_ms > 0
    assert status.cancel_requested
    result = one.result(job_id)
    assert (result.result_ready, result.terminal_status, result.output_bytes) == (True, pb.CANCELED, b"")
    assert "changed my mind" in result.output_summary
    assert (result.runtime_ms, result.checksum) == (0, sha256(b"").hexdigest())
    for _ in range(3):
        again = one.cancel(job_id)
        assert (again.accepted, again.current_status, again.already_terminal) == (True, pb.CANCELED, True)
    # The next in the queue has run, so its turn has come and gone.
    assert one.ended(after_it).status == pb.DONE
    assert one.status(job_id) == status
    assert one.result(job_id) == result


def test_a_canceled_job_makes_room_for_none_but_itself(one: Api, blocked: list[str]) -> None:
    """Every second one of a queue is canceled: those run not, all others do."""
    job_ids = [answer.job_id for answer in one.submit_many([spec()] * 12)]
    for job_id in job_ids[::2]:
        assert one.cancel(job_id).current_status == pb.CANCELED
    assert [one.ended(job_id).status for job_id in job_ids] == [pb.CANCELED, pb.DONE] * 6


def test_a_cancel_of_a_running_job_is_noted_and_its_end_agrees(one: Api) -> None:
    job_id = one.submit(spec(ms=300, size=10)).job_id
    one.started(job_id)
    answer = one.cancel(job_id, "no longer needed")
    assert (answer.accepted, answer.already_terminal) == (True, False)
    assert answer.current_status in (pb.RUNNING, pb.CANCELED)
    assert one.status(job_id).cancel_requested
    again = one.cancel(job_id)
    assert again.accepted
    status, result = one.ended(job_id), one.result(job_id)
    # Asked for long before the work's end, which therefore could not come first.
    assert status.status == pb.CANCELED
    assert (result.terminal_status, result.output_bytes) == (pb.CANCELED, b"")
    assert "cancel" in result.output_summary
    assert "no longer needed" in result.output_summary
    assert (status.cancel_requested, status.failure_reason) == (True, "")


@pytest.mark.parametrize(("size", "ended"), [(0, pb.DONE), (2**31, pb.FAILED)])
def test_a_job_that_has_ended_stays_as_it_is(api: Api, size: int, ended: int) -> None:
    job_id = api.done(spec(size=size))
    before = (api.status(job_id), api.result(job_id))
    for _ in range(4):
        answer = api.cancel(job_id)
        assert (answer.job_id, answer.accepted) == (job_id, True)
        assert (answer.current_status, answer.already_terminal) == (ended, True)
    assert (api.status(job_id), api.result(job_id)) == before
    assert not before[0].cancel_requested


def test_a_reason_may_be_empty_and_may_be_any_text(one: Api, blocked: list[str]) -> None:
    for reason in ("", "ünïcode ☃ 漢字 🦀", "x" * 1000):
        job_id = one.submit().job_id
        assert one.cancel(job_id, reason).current_status == pb.CANCELED
        assert reason in one.result(job_id).output_summary


def test_cancels_at_once_have_one_outcome(one: Api, blocked: list[str]) -> None:
    job_id = one.submit().job_id
    request = pb.CancelJobRequest(job_id=job_id, reason="all together")
    answers = [call.result() for call in [one.stub.CancelJob.future(request, timeout=30) for _ in range(16)]]
    assert {answer.accepted for answer in answers} == {True}
    assert one.ended(job_id).status == pb.CANCELED
    assert one.result(job_id).terminal_status == pb.CANCELED
    assert {answer.current_status for answer in answers if answer.already_terminal} <= {pb.CANCELED}


def test_a_cancel_and_the_job_s_end_agree_whichever_comes_first(api: Api) -> None:
    """The seed is in the failure: what a cancel said, the status and the envelope tell one story."""
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    api.done()  # whatever has kept the slots busy
    endings = []
    for _ in range(RACES):
        job_id = api.submit(spec(ms=chance.choice([0, 2, 5, 40]), size=10)).job_id
        time.sleep(chance.random() * LONGEST_SECONDS)
        answer = api.cancel(job_id)
        status, result = api.ended(job_id), until_ready(api, job_id)
        said = f"seed {seed}: {answer} {status} {result}"
        assert answer.accepted, said
        assert status.status in (pb.DONE, pb.CANCELED), said
        assert result.terminal_status == status.status, said
        assert len(result.output_bytes) == (10 if status.status == pb.DONE else 0), said
        if answer.already_terminal or answer.current_status in TERMINAL:
            assert answer.current_status == status.status, said
        if answer.already_terminal:
            assert not status.cancel_requested, said
        assert api.status(job_id) == status, said
        endings.append(status.status)
    assert set(endings) == {pb.DONE, pb.CANCELED}, f"seed {seed}: no race at all"


def until_ready(api: Api, job_id: str) -> pb.GetJobResultResponse:
    return until(lambda: api.result(job_id), is_so=lambda seen: seen.result_ready, what=f"had {job_id} a result")
