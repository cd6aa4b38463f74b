"""What waits for the disk: everything but a claim (WRITER-7)."""

import asyncio
import threading
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.core.commands import Claim
from holdfast.core.errors import WorkerNotFound
from holdfast.stores.sqlite import SQLiteStore
from holdfast.stores.sqlite.transaction import SQLiteTransaction
from holdfast.testing.factories import claim, register, submit_one

NORMAL, FULL = 1, 2


def level(tx: SQLiteTransaction) -> int:
    (found,) = tx.cursor.execute("PRAGMA synchronous").fetchone()
    return int(found)


@pytest.fixture
async def store(tmp_path: Path) -> SQLiteStore:
    store = SQLiteStore(tmp_path / "jobs.db")
    await store.open()
    return store


async def test_only_what_may_be_forgotten_is_committed_without_the_disk(store: SQLiteStore) -> None:
    writer = store._require_open().writer
    assert await writer.run(level, may_be_forgotten=True) == NORMAL
    assert await writer.run(level) == FULL
    await store.close()


async def test_a_group_waits_for_the_disk_if_one_of_it_must(store: SQLiteStore) -> None:
    writer = store._require_open().writer
    may_go_on = threading.Event()
    first = writer.run(lambda _: may_go_on.wait())
    both = [writer.run(level, may_be_forgotten=True), writer.run(level)]  # meet in the queue meanwhile
    may_go_on.set()
    assert await asyncio.gather(first, *both) == [True, FULL, FULL]
    await store.close()


async def test_after_a_claim_writes_wait_for_the_disk_again(store: SQLiteStore) -> None:
    worker = await register(store)
    await submit_one(store)
    assert len(await claim(store, worker)) == 1
    assert await store._require_open().writer.run(level) == FULL
    with pytest.raises(WorkerNotFound):
        await store.claim(Claim(owner=uuid4(), queues=("default",), limit=1, nonce=uuid4()))
    assert await store._require_open().writer.run(level) == FULL
    await store.close()
