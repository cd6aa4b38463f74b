"""``testing.run``: one test at a time, and nothing left behind. What every test leaves is checked in conftest.py."""

import asyncio
import unittest
from pathlib import Path

import pytest

from holdfast import Holdfast, JobNotFound, UsageError, testing
from tests.unit.testing.shop import app, outbox, send_mail, signup, signup_sync


async def test_one_test_after_the_other_sees_only_its_own_jobs() -> None:
    """TESTAPP-2"""
    async with testing.run(app) as jobs:
        handle = await send_mail.submit("ann")
    async with testing.run(app) as again:
        again.assert_not_submitted()
        with pytest.raises(JobNotFound):
            await handle.job()
        # What was asked of the first stays.
        jobs.assert_submitted_once(send_mail)


async def test_an_exception_leaves_nothing_behind() -> None:
    """TESTAPP-1"""
    with pytest.raises(LookupError):
        async with testing.run(app):
            raise LookupError("in the test")
    async with testing.run(app) as jobs:
        await send_mail.submit("ann")
        await jobs.drain()


async def test_a_test_that_is_cancelled_in_a_drain_leaves_nothing_behind() -> None:
    """TESTAPP-1"""
    hanging = Holdfast("memory://")
    started, ended = asyncio.Event(), asyncio.Event()

    @hanging.job
    async def hang() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def test() -> None:
        async with testing.run(hanging) as jobs:
            await hang.submit()
            await jobs.drain()

    task = asyncio.create_task(test())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    assert hanging.open_loop is None


async def test_one_inside_the_other_is_refused() -> None:
    """TESTAPP-2"""
    async with testing.run(app):
        with pytest.raises(UsageError, match="cannot stand inside another one"):
            async with testing.run(app):
                pass
        # And leaves the outer one as it was.
        await send_mail.submit("ann")


def test_one_inside_the_other_is_refused_without_a_loop() -> None:
    """TESTAPP-2"""
    with testing.run(app) as jobs:
        with pytest.raises(UsageError, match="cannot stand inside another one"), testing.run(app):
            pass
        signup_sync("ann")
        jobs.assert_submitted_once(send_mail)


async def test_two_apps_are_tested_side_by_side() -> None:
    other = Holdfast("memory://")

    @other.job
    async def forward(to: str) -> None:
        await send_mail.submit(to)

    async with testing.run(app) as jobs, testing.run(other) as others:
        await forward.submit("ann")
        await others.drain()
        await jobs.drain()
        jobs.assert_submitted_once(send_mail, to="ann")
        others.assert_not_submitted("send_mail")
        assert len(outbox) == 1


async def test_an_app_that_is_open_is_refused(tmp_path: Path) -> None:
    own = Holdfast(f"sqlite:///{tmp_path}/own.db")
    async with own:
        with pytest.raises(UsageError, match=r"already open; .* testing.run\(app\) comes first"):
            async with testing.run(own):
                pass


async def test_the_apps_own_database_is_neither_made_nor_touched(tmp_path: Path) -> None:
    """TESTAPP-1"""
    own = Holdfast(f"sqlite:///{tmp_path}/own.db")

    @own.job
    async def work() -> None: ...

    async with own:
        kept = await work.submit()
    logs = own.log_store
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    async with testing.run(own) as jobs:
        await work.submit()
        await jobs.drain()
        with pytest.raises(JobNotFound):
            await kept.job()
        assert own.log_store is not logs
    assert own.log_store is logs
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    async with own:
        assert (await kept.job()).id == kept.id
        assert len((await own.list()).jobs) == 1


async def test_a_memory_app_keeps_its_own_jobs_apart() -> None:
    own = Holdfast("memory://")

    @own.job
    async def work() -> None: ...

    async with own:
        kept = await work.submit()
    async with testing.run(own) as jobs:
        jobs.assert_not_submitted()
    async with own:
        assert (await kept.job()).id == kept.id


class AsyncTests(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.jobs = await self.enterAsyncContext(testing.run(app))

    async def test_unittest_with_a_loop(self) -> None:
        await signup("ann")
        self.jobs.assert_submitted(send_mail, times=2)
        await self.jobs.drain()


class PlainTests(unittest.TestCase):
    def setUp(self) -> None:
        self.jobs = self.enterContext(testing.run(app))

    def test_unittest_without_a_loop(self) -> None:
        signup_sync("ann")
        self.jobs.assert_submitted_once(send_mail)
        self.jobs.drain()
