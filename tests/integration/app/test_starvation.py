"""Handlers that wait for other jobs and hold all slots: a person is told."""

import asyncio
import logging

import pytest

from holdfast import Holdfast

PATIENCE_SECONDS = 30.0


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.worker.starvation.STARVING_SECONDS", 0.1)
    monkeypatch.setattr("holdfast.worker.worker.LOOK_SECONDS", 0.02)


def hints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if "wait for a slot" in message]


@pytest.mark.parametrize("is_async", [True, False])
async def test_handlers_that_hold_all_slots_and_wait_for_jobs_that_need_one_are_named(
    tmp_path: object, caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db")

    @app.job
    async def child() -> int:
        return 1

    @app.job
    async def parent() -> int:
        return await (await child.submit()).result()

    @app.job
    def blocking_parent() -> int:
        return child.submit_sync().result_sync()

    waiting = parent if is_async else blocking_parent
    async with app, app.worker(concurrency=2, grace=0):
        handles = [await waiting.submit() for _ in range(2)]
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not hints(caplog):
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)
        async with app.worker(concurrency=1, grace=0):
            assert [await handle.result(timeout=PATIENCE_SECONDS) for handle in handles] == [1, 1]
    app.close_sync()
    (hint,) = hints(caplog)
    assert waiting.name in hint
    assert "ctx.spawn" in hint


async def test_handlers_that_are_merely_busy_or_wait_with_slots_to_spare_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    app = Holdfast("memory://")
    release = asyncio.Event()

    @app.job
    async def child() -> int:
        await release.wait()
        return 1

    @app.job
    async def parent() -> int:
        return await (await child.submit()).result()

    async with app, app.worker(concurrency=2):
        handle = await parent.submit()
        await asyncio.sleep(0.5)
        release.set()
        assert await handle.result(timeout=PATIENCE_SECONDS) == 1
    assert not hints(caplog)
