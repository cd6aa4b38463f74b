"""Submits that share calls: one that waits for somebody's key or job keeps no other from being accepted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from holdfast.core.commands import NewJob, Submit, Submitted
from holdfast.core.errors import Unavailable
from holdfast.core.idempotency import KeyClaim
from holdfast.engine.submit import Submitter
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.locks import TRIED_KEYS
from holdfast.stores.postgres.transaction import PostgresTransaction
from holdfast.testing.factories import after, new_job, submit_jobs
from tests.integration.postgres.databases import LONG_SECONDS, connected, opened

BYSTANDERS = 6


@asynccontextmanager
async def callers_transaction(url: str) -> AsyncIterator[asyncpg.Connection]:
    async with connected(url) as connection, connection.transaction():
        yield connection


async def hold(store: PostgresStore, connection: asyncpg.Connection, what: str, parent: NewJob) -> NewJob:
    """In a caller's transaction, a key or a job; returns a job that needs it."""
    dependent = new_job(dependencies=after(parent.id))
    taken = new_job(key="taken") if what == "key" else dependent
    await store.submit([Submit(jobs=(taken,))], connection=connection)
    return new_job(key="taken") if what == "key" else new_job(dependencies=after(parent.id))


def bystanders() -> list[NewJob]:
    return [
        new_job(**options) for n in range(BYSTANDERS) for options in ({}, {"key": f"free {n}"}, {"tags": {"a": "b"}})
    ]


async def in_time(work: Any) -> Any:
    async with asyncio.timeout(LONG_SECONDS / 2):
        return await work


@pytest.mark.parametrize("what", ["key", "job"])
async def test_a_submit_that_waits_for_somebody_keeps_no_other_from_being_accepted(
    url: str, store: PostgresStore, what: str
) -> None:
    submitter = Submitter(store)
    parent = new_job()
    await submit_jobs(store, parent)
    async with callers_transaction(url) as connection:
        job = await hold(store, connection, what, parent)
        first = [asyncio.create_task(submitter.submit(Submit(jobs=(one,)))) for one in bystanders()]
        waiting = asyncio.create_task(submitter.submit(Submit(jobs=(job,))))
        for _ in range(3):
            submits = [submitter.submit(Submit(jobs=(one,))) for one in bystanders()]
            await in_time(asyncio.gather(*first, *submits))
        assert not waiting.done()
    (answer,) = await in_time(waiting)
    assert answer.is_duplicate == (what == "key")


@pytest.mark.parametrize("what", ["key", "job"])
async def test_a_submit_that_waits_for_somebody_keeps_to_its_timeout(url: str, store: PostgresStore, what: str) -> None:
    submitter = Submitter(store, timeout_seconds=1.0)
    parent = new_job()
    await submit_jobs(store, parent)
    async with callers_transaction(url) as connection:
        job = await hold(store, connection, what, parent)
        with pytest.raises(Unavailable):
            await in_time(submitter.submit(Submit(jobs=(job,))))
    assert await submitter.submit(Submit(jobs=(new_job(),)))


@pytest.mark.parametrize("count", [20, TRIED_KEYS + 1])
async def test_submits_that_wait_for_keys_use_up_no_connections(url: str, count: int) -> None:
    async with opened(url, pool_size=2) as store, callers_transaction(url) as connection:
        submitter = Submitter(store)
        taken = [f"taken {n}" for n in range(count)]
        await store.submit([Submit(jobs=tuple(new_job(key=key) for key in taken))], connection=connection)
        waiting = [asyncio.create_task(submitter.submit(Submit(jobs=(new_job(key=key),)))) for key in taken]
        await asyncio.sleep(0)
        for job in bystanders():
            await in_time(submitter.submit(Submit(jobs=(job,))))
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_key_among_many_that_somebody_took_holds_up_a_shared_call_for_a_moment(
    url: str, store: PostgresStore
) -> None:
    """Of more keys than take advisory locks. What waits for one does so for less than a wait for a job."""
    many = [f"taken {n}" for n in range(TRIED_KEYS + 1)]
    async with callers_transaction(url) as connection:
        await store.submit([Submit(jobs=tuple(new_job(key=key) for key in many))], connection=connection)
        wanted = [*many[:60], *(f"free {n}" for n in range(20))]
        answers = await in_time(store.submit([Submit(jobs=(new_job(key=key),)) for key in wanted]))
        assert [isinstance(answer, Unavailable) for answer in answers] == [True] * 60 + [False] * 20


async def test_after_its_keys_a_submit_is_as_patient_as_ever(url: str, store: PostgresStore) -> None:
    """It waits for others than those who hold keys, too: the counts are being added up."""

    async def verb(tx: PostgresTransaction) -> list[str]:
        rows = [(await tx._executor.fetch("SHOW lock_timeout"))[0]["lock_timeout"]]
        job = new_job(key="key")
        await tx.lock_keys([KeyClaim(job_type=job.type, key="key", job_id=job.id, digest=b"", expires_at=tx.now)])
        return [*rows, (await tx._executor.fetch("SHOW lock_timeout"))[0]["lock_timeout"]]

    before, behind = await store._database.transact(verb)
    assert before == behind


async def test_simultaneous_submits_of_one_key_make_one_job(store: PostgresStore, other_store: PostgresStore) -> None:
    submitters = [Submitter(store), Submitter(other_store)]
    submits = [one.submit(Submit(jobs=(new_job(key=f"key {n % 10}"),))) for n in range(60) for one in submitters]
    answers: list[tuple[Submitted, ...]] = await in_time(asyncio.gather(*submits))
    assert len({answer.job_id for (answer,) in answers}) == 10
    assert sum(not answer.is_duplicate for (answer,) in answers) == 10
