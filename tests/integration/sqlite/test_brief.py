"""A small submit on an idle store is committed where it was asked for; everything else goes to the writer's thread."""

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from threading import get_ident
from typing import Any
from uuid import uuid4

import pytest

from holdfast.core.commands import NewJob, Submit
from holdfast.core.payload import Payload
from holdfast.stores.sqlite import SQLiteStore
from holdfast.stores.sqlite.writer import Writer


def writer_of(store: SQLiteStore) -> Writer:
    assert store._opened is not None
    return store._opened.writer


def threads(_: Any, items: Sequence[object]) -> list[int]:
    """Work that only says in which thread it was done."""
    return [get_ident() for _ in items]


def one(payload_bytes: int = 0) -> Submit:
    return Submit(jobs=(NewJob(id=uuid4(), type="t", payload=Payload.of("x" * payload_bytes)),))


@pytest.fixture
async def store(tmp_path: Path) -> Any:
    store = SQLiteStore(tmp_path / "jobs.db")
    await store.open()
    yield store
    await store.close()


async def test_brief_work_on_an_idle_lane_is_done_here(store: SQLiteStore) -> None:
    assert await writer_of(store).run_together(threads, object(), is_brief=True) == get_ident()


async def test_brief_work_of_one_turn_shares_a_commit(store: SQLiteStore) -> None:
    commits: list[str] = []
    writer_of(store).connection.set_trace_callback(
        lambda statement: commits.append(statement) if statement == "COMMIT" else None
    )
    answers = await asyncio.gather(*(store.submit([one()]) for _ in range(10)))
    assert len(answers) == 10
    assert commits == ["COMMIT"]


async def test_brief_work_asked_for_right_before_the_end_is_done(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "jobs.db")
    await store.open()
    submitting = asyncio.create_task(store.submit([one()]))
    await asyncio.sleep(0)
    await store.close()
    (answer,) = await submitting
    assert isinstance(answer, tuple)


async def test_other_work_is_done_by_the_thread(store: SQLiteStore) -> None:
    assert await writer_of(store).run_together(threads, object()) != get_ident()


async def test_brief_work_on_a_slow_disk_is_done_by_the_thread(store: SQLiteStore) -> None:
    writer_of(store)._mean_seconds = 1.0
    assert await writer_of(store).run_together(threads, object(), is_brief=True) != get_ident()


async def test_a_writer_elsewhere_is_waited_for_without_holding_the_loop(store: SQLiteStore) -> None:
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    submitting = asyncio.create_task(store.submit([one()]))
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert not submitting.done()
    other.execute("ROLLBACK")
    other.close()
    (answer,) = await submitting
    assert isinstance(answer, tuple)
