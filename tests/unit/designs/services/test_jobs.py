"""The job table: JOBTABLE-1 to JOBTABLE-4."""

from typing import Any
from uuid import UUID

import grpc
import pytest

from holdfast.designs.services.jobs import MOVES, JobTable
from holdfast.rpc.generated import taskqueue_internal_pb2 as internal
from holdfast.rpc.generated import taskqueue_public_pb2 as public
from holdfast.rpc.refusals import Refusal
from tests.unit.designs.services.conftest import Events
from tests.unit.designs.services.parts import LOG, SPEC, Clock, new_id

STATUSES = (public.QUEUED, public.RUNNING, public.DONE, public.FAILED, public.CANCELED)
PATHS: dict[int, list[Any]] = {
    public.QUEUED: [],
    public.RUNNING: [public.RUNNING],
    public.DONE: [public.RUNNING, public.DONE],
    public.FAILED: [public.RUNNING, public.FAILED],
    public.CANCELED: [public.CANCELED],
}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table(clock: Clock) -> JobTable:
    return JobTable(log=LOG, clock=clock.now_ms, max_keys=3)


async def create(table: JobTable, key: str = "", spec: public.JobSpec = SPEC) -> tuple[str, bool]:
    answer, is_new = await table.create_job(internal.CreateJobRequest(spec=spec, client_request_id=key))
    return answer.job_id, is_new


async def move(table: JobTable, job_id: str, old: Any, new: Any, reason: str = "") -> tuple[bool, int]:
    answer = await table.transition_job_status(
        internal.TransitionJobStatusRequest(
            job_id=job_id, expected_from_status=old, to_status=new, actor="test", reason=reason
        )
    )
    return answer.applied, answer.current_status


async def create_in(table: JobTable, status: int) -> str:
    job_id, _ = await create(table)
    at: Any = public.QUEUED
    for new in PATHS[status]:
        assert await move(table, job_id, at, new) == (True, new)
        at = new
    return job_id


async def read(table: JobTable, job_id: str) -> internal.GetJobRecordResponse:
    return await table.get_job_record(internal.GetJobRecordRequest(job_id=job_id))


async def delete(table: JobTable, job_id: str) -> internal.DeleteJobIfStatusResponse:
    return await table.delete_job_if_status(
        internal.DeleteJobIfStatusRequest(job_id=job_id, expected_status=public.QUEUED)
    )


async def listed(table: JobTable, **fields: Any) -> tuple[list[str], str]:
    answer = await table.list_job_records(internal.ListJobRecordsRequest(**fields))
    return [job.job_id for job in answer.jobs], answer.page.next_page_token


async def test_a_new_job_is_queued_with_a_uuid4_and_its_spec(table: JobTable, clock: Clock) -> None:
    job_id, is_new = await create(table)
    record = await read(table, job_id)
    assert is_new
    assert UUID(job_id).version == 4
    assert record.spec == SPEC
    assert record.summary.status == public.QUEUED
    assert record.summary.created_at_ms == clock.now_ms()
    assert (record.summary.started_at_ms, record.summary.finished_at_ms) == (0, 0)


@pytest.mark.parametrize("new", STATUSES, ids=public.JobStatus.Name)
@pytest.mark.parametrize("old", STATUSES, ids=public.JobStatus.Name)
async def test_a_status_moves_along_the_table_and_nowhere_else(
    table: JobTable, old: Any, new: Any, events: Events
) -> None:
    """JOBTABLE-1."""
    job_id = await create_in(table, old)
    if new in MOVES.get(old, ()):
        assert await move(table, job_id, old, new) == (True, new)
        return
    with pytest.raises(Refusal) as caught:
        await move(table, job_id, old, new)
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "is not a move" in caught.value.message
    assert (await read(table, job_id)).summary.status == old
    assert events.job_ids("invalid_transition") == [job_id]


async def test_the_first_terminal_status_stays_and_the_later_one_is_logged(table: JobTable, events: Events) -> None:
    """JOBTABLE-1."""
    job_id = await create_in(table, public.RUNNING)
    assert await move(table, job_id, public.RUNNING, public.CANCELED) == (True, public.CANCELED)
    assert await move(table, job_id, public.RUNNING, public.DONE) == (False, public.CANCELED)
    assert events.job_ids("transition_not_applied") == [job_id]


@pytest.mark.parametrize(
    ("old", "new"), [(public.JOB_STATUS_UNSPECIFIED, public.RUNNING), (public.QUEUED, 0), (99, public.RUNNING)]
)
async def test_a_status_that_is_none_is_an_invalid_argument(table: JobTable, old: Any, new: Any) -> None:
    """JOBTABLE-1."""
    job_id, _ = await create(table)
    with pytest.raises(Refusal) as caught:
        await move(table, job_id, old, new)
    assert caught.value.code is grpc.StatusCode.INVALID_ARGUMENT


async def test_times_and_the_reason_of_a_failure_are_kept(table: JobTable, clock: Clock) -> None:
    job_id, _ = await create(table)
    created = clock.now_ms()
    clock.advance(1)
    await move(table, job_id, public.QUEUED, public.RUNNING)
    clock.advance(-5)  # the machine's clock was set back
    await move(table, job_id, public.RUNNING, public.FAILED, "because")
    record = await read(table, job_id)
    assert record.summary.started_at_ms == created + 1000
    assert record.summary.finished_at_ms == created + 1000
    assert record.failure_reason == "because"


async def test_the_same_key_and_payload_is_the_same_job_whatever_the_order_of_labels(table: JobTable) -> None:
    """JOBTABLE-2."""
    labels = {f"key-{number}": str(number) for number in range(32)}
    first = public.JobSpec(job_type="t", labels=labels)
    again = public.JobSpec(job_type="t", labels=dict(reversed(labels.items())))
    assert list(first.labels) != list(again.labels)
    job_id, is_new = await create(table, "k", first)
    assert is_new
    assert await create(table, "k", again) == (job_id, False)


@pytest.mark.parametrize(
    "other",
    [
        {"job_type": "u"},
        {"work_duration_ms": 1},
        {"payload_size_bytes": 1},
        {"labels": {"a": "2"}},
        {"labels": {"a": "1", "b": ""}},
    ],
    ids=str,
)
async def test_the_same_key_with_another_payload_is_a_conflict(table: JobTable, other: dict[str, Any]) -> None:
    """JOBTABLE-2."""
    spec: dict[str, Any] = {"job_type": "t", "labels": {"a": "1"}}
    await create(table, "k", public.JobSpec(**spec))
    with pytest.raises(Refusal) as caught:
        await create(table, "k", public.JobSpec(**{**spec, **other}))
    assert caught.value.code is grpc.StatusCode.FAILED_PRECONDITION


async def test_without_a_key_every_call_is_a_new_job(table: JobTable) -> None:
    """JOBTABLE-2."""
    assert (await create(table))[0] != (await create(table))[0]


async def test_the_oldest_key_is_forgotten_first_even_if_it_was_used_since(table: JobTable) -> None:
    """JOBTABLE-2."""
    ids = {key: (await create(table, key))[0] for key in ("a", "b", "c")}
    assert await create(table, "a") == (ids["a"], False)
    await create(table, "d")
    assert await create(table, "b") == (ids["b"], False)
    renewed, is_new = await create(table, "a")
    assert is_new
    assert renewed != ids["a"]
    assert (await read(table, ids["a"])).summary.status == public.QUEUED


async def test_a_deleted_job_is_gone_with_its_key(table: JobTable) -> None:
    """JOBTABLE-3."""
    job_id, _ = await create(table, "k")
    assert (await delete(table, job_id)).deleted
    with pytest.raises(Refusal) as caught:
        await read(table, job_id)
    assert caught.value.code is grpc.StatusCode.NOT_FOUND
    assert await listed(table) == ([], "")
    renewed, is_new = await create(table, "k", public.JobSpec(job_type="another"))
    assert is_new
    assert renewed != job_id


async def test_a_job_of_another_status_is_not_deleted(table: JobTable) -> None:
    """JOBTABLE-3."""
    job_id = await create_in(table, public.RUNNING)
    answer = await delete(table, job_id)
    assert (answer.deleted, answer.current_status) == (False, public.RUNNING)


async def test_a_job_that_a_duplicate_was_given_is_not_deleted(table: JobTable) -> None:
    """JOBTABLE-3."""
    job_id, _ = await create(table, "k")
    await create(table, "k")
    answer = await delete(table, job_id)
    assert (answer.deleted, answer.current_status) == (False, public.QUEUED)
    assert (await read(table, job_id)).summary.job_id == job_id


async def test_deleting_a_job_does_not_forget_a_key_that_is_another_jobs_by_now(table: JobTable) -> None:
    """JOBTABLE-3."""
    old, _ = await create(table, "a")
    for key in ("b", "c", "d"):
        await create(table, key)
    new, is_new = await create(table, "a")
    assert is_new
    await delete(table, old)
    assert await create(table, "a") == (new, False)


async def test_pages_go_by_time_and_then_by_id_ascending_in_both_orders(table: JobTable, clock: Clock) -> None:
    """JOBTABLE-4."""
    batches = []
    for _ in range(3):
        batches.append(sorted([(await create(table))[0] for _ in range(4)]))
        clock.advance(1)
    up = [job_id for batch in batches for job_id in batch]
    down = [job_id for batch in reversed(batches) for job_id in batch]
    assert await listed(table, sort=public.CREATED_AT_ASC) == (up, "")
    assert await listed(table, sort=public.CREATED_AT_DESC) == (down, "")
    assert await listed(table) == (down, "")
    assert await listed(table, page=public.PageRequest(page_size=5, page_token="3")) == (down[3:8], "8")
    assert await listed(table, page=public.PageRequest(page_size=5, page_token="8")) == (down[8:], "")
    assert await listed(table, page=public.PageRequest(page_token="99")) == ([], "")


async def test_a_job_is_listed_under_the_status_that_it_has_now(table: JobTable) -> None:
    """JOBTABLE-4."""
    by_status = {status: await create_in(table, status) for status in STATUSES}
    for status in STATUSES:
        assert await listed(table, status_filter=[status]) == ([by_status[status]], "")
    some = [public.DONE, public.QUEUED, public.DONE]
    assert sorted((await listed(table, status_filter=some))[0]) == sorted(by_status[status] for status in set(some))


async def test_a_cancel_request_is_kept_until_the_job_has_ended(table: JobTable) -> None:
    job_id = await create_in(table, public.RUNNING)
    request = internal.SetCancelRequestedRequest(job_id=job_id, cancel_requested=True)
    for _ in range(2):
        answer = await table.set_cancel_requested(request)
        assert (answer.applied, answer.current_status) == (True, public.RUNNING)
    await move(table, job_id, public.RUNNING, public.DONE)
    answer = await table.set_cancel_requested(request)
    assert (answer.applied, answer.current_status) == (False, public.DONE)


@pytest.mark.parametrize(
    ("job_id", "code"), [("abc", "INVALID_ARGUMENT"), (new_id(), "NOT_FOUND")], ids=["malformed", "unknown"]
)
async def test_every_method_about_one_job_says_that_there_is_none(table: JobTable, job_id: str, code: str) -> None:
    calls = [
        read(table, job_id),
        delete(table, job_id),
        move(table, job_id, public.QUEUED, public.RUNNING),
        table.set_cancel_requested(internal.SetCancelRequestedRequest(job_id=job_id, cancel_requested=True)),
    ]
    for call in calls:
        with pytest.raises(Refusal) as caught:
            await call
        assert caught.value.code.name == code


async def test_a_job_without_a_spec_is_refused(table: JobTable) -> None:
    with pytest.raises(Refusal, match="spec is missing"):
        await table.create_job(internal.CreateJobRequest())
