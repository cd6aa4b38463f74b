"""Operations that are asked for at once share a commit (WRITER-1 to WRITER-3)."""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from holdfast.core.commands import Claim
from holdfast.core.errors import HoldfastError, IdempotencyConflict, UsageError, WorkerNotFound
from holdfast.core.payload import Payload
from holdfast.core.states import State
from holdfast.stores.sqlite import SQLiteStore
from holdfast.stores.sqlite.transaction import SQLiteTransaction
from holdfast.testing.factories import new_job, read_counts, register, submit_answer, submit_jobs, submit_one
from holdfast.testing.invariants import require_consistent


class Commits:
    """Counts the commits of a store's writer."""

    def __init__(self, store: SQLiteStore) -> None:
        self.count = 0
        assert store._opened is not None
        store._opened.writer.connection.set_trace_callback(self._note)

    def _note(self, statement: str) -> None:
        self.count += statement == "COMMIT"


async def all_at_once(path: Path, *verbs: Coroutine[Any, Any, Any]) -> list[Any]:
    """The first is under way, and kept from the file by somebody else, until all the others are queued."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        asked = asyncio.gather(*verbs, return_exceptions=True)
        await asyncio.sleep(0.05)
        other.execute("ROLLBACK")
        return await asked


async def test_submits_at_the_same_time_share_a_commit(path: Path, store: SQLiteStore) -> None:
    commits = Commits(store)
    await all_at_once(path, *(submit_one(store) for _ in range(100)))
    assert commits.count <= 2
    assert await read_counts(store) == {State.SCHEDULED: 100}


async def test_verbs_of_all_kinds_share_a_commit(path: Path, store: SQLiteStore) -> None:
    worker = await register(store)
    ids = [await submit_one(store) for _ in range(3)]
    commits = Commits(store)
    await all_at_once(
        path,
        submit_one(store),
        store.claim(Claim(owner=worker, queues=("default",), limit=1, nonce=uuid4())),
        store.cancel(ids[1:]),
        store.pause("other"),
        submit_one(store, key="order-7"),
    )
    assert commits.count <= 2
    assert await read_counts(store) == {State.SCHEDULED: 2, State.RUNNING: 1, State.CANCELLED: 2}
    await require_consistent(store)


async def test_a_lone_submit_is_a_commit_of_its_own(store: SQLiteStore) -> None:
    commits = Commits(store)
    for _ in range(5):
        await submit_one(store)
    assert commits.count == 5


async def test_an_answer_comes_after_the_commit(path: Path, store: SQLiteStore) -> None:
    """WRITER-1: whoever has the answer finds the job from any other connection."""
    with closing(sqlite3.connect(path)) as other:

        async def submit_and_look() -> None:
            job_id = await submit_one(store)
            assert other.execute("SELECT 1 FROM holdfast_job WHERE id = ?", (job_id.bytes,)).fetchone()

        await asyncio.gather(*(submit_and_look() for _ in range(50)))


async def test_a_refused_operation_leaves_its_neighbours_alone(path: Path, store: SQLiteStore) -> None:
    """WRITER-2."""
    await submit_jobs(store, new_job(key="order-7", payload=Payload.of(1)))
    stranger = Claim(owner=uuid4(), queues=("default",), limit=1, nonce=uuid4())
    conflict = submit_answer(store, new_job(key="order-7", payload=Payload.of(2)))
    first, refused, answer, second = await all_at_once(
        path, submit_one(store), store.claim(stranger), conflict, submit_one(store)
    )
    assert isinstance(refused, WorkerNotFound)
    assert isinstance(answer, IdempotencyConflict)
    assert None not in await store.read([first, second])
    assert await read_counts(store) == {State.SCHEDULED: 3}


def _break(error: Exception) -> Callable[[SQLiteTransaction], None]:
    def work(tx: SQLiteTransaction) -> None:
        tx.run("pause.pause", "broken", tx.now_microseconds)
        tx.tally["broken", State.SCHEDULED] += 7
        raise error

    return work


@pytest.mark.parametrize("error", [ZeroDivisionError(), sqlite3.OperationalError("disk I/O error")])
async def test_an_operation_that_breaks_half_way_leaves_nothing(
    path: Path, store: SQLiteStore, error: Exception
) -> None:
    """WRITER-2, WRITER-3."""

    async def break_down() -> None:
        await store._write(_break(error))

    first, broken, second = await all_at_once(
        path, submit_one(store, queue="first"), break_down(), submit_one(store, queue="second")
    )
    assert isinstance(broken, ZeroDivisionError | HoldfastError)
    assert None not in await store.read([first, second])
    assert [(queue.name, queue.is_paused) for queue in await store.read_queues()] == [
        ("first", False),
        ("second", False),
    ]
    await require_consistent(store)


async def waited_for(task: asyncio.Future[Any]) -> Any:
    return await task


async def test_a_caller_that_gives_up_disturbs_nobody(path: Path, store: SQLiteStore) -> None:
    tasks = [asyncio.ensure_future(submit_one(store)) for _ in range(10)]

    async def give_up() -> None:
        tasks[3].cancel()

    *answers, _ = await all_at_once(path, *(waited_for(task) for task in tasks), give_up())
    assert sum(isinstance(answer, asyncio.CancelledError) for answer in answers) == 1
    accepted = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert None not in await store.read(accepted)
    await require_consistent(store)


def test_one_store_serves_several_event_loops(path: Path) -> None:
    async def serve() -> None:
        store = SQLiteStore(path)
        await store.open()
        ids = await asyncio.gather(*(asyncio.to_thread(asyncio.run, submit_one(store)) for _ in range(5)))
        assert None not in await store.read(ids)
        await store.close()

    asyncio.run(serve())


async def test_what_was_asked_for_before_the_close_is_done(path: Path, store: SQLiteStore) -> None:
    submits = [asyncio.ensure_future(submit_one(store)) for _ in range(20)]
    await asyncio.sleep(0)
    await store.close()
    accepted = await asyncio.gather(*submits)
    with pytest.raises(UsageError, match="not open"):
        await submit_one(store)
    await store.open()
    assert None not in await store.read(accepted)
