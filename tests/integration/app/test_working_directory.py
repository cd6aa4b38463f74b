"""A program that changes its working directory keeps its database, and its logs: the app decided where they are."""

import asyncio
import logging
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import Holdfast, JobHandle, State
from holdfast.wiring import URL_VARIABLE

PATIENCE = timedelta(seconds=60)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


async def test_the_store_the_heartbeat_the_twins_and_the_logs_share_one_file(
    here: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Holdfast("sqlite:///jobs.db")

    @app.job
    def say(text: str) -> str:
        logging.getLogger("shop").warning("said %s", text)
        return text

    monkeypatch.chdir(elsewhere)
    async with app, app.worker():
        assert await (await say.submit("async")).result(timeout=PATIENCE) == "async"
        handle: JobHandle[str] = await asyncio.to_thread(say.submit_sync, "sync")
        assert await handle.result(timeout=PATIENCE) == "sync"
        (worker,) = await app.workers()
        assert not worker.is_lost
    async with app:
        (log,) = await app.logs(handle.id)
    assert b"said sync" in log.data
    app.close_sync()
    assert sorted(file.name for file in here.iterdir()) == ["jobs.db", "jobs.db-logs"]
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("url", [None, "sqlite:///by_variable.db"])
async def test_the_default_and_the_variable_are_those_of_the_moment_the_app_was_made(
    here: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, url: str | None
) -> None:
    if url is not None:
        monkeypatch.setenv(URL_VARIABLE, url)
    app = Holdfast(logs="./logs")

    @app.job
    def say() -> None:
        logging.getLogger("shop").warning("said")

    monkeypatch.chdir(elsewhere)
    async with app, app.worker():
        handle = await say.submit()
        await handle.result(timeout=PATIENCE)
    assert list(elsewhere.iterdir()) == []
    assert sorted(file.name for file in here.iterdir()) == ["holdfast.db" if url is None else "by_variable.db", "logs"]


def test_a_submit_after_a_change_of_directory_goes_into_the_apps_file(
    here: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Holdfast("sqlite:///jobs.db", logs="off")

    @app.job
    def nothing() -> None: ...

    monkeypatch.chdir(elsewhere)
    handle = nothing.submit_sync()
    app.close_sync()
    monkeypatch.chdir(here)
    other = Holdfast("sqlite:///jobs.db", logs="off")
    assert other.get_sync(handle.id).state is State.SCHEDULED
    other.close_sync()
