"""submit inside the caller's own transaction."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.core.commands import Submit, Submitted
from holdfast.core.errors import IdempotencyConflict, InvalidInput, Unavailable, UsageError
from holdfast.core.job import as_given
from holdfast.core.payload import Payload
from holdfast.core.states import State
from holdfast.stores.sqlite import SQLiteStore
from holdfast.testing.factories import (
    after,
    field_values,
    hears,
    new_job,
    read_counts,
    read_one,
    submit_jobs,
    submit_one,
)
from holdfast.testing.invariants import require_consistent


@pytest.fixture
def mine(path: Path, store: SQLiteStore) -> Iterator[sqlite3.Connection]:
    """The caller's connection, with a table of the caller's."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE orders (name TEXT)")
        yield connection


async def test_jobs_are_accepted_with_the_commit(store: SQLiteStore, mine: sqlite3.Connection) -> None:
    job = new_job()
    mine.execute("INSERT INTO orders VALUES ('tea')")
    answers = await store.submit([Submit(jobs=(job,))], connection=mine)
    assert answers == [(Submitted(job.id),)]
    assert await store.read([job.id]) == [None]
    mine.commit()
    assert (await read_one(store, job.id)).state is State.SCHEDULED
    await require_consistent(store)


async def test_every_field_is_kept(store: SQLiteStore, mine: sqlite3.Connection) -> None:
    values = field_values(datetime.now(UTC))
    jobs = {name: new_job(**{name: value}) for name, value in values.items()}
    await store.submit([Submit(jobs=tuple(jobs.values()))], connection=mine)
    mine.commit()
    for name, job in jobs.items():
        found = await read_one(store, job.id)
        given = {**as_given(job), "priority": job.priority}
        assert {one: getattr(found, one) for one in given} == given, name


async def test_jobs_are_gone_with_the_rollback(store: SQLiteStore, mine: sqlite3.Connection) -> None:
    mine.execute("INSERT INTO orders VALUES ('tea')")
    await store.submit([Submit(jobs=(new_job(), new_job(key="order-7")))], connection=mine)
    mine.rollback()
    assert mine.execute("SELECT count(*) FROM orders").fetchone() == (0,)
    assert await read_counts(store) == {}
    await submit_one(store, key="order-7")
    await require_consistent(store)


async def test_a_submit_before_any_statement_opens_the_transaction(
    store: SQLiteStore, mine: sqlite3.Connection
) -> None:
    await store.submit([Submit(jobs=(new_job(),))], connection=mine)
    assert mine.in_transaction
    assert await read_counts(store) == {}
    mine.commit()
    assert await read_counts(store) == {State.SCHEDULED: 1}


async def test_keys_and_dependencies_hold_inside_the_transaction(store: SQLiteStore, mine: sqlite3.Connection) -> None:
    parent = await submit_one(store)
    child = new_job(dependencies=after(parent), key="order-7")
    await store.submit([Submit(jobs=(child,))], connection=mine)
    ((repeat,),) = await store.submit([Submit(jobs=(new_job(key="order-7"),))], connection=mine)  # type: ignore[misc]
    assert repeat == Submitted(child.id, is_duplicate=True)
    mine.commit()
    assert (await read_one(store, child.id)).state is State.PENDING
    await require_consistent(store)


async def test_a_refused_submit_raises_and_leaves_the_transaction_usable(
    store: SQLiteStore, mine: sqlite3.Connection
) -> None:
    await submit_jobs(store, new_job(key="order-7", payload=Payload.of(1)))
    mine.execute("INSERT INTO orders VALUES ('tea')")
    good, bad = new_job(), new_job(key="order-7", payload=Payload.of(2))
    with pytest.raises(IdempotencyConflict):
        await store.submit([Submit(jobs=(good,)), Submit(jobs=(bad,))], connection=mine)
    with pytest.raises(InvalidInput):
        await store.submit([Submit(jobs=(new_job(dependencies=after(uuid4())),))], connection=mine)
    mine.commit()
    assert mine.execute("SELECT name FROM orders").fetchall() == [("tea",)]
    assert await store.read([good.id, bad.id]) == [None, None]
    await require_consistent(store)


async def test_the_connections_own_factories_stay(store: SQLiteStore, mine: sqlite3.Connection) -> None:
    mine.row_factory = sqlite3.Row
    mine.text_factory = bytes
    await store.submit([Submit(jobs=(new_job(key="order-7"),))], connection=mine)
    ((repeat,),) = await store.submit([Submit(jobs=(new_job(key="order-7"),))], connection=mine)  # type: ignore[misc]
    assert repeat.is_duplicate
    mine.commit()
    assert (mine.row_factory, mine.text_factory) == (sqlite3.Row, bytes)


async def test_without_a_transaction_in_autocommit_mode_the_call_is_refused(store: SQLiteStore, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        with pytest.raises(UsageError, match="BEGIN first"):
            await store.submit([Submit(jobs=(new_job(),))], connection=connection)
        connection.execute("BEGIN")
        await store.submit([Submit(jobs=(new_job(),))], connection=connection)
        connection.execute("COMMIT")
    assert await read_counts(store) == {State.SCHEDULED: 1}


async def test_a_connection_to_another_file_is_refused(store: SQLiteStore, tmp_path: Path) -> None:
    for other in (tmp_path / "other.db", ":memory:"):
        with closing(sqlite3.connect(other)) as connection, pytest.raises(UsageError, match="one file"):
            await store.submit([Submit(jobs=(new_job(),))], connection=connection)


async def test_a_connection_of_another_kind_is_refused(store: SQLiteStore) -> None:
    with pytest.raises(UsageError, match=r"sqlite3\.Connection"):
        await store.submit([Submit(jobs=(new_job(),))], connection=object())


async def test_a_connection_of_another_thread_is_refused(store: SQLiteStore, path: Path) -> None:
    connection = await asyncio.to_thread(sqlite3.connect, path)
    with pytest.raises(UsageError, match="thread"):
        await store.submit([Submit(jobs=(new_job(),))], connection=connection)


async def test_a_transaction_with_an_old_snapshot_is_told_to_begin_again(
    store: SQLiteStore, mine: sqlite3.Connection
) -> None:
    mine.execute("BEGIN")
    mine.execute("SELECT * FROM orders").fetchall()
    await submit_one(store)
    with pytest.raises(Unavailable, match="BEGIN IMMEDIATE"):
        await store.submit([Submit(jobs=(new_job(),))], connection=mine)
    mine.rollback()
    assert await read_counts(store) == {State.SCHEDULED: 1}


async def test_whoever_waits_is_woken_by_the_commit(store: SQLiteStore, mine: sqlite3.Connection) -> None:
    waiting = asyncio.ensure_future(hears(store, ["default"], within_seconds=30))
    await store.submit([Submit(jobs=(new_job(),))], connection=mine)
    done, _ = await asyncio.wait({waiting}, timeout=0.1)
    assert not done
    mine.commit()
    assert await waiting
