"""Asking and telling: each is the store's own verb, found where a program looks for it."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from holdfast import JobNotFound, State, UsageError
from holdfast.core.commands import CancelOutcome, ReplayOutcome
from holdfast.testing.factories import FAIL, running_job, settle
from tests.integration.app.conftest import Jobs


async def test_a_job_is_found_by_anything_that_has_its_id(opened: Jobs) -> None:
    handle = await opened.add.submit(1)
    job = await opened.app.get(handle)
    assert job == await opened.app.get(handle.id) == await opened.app.get(str(handle.id)) == await opened.app.get(job)
    with pytest.raises(JobNotFound):
        await opened.app.get(uuid4())
    with pytest.raises(UsageError, match="'nonsense' is not a job"):
        await opened.app.get("nonsense")


async def test_jobs_are_listed_by_what_they_have_in_common(opened: Jobs) -> None:
    old = await opened.add.options(tags={"a": "b"}).submit(1)
    new = await opened.resize.submit("a.png")
    await new.cancel()

    async def listed(**where: object) -> list[object]:
        return [job.id for job in (await opened.app.list(**where)).jobs]  # type: ignore[arg-type]

    assert await listed() == [new.id, old.id]
    assert (
        await listed(queue="media") == await listed(type="resize") == await listed(states=State.CANCELLED) == [new.id]
    )
    assert await listed(tag=("a", "b")) == await listed(states=[State.SCHEDULED, State.FAILED]) == [old.id]
    assert await listed(created_until=datetime.now(UTC) - timedelta(hours=1)) == []
    page = await opened.app.list(limit=1)
    rest = await opened.app.list(limit=1, cursor=page.next_cursor)
    assert [job.id for job in (*page.jobs, *rest.jobs)] == [new.id, old.id]


async def test_jobs_are_cancelled_and_replayed(opened: Jobs) -> None:
    first, second = await opened.add.submit(1), await opened.add.submit(2)
    answers = await opened.app.cancel(first, second.id, uuid4())
    expected = [CancelOutcome.CANCELLED, CancelOutcome.CANCELLED, CancelOutcome.NOT_FOUND]
    assert [answer.outcome for answer in answers] == expected
    failed = [await running_job(opened.app.store) for _ in range(2)]
    for job in failed:
        await settle(opened.app.store, job, FAIL)
    assert len(await opened.app.attempts(failed[0].id)) == 1
    (answer,) = await opened.app.replay(failed[0].id)
    assert answer.outcome is ReplayOutcome.REPLAYED
    page = await opened.app.replay_where(states=State.FAILED)
    assert [one.job_id for one in page.answers] == [failed[1].id]


async def test_a_job_says_why_it_is_not_running(opened: Jobs) -> None:
    handle = await opened.resize.submit("a.png")
    await opened.app.pause("media")
    assert "paused" in await opened.app.why(handle)
    with pytest.raises(JobNotFound):
        await opened.app.why(uuid4())


async def test_queues_are_paused_and_resumed(opened: Jobs) -> None:
    await opened.resize.submit("a.png")
    await opened.app.pause("media")
    (queue,) = await opened.app.queues()
    assert (queue.name, queue.is_paused, queue.counts) == ("media", True, {State.SCHEDULED: 1})
    await opened.app.resume("media")
    (queue,) = await opened.app.queues()
    assert not queue.is_paused


async def test_workers_serve_the_queues_of_the_job_types(opened: Jobs) -> None:
    async with opened.app.worker(name="one"):
        (worker,) = await opened.app.workers()
        assert (worker.name, set(worker.queues)) == ("one", {"default", "media"})
        assert set(worker.types) == {"add", "total", "fail", "resize"}
    assert await opened.app.workers() == []


async def test_a_worker_is_told_what_the_program_says(opened: Jobs) -> None:
    options = opened.app.worker(
        concurrency=3, queues=["media"], limits={"media": 2}, grace=timedelta(seconds=5), name="two", tick=False
    ).options
    assert (options.concurrency, options.queues, options.limits) == (3, ["media"], {"media": 2})
    assert (options.grace_seconds, options.name, options.tick) == (5.0, "two", None)
