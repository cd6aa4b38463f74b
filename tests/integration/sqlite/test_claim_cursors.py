"""Claims that name types pass the jobs of others once, and still overlook nothing (``cursors``)."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest

from holdfast.core.commands import NewJob, Submit
from holdfast.core.priority import Priority
from holdfast.stores.sqlite import SQLiteStore, cursors, writer
from holdfast.testing.factories import claim, claimed_ids, new_job, register, submit_jobs, submit_one
from tests.integration.sqlite.conftest import OpenStore

FOREIGN = 2000
MINE = ("mine",)
OPCODES = 20


@contextmanager
def counted(store: SQLiteStore) -> Iterator[list[int]]:
    """The work that SQLite does on the writer's connection, in units of its virtual machine; not a time."""
    steps = [0]

    def step() -> int:
        steps[0] += 1
        return 0

    assert store._opened is not None
    connection = store._opened.writer.connection
    connection.set_progress_handler(step, OPCODES)
    try:
        yield steps
    finally:
        connection.set_progress_handler(None, 0)


async def work_of_a_claim(store: SQLiteStore, worker: UUID, *, limit: int = 1) -> int:
    with counted(store) as steps:
        await claim(store, worker, types=MINE, limit=limit)
    return steps[0]


@pytest.mark.parametrize("priority", [Priority.CRITICAL, Priority.NORMAL])
@pytest.mark.parametrize("own_jobs", [0, 1, 5])
async def test_jobs_of_other_types_in_front_are_passed_once(
    store: SQLiteStore, priority: Priority, own_jobs: int
) -> None:
    worker = await register(store)
    await submit_jobs(store, *(new_job(type="theirs", priority=priority) for _ in range(FOREIGN)))
    own = [await submit_one(store, type="mine") for _ in range(own_jobs)]
    first = await work_of_a_claim(store, worker)
    second = await work_of_a_claim(store, worker)
    assert second < first / 5, (first, second)
    assert await claimed_ids(store, worker, types=MINE) == own[2:]
    assert len(await claim(store, worker, types=("theirs",), limit=1000)) == 1000


async def test_a_job_of_another_process_is_not_passed_by(store: SQLiteStore, open_store: OpenStore) -> None:
    worker, other = await register(store), await open_store()
    for _ in range(3):
        await submit_jobs(other, *(new_job(type="theirs") for _ in range(5)))
        assert await claim(store, worker, types=MINE) == []
        mine = [await submit_one(other, type="mine") for _ in range(2)]
        assert await claimed_ids(store, worker, types=MINE) == mine


async def test_a_claim_that_was_not_committed_has_passed_nothing(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await register(store)
    mine = [await submit_one(store, type="mine") for _ in range(3)]

    def fail(*_: object) -> None:
        raise OSError("the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(writer, "write_tally", fail)
        with pytest.raises(OSError, match="gone"):
            await claim(store, worker, types=MINE, limit=2)
    assert await claimed_ids(store, worker, types=MINE) == mine


async def passed_by(store: SQLiteStore, worker: UUID) -> UUID:
    """A job that a cursor has passed: it stands where none can come to stand."""
    await submit_jobs(store, *(new_job(type="mine") for _ in range(3)))
    assert len(await claim(store, worker, types=MINE)) == 3
    job: NewJob = new_job(type="mine")
    await store.submit([Submit(jobs=(job,))])
    await store._write(lambda tx: tx.cursor.execute("UPDATE holdfast_ready SET place = 1"))
    return job.id


async def test_a_file_whose_numbers_are_behind_was_restored(store: SQLiteStore) -> None:
    worker = await register(store)
    job_id = await passed_by(store, worker)
    await store._write(lambda tx: tx.cursor.execute("UPDATE sqlite_sequence SET seq = 1 WHERE name = 'holdfast_job'"))
    assert await claimed_ids(store, worker, types=MINE) == [job_id]


async def test_once_a_minute_claims_look_from_the_beginning(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await register(store)
    job_id = await passed_by(store, worker)
    assert await claimed_ids(store, worker, types=MINE) == []
    monkeypatch.setattr(cursors, "SEARCH_SECONDS", 0.0)
    assert await claimed_ids(store, worker, types=MINE) == [job_id]


async def test_a_job_without_a_type_in_its_row_is_claimed_by_its_type(store: SQLiteStore) -> None:
    """A program of before this column wrote it."""
    worker = await register(store)
    theirs, mine = await submit_one(store, type="theirs"), await submit_one(store, type="mine")
    await store._write(lambda tx: tx.cursor.execute("UPDATE holdfast_ready SET type = NULL"))
    assert await claimed_ids(store, worker, types=MINE) == [mine]
    assert await claimed_ids(store, worker, types=("theirs",)) == [theirs]
