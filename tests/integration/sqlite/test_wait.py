"""Sleeping until there is work: in this process, and across processes."""

import asyncio
import os
import resource
import time
from pathlib import Path

import pytest

from holdfast.core.commands import Claim, HandedBack
from holdfast.stores.sqlite import SQLiteStore, wake
from holdfast.stores.sqlite.changes import FileChanges
from holdfast.testing.factories import claim, claim_one, hears, new_claim, register, settle, submit_one
from tests.integration.sqlite.conftest import OpenStore
from tests.integration.sqlite.processes import finish, start

PLENTY_SECONDS = 30.0
SOON_SECONDS = 0.3


async def is_woken(store: SQLiteStore, queue: str = "default", *, within: float = SOON_SECONDS) -> bool:
    return await hears(store, [queue], within_seconds=within)


async def test_a_submit_of_another_process_wakes(path: Path, store: SQLiteStore) -> None:
    process = start("submit_after", path, 0.5)
    assert await is_woken(store, within=PLENTY_SECONDS)
    woken_at = time.monotonic()
    _, submitted_at = await asyncio.to_thread(finish, process)
    # One machine, one monotonic clock. The poll takes milliseconds; the rest is for a machine that is busy.
    assert woken_at - float(submitted_at) < 2


async def test_where_the_system_tells_of_changes_nobody_polls(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake, "TOLD_POLL_SECONDS", 2 * PLENTY_SECONDS)
    await wakes_by_another_process(path)


async def test_where_the_system_tells_nothing_the_log_is_looked_at(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> FileChanges:
        raise OSError(f"no more watches for {path}")

    monkeypatch.setattr(wake, "FileChanges", refuse)
    await wakes_by_another_process(path)


async def test_more_than_a_thousand_open_files_are_no_reason_not_to_be_told(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake, "TOLD_POLL_SECONDS", 2 * PLENTY_SECONDS)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
    descriptors = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert max(descriptors) >= 1024
        await wakes_by_another_process(path)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def wakes_by_another_process(path: Path) -> None:
    store = SQLiteStore(path)
    await store.open()
    try:
        process = start("submit_after", path, 0.5)
        assert await is_woken(store, within=PLENTY_SECONDS)
        await asyncio.to_thread(finish, process)
    finally:
        await store.close()


async def test_a_submit_of_another_store_wakes_only_whoever_waits_for_its_queue(open_store: OpenStore) -> None:
    store, other = await open_store(), await open_store()
    mail, rest = (asyncio.ensure_future(is_woken(store, queue, within=2)) for queue in ("mail", "default"))
    await asyncio.sleep(0.05)
    await submit_one(other, queue="mail")
    assert await mail
    assert not rest.done()
    await submit_one(other)
    assert await rest


async def test_a_job_that_comes_between_the_claim_and_the_wait_is_not_slept_through(open_store: OpenStore) -> None:
    store, other = await open_store(), await open_store()
    worker = await register(store)
    for submitter in (store, other):
        assert not await claim(store, worker)
        await submit_one(submitter)
        assert await is_woken(store, within=PLENTY_SECONDS)
        assert await claim(store, worker)


async def test_a_job_that_this_worker_cannot_claim_does_not_wake_it_again(store: SQLiteStore) -> None:
    worker = await register(store)
    await submit_one(store, type="unknown here")
    assert not await claim(store, worker, types=("example",))
    assert not await is_woken(store)


async def test_a_paused_queue_wakes_nobody_until_it_is_resumed(open_store: OpenStore) -> None:
    store, other = await open_store(), await open_store()
    await store.pause("default")
    await submit_one(store)
    assert not await claim(store, await register(store))
    assert not await is_woken(store)
    waiting = asyncio.ensure_future(is_woken(store, within=PLENTY_SECONDS))
    await asyncio.sleep(0.05)
    await other.resume("default")
    assert await waiting


async def test_a_job_that_was_handed_back_wakes(open_store: OpenStore) -> None:
    store, other = await open_store(), await open_store()
    await submit_one(store)
    job = await claim_one(other, await register(other))
    waiting = asyncio.ensure_future(is_woken(store, within=PLENTY_SECONDS))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await settle(other, job, HandedBack())
    assert await waiting


async def test_a_wait_for_very_many_queues_sleeps_too(open_store: OpenStore) -> None:
    store, other = await open_store(), await open_store()
    queues = tuple(f"queue {n}" for n in range(500))
    assert not await claim(store, await register(store), queues=queues)
    assert not await hears(store, queues, within_seconds=SOON_SECONDS)
    waiting = asyncio.ensure_future(hears(store, queues, within_seconds=PLENTY_SECONDS))
    await asyncio.sleep(0.05)
    await submit_one(other, queue="queue 499")
    assert await waiting


async def test_waiting_costs_next_to_nothing(store: SQLiteStore) -> None:
    """A look every 5 ms; the bound is generous, because all threads of the test's process count."""
    waiting = asyncio.ensure_future(is_woken(store, within=2.0))
    before = time.process_time()
    assert not await waiting
    assert time.process_time() - before < 0.2


async def test_nobody_looks_while_nobody_waits(store: SQLiteStore) -> None:
    await is_woken(store, within=0.05)
    statements: list[str] = []
    assert store._opened is not None
    await asyncio.sleep(0.05)
    store._opened.watch._connection.set_trace_callback(statements.append)
    await asyncio.sleep(0.1)
    assert not statements


async def test_a_close_ends_every_wait(store: SQLiteStore) -> None:
    waiting = asyncio.ensure_future(is_woken(store, within=PLENTY_SECONDS))
    await asyncio.sleep(0.05)
    await store.close()
    await asyncio.wait_for(waiting, PLENTY_SECONDS / 2)


async def test_a_claim_that_took_all_it_asked_for_leaves_the_rest_to_be_seen(store: SQLiteStore) -> None:
    worker = await register(store)
    for _ in range(2):
        await submit_one(store)
    claim_first: Claim = new_claim(worker, limit=1)
    assert len(await store.claim(claim_first)) == 1
    assert await is_woken(store, within=PLENTY_SECONDS)
