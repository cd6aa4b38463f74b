"""What a tick may not conclude after others have kept the file for themselves (WRITER-8)."""

import asyncio
from pathlib import Path

import pytest

from holdfast.core.commands import Tick
from holdfast.core.job import Timeouts
from holdfast.core.states import State
from holdfast.stores.sqlite import SQLiteStore
from holdfast.testing.clock import ManualClock
from holdfast.testing.factories import read_state, running_job, submit_one
from tests.integration.sqlite.test_given_up import held


async def test_a_tick_that_was_queued_behind_a_wait_finds_no_lease_expired(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.stores.sqlite.writer.LATE_SECONDS", 0.1)
    clock = ManualClock()
    store = SQLiteStore(path, clock=clock)
    await store.open()
    job = await running_job(store, timeouts=Timeouts(visibility=10.0))
    clock.advance(11)
    with held(path):
        waiting = asyncio.create_task(submit_one(store))
        await asyncio.sleep(0.05)
        behind = asyncio.create_task(store.tick(Tick()))
        await asyncio.sleep(0.2)
    await waiting
    assert (await behind).reclaimed == 0, "the heartbeat that would say otherwise was kept waiting, too"
    assert (await store.tick(Tick())).reclaimed == 1
    assert await read_state(store, job.id) is State.SCHEDULED
    await store.close()
