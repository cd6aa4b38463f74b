"""ListJobs: order, filters, pages and their edges. Through one address: Design B lists a node's own jobs."""

from collections import Counter

import grpc
import pytest

from holdfast.rpc.generated import taskqueue_public_pb2 as pb
from tests.blackbox.api import Api, named, new_key, refusal, spec

MAX_BURSTS = 20
BAD_TOKENS = ["abc", "-1", "1.5", "+1", " 1", "1 ", "0x10", "1_0", "\u0661", "\u00b2", "1e3", "-0", "9" * 40, "NaN"]


@pytest.fixture
def many(one: Api) -> list[pb.JobSummary]:
    """More jobs than three pages of the default size, all ended: nothing moves while a test looks."""
    missing = 160 - len(one.page(size=200).jobs)
    for answer in one.submit_many([spec("listed")] * max(0, missing)):
        one.ended(answer.job_id)
    settle(one)
    return one.walk()


def settle(one: Api) -> None:
    for status in (pb.QUEUED, pb.RUNNING):
        for job in one.walk(statuses=[status]):
            one.ended(job.job_id)


def newest_first(job: pb.JobSummary) -> tuple[int, str]:
    return -job.created_at_ms, job.job_id


def oldest_first(job: pb.JobSummary) -> tuple[int, str]:
    return job.created_at_ms, job.job_id


def ids(jobs: list[pb.JobSummary]) -> list[str]:
    return [job.job_id for job in jobs]


def test_a_listed_job_says_what_its_status_says(one: Api) -> None:
    job_id = one.done(spec("summary"))
    status = one.status(job_id)
    (listed,) = [job for job in one.page().jobs if job.job_id == job_id]
    assert named(listed) == {
        "job_id": job_id,
        "status": pb.DONE,
        "job_type": "summary",
        "created_at_ms": status.created_at_ms,
        "started_at_ms": status.started_at_ms,
        "finished_at_ms": status.finished_at_ms,
        "cancel_requested": False,
    }


def test_the_newest_come_first_unless_asked_otherwise(one: Api, many: list[pb.JobSummary]) -> None:
    assert many == sorted(many, key=newest_first)
    assert one.walk(sort=pb.CREATED_AT_DESC) == many
    oldest = one.walk(sort=pb.CREATED_AT_ASC)
    assert oldest == sorted(many, key=oldest_first)


def test_jobs_of_one_millisecond_are_in_the_order_of_their_ids(one: Api) -> None:
    """In both directions of the time."""
    for _ in range(MAX_BURSTS):
        answers = one.submit_many([spec("tie")] * 50)
        mine = {answer.job_id for answer in answers}
        listed = [job for job in one.walk() if job.job_id in mine]
        if max(Counter(job.created_at_ms for job in listed).values()) > 1:
            break
    else:
        pytest.fail("no two jobs were created in one millisecond")
    settle(one)
    assert ids(listed) == ids(sorted(listed, key=newest_first))
    upwards = [job for job in one.walk(sort=pb.CREATED_AT_ASC) if job.job_id in mine]
    assert ids(upwards) == ids(sorted(listed, key=oldest_first))


@pytest.mark.parametrize(("size", "given"), [(0, 50), (1, 1), (50, 50), (137, 137)])
def test_a_page_has_the_size_asked_for(one: Api, many: list[pb.JobSummary], size: int, given: int) -> None:
    page = one.page(size=size)
    assert list(page.jobs) == many[:given]
    assert page.page.next_page_token == str(given)


@pytest.mark.parametrize("size", [200, 201, 10_000, 2**32 - 1])
def test_a_page_has_two_hundred_jobs_at_most(one: Api, size: int) -> None:
    missing = 201 - len(one.walk())
    one.submit_many([spec("listed")] * max(0, missing))
    settle(one)
    page = one.page(size=size)
    assert len(page.jobs) == 200
    assert page.page.next_page_token == "200"


@pytest.mark.parametrize("size", [7, 50, 200])
@pytest.mark.parametrize("sort", [pb.CREATED_AT_DESC, pb.CREATED_AT_ASC])
def test_walking_all_pages_sees_each_job_once(
    one: Api, many: list[pb.JobSummary], size: int, sort: "pb.JobSort.ValueType"
) -> None:
    walked = one.walk(size=size, sort=sort)
    assert len(walked) == len(many)
    assert set(ids(walked)) == set(ids(many))


def test_the_last_page_has_no_next_token(one: Api, many: list[pb.JobSummary]) -> None:
    end = len(many)
    for offset in (end - 3, end - 2):
        page = one.page(size=2, token=str(offset))
        assert list(page.jobs) == many[offset : offset + 2]
        assert page.page.next_page_token == (str(end - 1) if offset == end - 3 else "")


@pytest.mark.parametrize("beyond", [0, 1, 10**6, 10**15])
def test_beyond_the_end_is_an_empty_last_page(one: Api, many: list[pb.JobSummary], beyond: int) -> None:
    page = one.page(token=str(len(many) + beyond))
    assert (list(page.jobs), page.page.next_page_token) == ([], "")


def test_a_token_is_an_offset(one: Api, many: list[pb.JobSummary]) -> None:
    for token in ("0", "1", "00", "007", "150"):
        assert list(one.page(token=token, size=5).jobs) == many[int(token) : int(token) + 5]


@pytest.mark.parametrize("token", BAD_TOKENS)
def test_a_token_that_is_no_offset_is_refused(one: Api, token: str) -> None:
    error = refusal(lambda: one.page(token=token))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "page_token" in (error.details() or "")


def test_a_filter_keeps_the_statuses_it_names(one: Api, blocked: list[str]) -> None:
    canceled, queued = one.submit().job_id, one.submit().job_id
    one.cancel(canceled)
    listed = {
        status: {job.job_id for job in one.walk(statuses=[status])} for status in (pb.QUEUED, pb.RUNNING, pb.CANCELED)
    }
    assert queued in listed[pb.QUEUED]
    assert set(blocked) == listed[pb.RUNNING]
    assert canceled in listed[pb.CANCELED]
    both = {job.job_id for job in one.walk(statuses=[pb.QUEUED, pb.RUNNING])}
    assert both == listed[pb.QUEUED] | listed[pb.RUNNING]


def test_filters_part_the_whole(one: Api, many: list[pb.JobSummary]) -> None:
    one.done(spec(size=2**31))
    settle(one)
    whole = one.walk()
    parts = [one.walk(statuses=[status], size=33) for status in (pb.DONE, pb.FAILED, pb.CANCELED)]
    assert sorted(ids(whole)) == sorted(job_id for part in parts for job_id in ids(part))
    for part, status in zip(parts, (pb.DONE, pb.FAILED, pb.CANCELED), strict=True):
        assert {job.status for job in part} <= {status}
        assert part == [job for job in whole if job.status == status]
    assert one.walk(statuses=[pb.DONE, pb.FAILED, pb.CANCELED]) == whole
    assert one.walk(statuses=[pb.DONE, pb.DONE]) == parts[0]


@pytest.mark.parametrize("status", [pb.JOB_STATUS_UNSPECIFIED, 6, 99, -1])
def test_a_status_that_is_none_cannot_be_filtered_by(one: Api, status: int) -> None:
    error = refusal(lambda: one.page(statuses=[pb.DONE, status]))  # type: ignore[list-item]
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "status_filter" in (error.details() or "")


def test_a_sort_that_is_none_is_refused(one: Api) -> None:
    error = refusal(lambda: one.page(sort=99))  # type: ignore[arg-type]
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "sort" in (error.details() or "")


def test_a_request_with_nothing_in_it_is_the_first_page(one: Api, many: list[pb.JobSummary]) -> None:
    answer = one.stub.ListJobs(pb.ListJobsRequest(), timeout=30)
    assert list(answer.jobs) == many[:50]


def test_a_job_is_listed_as_soon_as_it_is_accepted(one: Api) -> None:
    job_id = one.submit().job_id
    assert job_id in ids(list(one.page(size=1).jobs))


def test_a_job_is_listed_at_one_address_only(api: Api) -> None:
    """Wherever it was submitted, with a key or without: so that adding the lists up counts each job once."""
    job_ids = [api.submit(key=key).job_id for key in [new_key() for _ in range(6)] + [""] * 6]
    seen = Counter(job_id for one in api.each() for job_id in ids(list(one.page(size=200).jobs)))
    assert [seen[job_id] for job_id in job_ids] == [1] * 12
