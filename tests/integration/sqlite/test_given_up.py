"""What a caller gives up while another process holds the file is not done later (WRITER-6)."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holdfast.core.commands import Submit
from holdfast.core.states import State
from holdfast.stores.sqlite import SQLiteStore
from holdfast.testing.factories import new_job, read_state, submit_one


@contextmanager
def held(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")


@pytest.mark.parametrize("has_company", [True, False])
async def test_what_was_given_up_is_not_done_later(path: Path, store: SQLiteStore, has_company: bool) -> None:
    given_up = new_job()
    company = None
    with held(path):
        asked = asyncio.ensure_future(store.submit([Submit(jobs=(given_up,))]))
        if has_company:
            company = asyncio.create_task(submit_one(store))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asked, 0.05)
    if company is not None:
        assert await read_state(store, await company) is State.SCHEDULED
    await submit_one(store)  # behind it in the queue: by now it would have been done
    assert await store.read([given_up.id]) == [None]
