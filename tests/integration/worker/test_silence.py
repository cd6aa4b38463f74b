"""A worker that is not heard: it stops its handlers before others may start them, and starts nothing.

PULSE-2, SLOT-1, WRITER-8.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from urllib.parse import urlsplit
from uuid import UUID

import pytest

from chaos.proxy import Link
from holdfast.core.commands import Tick
from holdfast.core.errors import Unavailable
from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.wiring import create_store
from holdfast.worker.context import Context
from tests.integration.worker.awkward import Awkward, Gate, raising
from tests.integration.worker.conftest import on
from tests.integration.worker.world import World, eventually

TIMEOUT_SECONDS = 1.5
SHORT = {"heartbeat_seconds": 0.1, "tick": Tick(worker_timeout_seconds=TIMEOUT_SECONDS)}


@asynccontextmanager
async def linked(url: str) -> AsyncIterator[tuple[Link, str, Store]]:
    """A way to the database that can be cut: the proxy, the URL through it, and a store on that."""
    parts = urlsplit(url)
    assert parts.port is not None
    link = Link("127.0.0.1", parts.port)
    await link.open()
    through = parts._replace(netloc=f"{parts.username}@127.0.0.1:{link.port}").geturl()
    store = create_store(through)
    await store.open()
    try:
        yield link, through, store
    finally:
        link.resume()
        await store.close()
        await link.close()


@on("postgres")
async def test_a_worker_that_is_cut_off_stops_its_handlers_before_another_starts_them(world: World) -> None:
    story: list[str] = []

    async def work(ctx: Context) -> None:
        if ctx.previous_attempt_id is not None:
            story.append("started again")
            return
        story.append("started")
        try:
            await asyncio.sleep(3600)
        finally:
            story.append("stopped")

    world.handle(work)
    job_id = await world.submit("work")
    async with linked(world.url) as (link, through, store):
        cut_off = world.new_worker(store=store, create_pulse_store=lambda: create_store(through), **SHORT)
        async with cut_off:
            await eventually(lambda: bool(story))
            async with world.worker(**SHORT):
                link.stall()
                assert (await world.until(job_id)).state is State.COMPLETED
                link.resume()
    assert story == ["started", "stopped", "started again"]


async def test_a_silent_worker_starts_nothing_until_it_is_heard_again(world: World) -> None:
    gate = Gate()
    started: list[UUID] = []
    told = asyncio.Event()

    async def work(ctx: Context) -> None:
        started.append(ctx.job_id)
        if len(started) == 1:
            try:
                await asyncio.sleep(3600)
            finally:
                told.set()

    world.handle(work)
    first = await world.submit("work")
    store = Awkward(world.store, heartbeat=gate)
    async with world.worker(store=store, create_pulse_store=None, concurrency=4, **SHORT):
        await eventually(lambda: bool(started))
        gate.shut()
        async with asyncio.timeout(60):
            await told.wait()
        second = await world.submit("work")
        await asyncio.sleep(0.3)  # it would have been claimed at once
        assert started == [first]
        gate.open()
        assert (await world.until(second)).state is State.COMPLETED


async def test_a_heartbeat_that_hangs_does_not_keep_handlers_from_being_told(world: World) -> None:
    """The call never comes back, and neither does its cancellation."""
    told = asyncio.Event()
    is_hanging = False

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            told.set()

    async def hang() -> None:
        while is_hanging:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    job_id = await world.submit(world.handle(work))
    store = Awkward(world.store, heartbeat=hang)
    async with world.worker(store=store, create_pulse_store=None, grace_seconds=0.0, **SHORT):
        await world.until(job_id, State.RUNNING)
        is_hanging = True
        try:
            async with asyncio.timeout(20):
                await told.wait()
        finally:
            is_hanging = False


# nobody can write


@asynccontextmanager
async def locked(world: World) -> AsyncIterator[None]:
    """As somebody's shell does it that has begun a transaction and not ended it."""
    with closing(sqlite3.connect(world.url.removeprefix("sqlite:///"), isolation_level=None, timeout=30)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("COMMIT")


@on("sqlite")
@pytest.mark.parametrize(("held_seconds", "times"), [(3 * TIMEOUT_SECONDS, 1), (0.4 * TIMEOUT_SECONDS, 6)])
async def test_handlers_carry_on_while_somebody_else_keeps_the_file_locked(
    world: World,
    held_seconds: float,
    times: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("holdfast.stores.sqlite.writer.LATE_SECONDS", 0.1)
    caplog.set_level(logging.INFO, logger="holdfast.worker")
    runs: list[UUID] = []
    go_on = asyncio.Event()

    async def work(ctx: Context) -> None:
        runs.append(ctx.job_id)
        await go_on.wait()

    world.handle(work)
    ids = [await world.submit("work") for _ in range(6)]
    other = create_store(world.url)
    await other.open()
    async with world.worker(concurrency=3, **SHORT), world.worker(concurrency=3, store=other, **SHORT):
        await eventually(lambda: len(runs) == 6)
        for _ in range(times):
            async with locked(world):
                await asyncio.sleep(held_seconds)
                unlocked_at = datetime.now(UTC)
            while min(worker.seen_at for worker in await world.store.read_workers()) < unlocked_at:
                await asyncio.sleep(0.01)
        await asyncio.sleep(TIMEOUT_SECONDS)  # time to be taken for dead
        go_on.set()
        jobs = [await world.until(job_id) for job_id in ids]
    await other.close()
    assert [(job.state, job.attempt) for job in jobs] == [(State.COMPLETED, 1)] * 6
    assert len(runs) == 6
    said = [message for message in caplog.messages if "handlers carry on" in message]
    assert times > 1 or 1 <= len(said) <= 2 * 2  # a few lines from each worker
    assert not [message for message in caplog.messages if "told to stop" in message]


@on("sqlite")
async def test_a_file_that_others_write_to_is_no_reason_to_carry_on(world: World) -> None:
    """Our own heartbeats fail, and somebody else's commits succeed: they may well take the job over."""
    told = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            told.set()

    job_id = await world.submit(world.handle(work))
    store = Awkward(world.store)
    async with world.worker(store=store, create_pulse_store=None, **SHORT):
        await world.until(job_id, State.RUNNING)
        store.before["heartbeat"] = raising(Unavailable("out of order"))
        async with asyncio.timeout(60):
            await told.wait()
        del store.before["heartbeat"]
