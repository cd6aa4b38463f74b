"""From a call to a stored job, and back to a result."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from holdfast import (
    Holdfast,
    IdempotencyConflict,
    InvalidInput,
    JobCancelled,
    JobFailed,
    JobNotFound,
    Middleware,
    State,
    Unavailable,
    UsageError,
)
from holdfast.core.commands import CancelOutcome, NewJob, Submitted
from holdfast.core.errors import Fault
from holdfast.core.failures import Category
from holdfast.core.payload import Payload
from holdfast.core.priority import Priority
from holdfast.stores.memory import MemoryStore
from holdfast.testing.faults import FaultKind, FaultyStore, PlannedFault
from holdfast.worker.middleware import Submit
from tests.integration.app.conftest import Jobs

PATIENCE = timedelta(seconds=60)

MANY = 800


# submit


async def test_a_submitted_job_is_stored_as_it_was_called(opened: Jobs) -> None:
    handle = await opened.add.submit(1, b=2)
    job = await handle.job()
    assert (job.id, job.type, job.queue, job.state) == (handle.id, "add", "default", State.SCHEDULED)
    assert job.payload.value() == {"a": 1, "b": 2}
    assert not handle.is_duplicate


async def test_jobs_are_listed_by_their_group(opened: Jobs) -> None:
    mine = await opened.add.options(group="customer 7").submit(1)
    many = await opened.app.submit_many(opened.add.options(group=name).call(1) for name in ("customer 7", "other"))
    await opened.add.submit(1)
    page = await opened.app.list(group="customer 7")
    assert {job.id for job in page.jobs} == {mine.id, many[0].id}
    assert {job.group for job in page.jobs} == {"customer 7"}
    assert (await opened.app.list(group="nobody's")).jobs == ()
    with pytest.raises(InvalidInput, match="group"):
        await opened.add.options(group="x" * 256).submit(1)
    with pytest.raises(InvalidInput, match="group"):
        await opened.app.list(group="")


async def test_options_are_stored(opened: Jobs) -> None:
    first = await opened.add.submit(1)
    handle = await opened.add.options(delay=60, key="order-7", after=[first], tags={"a": "b"}).submit(1)
    job = await handle.job()
    assert (job.state, job.key, job.tags) == (State.PENDING, "order-7", {"a": "b"})
    assert [one.job_id for one in job.dependencies] == [first.id]


async def test_a_repeat_with_the_key_gives_the_job_that_exists(opened: Jobs) -> None:
    keyed = opened.add.options(key="order-7")
    first, again = await keyed.submit(1), await keyed.submit(1)
    assert first == again
    assert (first.is_duplicate, again.is_duplicate) == (False, True)
    with pytest.raises(IdempotencyConflict):
        await keyed.submit(2)


async def test_wrong_arguments_store_nothing(opened: Jobs) -> None:
    wrong: Any = opened.add
    for arguments in ((), (1, 2, 3), ("one",), (object(),)):
        with pytest.raises((TypeError, InvalidInput)):
            await wrong.submit(*arguments)
    assert (await opened.app.list()).jobs == ()


async def test_submits_at_the_same_time_are_all_accepted(opened: Jobs) -> None:
    handles = await asyncio.gather(*(opened.add.submit(n) for n in range(100)))
    assert len({handle.id for handle in handles}) == 100
    assert len((await opened.app.list(limit=1000)).jobs) == 100


async def test_a_payload_above_the_apps_limit_is_refused(url: str) -> None:
    app = Holdfast(url, payload_limit=20)
    say = app.job(name="say")(lambda text: None)
    async with app:
        await say.submit("short")
        with pytest.raises(InvalidInput, match="limit: 20 bytes"):
            await say.submit("long enough to be refused")


# submit_many


async def test_many_are_accepted_together(opened: Jobs) -> None:
    handles = await opened.app.submit_many([opened.add.call(n) for n in range(5)])
    payloads = [(await handle.job()).payload.value() for handle in handles]
    assert payloads == [{"a": n} for n in range(5)]
    assert await opened.app.submit_many([]) == []


async def test_many_of_several_kinds_keep_their_order(opened: Jobs) -> None:
    calls = [opened.add.call(0), opened.resize.call("a.png"), opened.add.options(priority=Priority.LOW).call(2)]
    handles = await opened.app.submit_many(calls)
    jobs = [await handle.job() for handle in handles]
    assert [job.id for job in jobs] == [call.id for call in calls]
    assert [(job.type, job.priority) for job in jobs] == [
        ("add", Priority.NORMAL),
        ("resize", Priority.NORMAL),
        ("add", Priority.LOW),
    ]


async def test_a_large_batch_is_accepted_whole_and_in_order(opened: Jobs) -> None:
    handles = await opened.app.submit_many(opened.add.call(n) for n in range(MANY))
    assert len({handle.id for handle in handles}) == MANY
    for n in (0, 1, MANY // 2, MANY - 1):
        assert (await handles[n].job()).payload.value() == {"a": n}


@pytest.mark.parametrize("count", [1, 2, 100])
@pytest.mark.parametrize("kind", [list, iter], ids=["list", "iterator"])
async def test_a_batch_of_any_size_is_accepted_whole(opened: Jobs, count: int, kind: Callable[..., Any]) -> None:
    calls = [opened.add.call(n) for n in range(count)]
    handles = await opened.app.submit_many(kind(calls))
    assert [handle.id for handle in handles] == [call.id for call in calls]
    assert (await handles[-1].job()).payload.value() == {"a": count - 1}


CALLERS_ERRORS = [
    RuntimeError("no more"),
    TimeoutError("no more"),
    Unavailable("no more"),
    InvalidInput([Fault(field="a", problem="no more")]),
]


@pytest.mark.parametrize("error", CALLERS_ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("made", [0, MANY - 10], ids=["at once", "late"])
async def test_a_batch_that_cannot_be_made_leaves_nothing(opened: Jobs, made: int, error: Exception) -> None:
    """Whatever the caller's own code raises comes back to it, and no part of the batch is accepted."""

    def calls() -> Iterator[Any]:
        for n in range(MANY):
            if n == made:
                raise error
            yield opened.add.call(n)

    with pytest.raises(type(error), match="no more") as raised:
        await opened.app.submit_many(calls())
    assert raised.value is error
    assert (await opened.app.list()).jobs == ()


async def test_one_bad_item_refuses_all(opened: Jobs) -> None:
    bad = opened.add.options(queue="").call(1)
    with pytest.raises(InvalidInput, match="job 1: queue"):
        await opened.app.submit_many([opened.add.call(0), bad, opened.add.call(2)])
    assert (await opened.app.list()).jobs == ()


async def test_a_batch_with_a_key_is_found_again_as_a_whole(opened: Jobs) -> None:
    def calls(count: int) -> list[Any]:
        return [opened.add.call(n) for n in range(count)]

    first = await opened.app.submit_many(calls(3), key="batch")
    again = await opened.app.submit_many(calls(3), key="batch")
    assert [handle.id for handle in first] == [handle.id for handle in again]
    assert all(handle.is_duplicate for handle in again)
    assert [(await handle.job()).key for handle in first] == ["batch#0", "batch#1", "batch#2"]
    with pytest.raises(IdempotencyConflict):
        await opened.app.submit_many(calls(4), key="batch")


async def test_a_large_batch_with_a_key_is_found_again_as_a_whole(opened: Jobs) -> None:
    def calls() -> Iterator[Any]:
        return (opened.add.call(n) for n in range(100))

    first = await opened.app.submit_many(calls(), key="batch")
    again = await opened.app.submit_many(calls(), key="batch")
    assert [handle.id for handle in first] == [handle.id for handle in again]
    assert all(handle.is_duplicate for handle in again)


async def test_a_call_that_is_submitted_again_is_the_same_job(opened: Jobs) -> None:
    """After an error that leaves open whether it was accepted, the same call can be submitted without fear."""
    call = opened.add.call(1)
    await opened.app.submit_many([call])
    (handle,) = await opened.app.submit_many([call])
    assert handle.id == call.id
    assert len((await opened.app.list()).jobs) == 1


async def test_jobs_of_a_batch_may_wait_for_each_other(opened: Jobs) -> None:
    first = opened.add.call(1)
    second = opened.add.options(after=[first]).call(2)
    _, waiting = await opened.app.submit_many([first, second])
    assert (await waiting.job()).state is State.PENDING


async def test_a_batch_with_two_kinds_of_keys_is_refused(opened: Jobs) -> None:
    with pytest.raises(UsageError, match="has the key 'own' of its own"):
        await opened.app.submit_many([opened.add.options(key="own").call(1)], key="batch")


async def test_calls_go_to_their_own_app(opened: Jobs, url: str) -> None:
    other = Jobs(url)
    with pytest.raises(UsageError, match="another app"):
        await opened.app.submit_many([other.add.call(1)])
    with pytest.raises(UsageError, match="several apps"):
        await opened.app.submit_many([other.add.call(1), opened.add.call(1)])


# by name


async def test_a_job_can_be_submitted_by_name_alone(opened: Jobs) -> None:
    handle = await opened.app.submit("elsewhere", {"x": [1, None]}, queue="q", delay=timedelta(minutes=1))
    job = await handle.job()
    assert (job.type, job.queue, job.state) == ("elsewhere", "q", State.DELAYED)
    assert job.payload.value() == {"x": [1, None]}
    assert (await (await opened.app.submit("elsewhere")).job()).payload.value() == {}
    raw = await opened.app.submit("elsewhere", Payload.of_bytes(b"\0"))
    assert (await raw.job()).payload == Payload.of_bytes(b"\0")


async def test_a_known_type_is_submitted_by_name_as_by_function(opened: Jobs) -> None:
    job = await (await opened.app.submit("resize", {"path": "a.png"})).job()
    assert job.queue == "media"
    with pytest.raises(InvalidInput, match="unknown field `pth`"):
        await opened.app.submit("resize", {"pth": "a.png"})
    with pytest.raises(UsageError, match="limit 1800 s"):
        await opened.app.submit("elsewhere", timeout=1801)


async def test_a_payload_that_is_no_mapping_is_refused(opened: Jobs) -> None:
    wrong: Any = ["a.png"]
    with pytest.raises(UsageError, match="mapping of parameter names"):
        await opened.app.submit("elsewhere", wrong)


# results


async def test_a_result_is_what_the_function_returned(opened: Jobs) -> None:
    async with opened.app.worker():
        assert await (await opened.add.submit(1, 2)).result(timeout=PATIENCE) == 3
        assert await (await opened.app.submit("add", {"a": 5})).result(timeout=PATIENCE) == 5
        finished = await opened.resize.submit("a.png")
        assert await finished.result(timeout=PATIENCE) == "a.png"
    assert await opened.resize.handle(finished.id).result() == "a.png"
    assert await opened.app.handle(str(finished.id)).result() == "a.png"


async def test_many_results_are_awaited_at_once(opened: Jobs) -> None:
    async with opened.app.worker(concurrency=20):
        handles = await opened.app.submit_many([opened.add.call(n) for n in range(200)])
        assert await asyncio.gather(*(one.result(timeout=PATIENCE) for one in handles)) == list(range(200))


async def test_a_failed_job_raises_why(opened: Jobs) -> None:
    async with opened.app.worker():
        handle = await opened.fail.submit("no such customer")
        with pytest.raises(JobFailed, match=f"job {handle.id} ended FAILED: PERMANENT, .*no such customer") as error:
            await handle.result(timeout=PATIENCE)
    assert (error.value.job_id, error.value.state) == (handle.id, State.FAILED)
    assert error.value.failure is not None
    assert error.value.failure.category is Category.PERMANENT


async def test_a_cancelled_job_raises_that(opened: Jobs) -> None:
    handle = await opened.add.submit(1)
    assert (await handle.cancel()).outcome is CancelOutcome.CANCELLED
    assert (await handle.cancel()).outcome is CancelOutcome.ALREADY_ENDED
    with pytest.raises(JobCancelled):
        await handle.result(timeout=PATIENCE)


async def test_a_result_that_does_not_come_is_a_timeout_and_the_job_goes_on(opened: Jobs) -> None:
    handle = await opened.add.submit(1)
    with pytest.raises(TimeoutError, match=f"job {handle.id} has not ended within 0.02 s"):
        await handle.result(timeout=0.02)
    assert (await handle.job()).state is State.SCHEDULED


async def test_a_timeout_of_nothing_asks_once(opened: Jobs) -> None:
    handle = await opened.add.submit(1, 2)
    with pytest.raises(TimeoutError, match="has not ended: it is SCHEDULED"):
        await handle.result(timeout=0)
    async with opened.app.worker():
        await handle.result(timeout=PATIENCE)
    assert await handle.result(timeout=0) == 3
    assert await asyncio.to_thread(handle.result_sync, 0) == 3


async def test_an_unknown_job_is_not_found(opened: Jobs) -> None:
    handle = opened.add.handle(uuid4())
    with pytest.raises(JobNotFound):
        await handle.result(timeout=PATIENCE)
    with pytest.raises(JobNotFound):
        await handle.job()
    with pytest.raises(JobNotFound):
        await handle.cancel()


# middleware


class Tagging(Middleware):
    def __init__(self, name: str, calls: list[str]) -> None:
        self.name = name
        self.calls = calls

    async def submit(self, jobs: Sequence[NewJob], proceed: Submit) -> tuple[Submitted, ...]:
        self.calls.append(f"{self.name} before {len(jobs)}")
        for job in jobs:
            job.tags = {**job.tags, self.name: "yes"}
        answers = await proceed()
        self.calls.append(f"{self.name} after {len(answers)}")
        return answers


class Refusing(Middleware):
    async def submit(self, jobs: Sequence[NewJob], proceed: Submit) -> tuple[Submitted, ...]:
        raise UsageError("not on Sundays")


async def test_middleware_wraps_a_submit_the_first_outermost(url: str) -> None:
    calls: list[str] = []
    app = Holdfast(url, middleware=[Tagging("outer", calls), Tagging("inner", calls)])
    nothing = app.job(name="nothing")(lambda: None)
    async with app:
        (handle, _) = await app.submit_many([nothing.call(), nothing.call()])
        assert (await handle.job()).tags == {"outer": "yes", "inner": "yes"}
        await (await nothing.submit()).job()
        await app.submit("nothing")
    assert calls[:4] == ["outer before 2", "inner before 2", "inner after 2", "outer after 2"]
    assert len(calls) == 12


async def test_what_middleware_raises_refuses_the_jobs(url: str) -> None:
    app = Holdfast(url, middleware=[Refusing()])
    nothing = app.job(name="nothing")(lambda: None)
    async with app:
        with pytest.raises(UsageError, match="not on Sundays"):
            await nothing.submit()
        assert (await app.list()).jobs == ()


# bad luck


@pytest.mark.parametrize("kind", list(FaultKind))
async def test_a_store_that_is_away_for_a_moment_costs_neither_a_job_nor_a_double(kind: FaultKind) -> None:
    jobs = Jobs("memory://")
    faults = [PlannedFault("submit", kind, call) for call in (1, 2)]
    async with jobs.app.opened_on(FaultyStore(MemoryStore(), faults)):
        handle = await jobs.add.submit(1)
        assert [job.id for job in (await jobs.app.list()).jobs] == [handle.id]


async def test_a_store_that_stays_away_is_unavailable_after_the_submission_timeout() -> None:
    app = Holdfast("memory://", submission_timeout=timedelta(milliseconds=120))
    nothing = app.job(name="nothing")(lambda: None)
    away = [PlannedFault("submit", FaultKind.BEFORE_WRITE, call) for call in range(1, 1000)]
    async with app.opened_on(FaultyStore(MemoryStore(), away)):
        with pytest.raises(Unavailable, match="planned"):
            await nothing.submit()


# open and close


async def test_an_app_that_is_not_open_says_how(jobs: Jobs) -> None:
    with pytest.raises(UsageError, match="the app is not open; write: async with app: …"):
        await jobs.add.submit(1)
    with pytest.raises(UsageError, match="not open"):
        jobs.app.worker()


async def test_opening_is_counted(jobs: Jobs) -> None:
    async with jobs.app:
        async with jobs.app:
            await jobs.add.submit(1)
        await jobs.add.submit(2)
        await asyncio.gather(jobs.app.open(), jobs.app.open())
        await jobs.app.close()
        await jobs.app.close()
        await jobs.add.submit(3)
    with pytest.raises(UsageError, match="not open"):
        await jobs.add.submit(4)
    await jobs.app.close()


def test_an_app_may_be_opened_on_one_loop_after_the_other(jobs: Jobs) -> None:
    async def submit() -> int:
        async with jobs.app:
            await jobs.add.submit(1)
            return len((await jobs.app.list()).jobs)

    assert [asyncio.run(submit()) for _ in range(3)] == [1, 2, 3]


async def test_an_app_is_open_on_one_loop_at_a_time(opened: Jobs) -> None:
    async def open_there() -> None:
        async with opened.app:
            pass

    with pytest.raises(UsageError, match="open on another event loop"):
        await asyncio.to_thread(asyncio.run, open_there())
    await opened.add.submit(1)


def test_an_app_that_was_left_open_on_a_dead_loop_can_be_opened_again(jobs: Jobs) -> None:
    async def leave_open() -> None:
        await jobs.app.open()

    async def use() -> None:
        async with jobs.app:
            await jobs.add.submit(1)

    asyncio.run(leave_open())
    asyncio.run(use())


async def test_closing_tells_those_who_wait_for_a_result(jobs: Jobs) -> None:
    async with jobs.app:
        handle = await jobs.add.submit(1)
        waiting = asyncio.create_task(handle.result())
        await asyncio.sleep(0)
    with pytest.raises(UsageError, match="closed while this result was awaited"):
        await waiting
