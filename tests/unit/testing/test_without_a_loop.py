"""Tests without an event loop: ``with testing.run(app)``, and everything blocks until it is done."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from holdfast import Context, Holdfast, JobFailed, State, UsageError, testing
from tests.unit.testing import shop
from tests.unit.testing.shop import add, app, ask, charge, in_a_process, outbox, refuse, send_mail, signup, signup_sync


@pytest.fixture
def jobs() -> Iterator[testing.SyncJobs]:
    with testing.run(app, cron=False) as jobs:
        yield jobs


def test_sync_code_is_tested_without_a_loop(jobs: testing.SyncJobs) -> None:
    signup_sync("ann@example.org")
    jobs.assert_submitted_once(send_mail, to="ann@example.org")
    assert outbox == []
    drained = jobs.drain()
    assert [job.state for job in drained.ran] == [State.COMPLETED]
    assert outbox == [("ann@example.org", "Welcome")]


def test_async_code_is_run_with_the_app_open(jobs: testing.SyncJobs) -> None:
    jobs.run(signup("ann@example.org"))
    jobs.assert_submitted(send_mail, times=2)
    jobs.advance(days=1)
    assert len(outbox) == 2


def test_results_and_failures_are_those_of_a_test_with_a_loop(jobs: testing.SyncJobs) -> None:
    assert jobs.result(add.submit_sync(1, 2)) == 3
    assert jobs.result(ask.submit_sync("ann")) == "mail to ann"
    failing = refuse.submit_sync("no")
    with pytest.raises(testing.HandlerFailed, match="refuse") as caught:
        jobs.drain()
    assert str(caught.value.__cause__) == "no"
    with pytest.raises(JobFailed):
        failing.result_sync()
    charge.submit_sync(7, failures=1)
    jobs.drain(wait=True)
    assert outbox[-1] == 7
    with pytest.raises(AssertionError, match="DELAYED: it is due in 5 s"):
        jobs.result(send_mail.options(delay=5).submit_sync("ann"))


def test_an_awaited_result_is_there_when_the_sync_twin_asks(jobs: testing.SyncJobs) -> None:
    handle = send_mail.submit_sync("ann")
    jobs.drain()
    assert handle.result_sync(timeout=10) == "mail to ann"
    assert app.get_sync(handle).state is State.COMPLETED


# inline


def test_plain_functions_run_in_threads_unless_inline(jobs: testing.SyncJobs) -> None:
    jobs.result(add.submit_sync(1, 2))
    ((process, thread),) = outbox
    assert process == os.getpid()
    assert thread != threading.get_ident()


def test_inline_plain_functions_run_in_the_thread_of_the_test() -> None:
    with testing.run(app, inline=True) as jobs:
        add.submit_sync(1, 2)
        in_a_process.submit_sync(1, 1)
        jobs.drain()
        assert outbox == [(os.getpid(), threading.get_ident())] * 2
        assert jobs.result(add.submit_sync(3, 4)) == 7


def test_inline_a_plain_function_may_submit_and_keep_checkpoints() -> None:
    resumed = Holdfast(shop.URL)

    @resumed.job
    def count(ctx: Context, to: int) -> int:
        ctx.checkpoint_sync(to)
        return int(ctx.last_checkpoint)

    with testing.run(resumed, inline=True) as jobs:
        assert jobs.result(count.submit_sync(3)) == 3
    with testing.run(app, inline=True, cron=False) as jobs:
        shop.remind_later.submit_sync("ann")
        jobs.drain()
        jobs.assert_submitted_once(send_mail, subject="Remember")


def test_inline_what_a_function_raises_is_the_cause() -> None:
    with testing.run(app, inline=True) as jobs:
        in_a_process.submit_sync(1, 0)
        with pytest.raises(testing.HandlerFailed) as caught:
            jobs.drain()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_inline_a_function_that_exits_fails_its_job_only() -> None:
    exiting = Holdfast(shop.URL)

    @exiting.job
    def leave() -> None:
        raise SystemExit(3)

    with testing.run(exiting, inline=True) as jobs:
        leave.submit_sync()
        with pytest.raises(testing.HandlerFailed, match=r"sys\.exit"):
            jobs.drain()


# a web framework's test client, which has a loop of its own


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with app:
        yield


api = FastAPI(lifespan=lifespan)


@api.post("/signup")
async def post_signup(address: str) -> None:
    await signup(address)


@pytest.mark.parametrize("inline", [False, True])
def test_a_web_app_that_opens_the_app_is_tested_through_its_client(inline: bool) -> None:
    with testing.run(app, inline=inline, cron=False) as jobs, TestClient(api) as client:
        assert client.post("/signup", params={"address": "ann"}).status_code == 200
        jobs.assert_submitted(send_mail, times=2, to="ann")
        jobs.drain()
        assert outbox == [("ann", "Welcome")]
        assert jobs.result(add.submit_sync(1, 2)) == 3
        jobs.advance(days=1)
        assert len(outbox) == 3


def test_a_client_that_is_left_open_leaves_nothing_behind() -> None:
    client = TestClient(api)
    with testing.run(app):
        client.__enter__()
    assert app.open_loop is None
    client.__exit__()


# the wrong kind


def test_a_test_with_a_loop_is_told_to_write_async_with() -> None:
    async def enter() -> None:
        with testing.run(app):
            pass

    with pytest.raises(UsageError, match=r"write: async with testing\.run"):
        asyncio.run(enter())


async def test_sync_twins_on_the_loop_are_refused_as_ever() -> None:
    async with testing.run(app):
        with pytest.raises(UsageError, match="submit_sync would block the event loop"):
            signup_sync("ann")
        await asyncio.to_thread(signup_sync, "ann")
