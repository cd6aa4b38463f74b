"""The log (``-wal``) stays as long as documented, whatever is written and by how many."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

from holdfast.core.payload import Payload
from holdfast.core.states import State
from holdfast.stores.sqlite import SQLiteStore
from holdfast.stores.sqlite.connection import LOG_BYTES
from holdfast.stores.sqlite.writer import RESTART_BYTES
from holdfast.testing.factories import new_job, read_counts, submit_jobs, submit_one
from tests.integration.sqlite.conftest import OpenStore
from tests.integration.sqlite.processes import finish, start

ONE_TRANSACTION_BYTES = 2 * 1024 * 1024
LARGE = Payload.of("x" * 900_000)


def log_bytes(store: SQLiteStore) -> int:
    return Path(f"{store.path}-wal").stat().st_size


async def longest_log(store: SQLiteStore, *, times: int, work: Callable[[], object]) -> int:
    longest = 0
    for _ in range(times):
        await work()  # type: ignore[misc]
        longest = max(longest, log_bytes(store))
    return longest


async def test_large_payloads_do_not_lengthen_the_log(store: SQLiteStore) -> None:
    longest = await longest_log(store, times=60, work=lambda: submit_one(store, payload=LARGE))
    assert LOG_BYTES <= longest <= LOG_BYTES + ONE_TRANSACTION_BYTES


async def test_small_commits_after_a_bulk_load_do_not_lengthen_the_log(store: SQLiteStore) -> None:
    """A row of a bulk load takes a fraction of a page of the log, a single submit several pages."""
    await longest_log(store, times=40, work=lambda: submit_jobs(store, *(new_job() for _ in range(1000))))
    longest = await longest_log(store, times=1500, work=lambda: submit_one(store))
    assert longest <= LOG_BYTES + ONE_TRANSACTION_BYTES
    assert await read_counts(store) == {State.SCHEDULED: 41_500}


async def test_a_log_that_a_reader_kept_long_is_cut_back_when_the_reader_is_gone(store: SQLiteStore) -> None:
    await submit_one(store)
    with contextlib.closing(sqlite3.connect(store.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM holdfast_job").fetchone()
        assert await longest_log(store, times=60, work=lambda: submit_one(store, payload=LARGE)) > RESTART_BYTES
    await longest_log(store, times=6, work=lambda: submit_one(store, payload=LARGE))
    assert log_bytes(store) <= LOG_BYTES + ONE_TRANSACTION_BYTES


async def test_processes_that_write_and_read_all_the_time_do_not_lengthen_the_log(
    path: Path, open_store: OpenStore
) -> None:
    store = await open_store()
    others = [start("submit_large", path, 150) for _ in range(2)]
    longest = 0
    while any(other.poll() is None for other in others):
        longest = max(longest, log_bytes(store))
        await asyncio.sleep(0.01)
    for other in others:
        await asyncio.to_thread(finish, other)
    written = sum((await read_counts(store)).values()) * len(LARGE.data) // 4
    assert written > 2 * RESTART_BYTES
    assert longest <= RESTART_BYTES + LOG_BYTES
