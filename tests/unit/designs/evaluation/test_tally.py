import pytest

from holdfast.designs.evaluation.histograms import Times
from holdfast.designs.evaluation.tally import Job, Tally, Window
from holdfast.rpc.generated.taskqueue_public_pb2 import DONE, FAILED, GetJobStatusResponse

OFFSET = 1_790_000_000.0


def tally() -> Tally:
    return Tally(Window(opens_at=100.0, closes_at=110.0, wall_offset=OFFSET), targets=2)


def wall_ms(at: float) -> int:
    return round((at + OFFSET) * 1000)


def ended(at: float, status: int = DONE) -> GetJobStatusResponse:
    return GetJobStatusResponse(
        status=status,  # type: ignore[arg-type]
        created_at_ms=wall_ms(at) - 30,
        started_at_ms=wall_ms(at) - 10,
        finished_at_ms=wall_ms(at),
    )


def test_only_calls_that_count_are_timed() -> None:
    one = tally()
    one.note("submit", began_at=99.99, ended_at=100.01, counts=True)
    one.note("submit", began_at=99.0, ended_at=99.5, counts=False)
    data = one.data()
    assert data["calls"] == {"submit": 1, "status": 0, "result": 0}
    assert Times.decode(data["times"]["submit"]).milliseconds(50) == pytest.approx(20, rel=0.01)


def test_a_job_is_timed_from_its_submit_to_its_end() -> None:
    one = tally()
    job = Job("x", 101.0, True)
    one.jobs.append(job)
    one.end(job, ended(101.25))
    data = one.data()
    assert Times.decode(data["submit_to_done"]).milliseconds(50) == pytest.approx(250, rel=0.01)
    assert Times.decode(data["queue_wait"]).milliseconds(50) == pytest.approx(20, rel=0.01)
    assert data["done_in_window"] == 1


def test_jobs_count_by_when_they_were_done_and_are_timed_by_when_they_began() -> None:
    one = tally()
    early, late = Job("early", 99.0, False), Job("late", 109.9, True)
    one.jobs += [early, late]
    one.end(early, ended(100.5))
    one.end(late, ended(111.0))
    data = one.data()
    assert data["done_in_window"] == 1
    assert Times.decode(data["submit_to_done"]).count == 1
    assert Times.decode(data["submit_to_done"]).milliseconds(50) == pytest.approx(1100, rel=0.01)


def test_every_accepted_job_has_an_end_or_is_unknown() -> None:
    one = tally()
    done, failed, left = Job("1", 101.0, True), Job("2", 101.0, True), Job("3", 101.0, True)
    one.jobs += [done, failed, left]
    one.end(done, ended(102.0))
    one.end(failed, ended(102.0, FAILED))
    data = one.data()
    assert data["accepted"] == sum(data["ends"].values()) == 3
    assert data["ends"] == {"done": 1, "failed": 1, "unknown": 1}
    assert data["done_in_window"] == 1


def test_errors_are_counted_by_operation_and_code() -> None:
    one = tally()
    one.error("submit", "UNAVAILABLE")
    one.error("submit", "UNAVAILABLE")
    one.error("status", "NOT_FOUND")
    assert one.data()["errors"] == {"submit UNAVAILABLE": 2, "status NOT_FOUND": 1}
