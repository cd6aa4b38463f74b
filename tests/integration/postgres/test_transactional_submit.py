"""submit(connection=…): jobs are accepted by the caller's commit, with whatever driver the caller has."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from uuid import UUID, uuid4

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from holdfast.core.commands import NewJob, Submit, Submitted
from holdfast.core.errors import HoldfastError, IdempotencyConflict, InvalidInput, Unavailable, UsageError
from holdfast.core.job import as_given
from holdfast.core.payload import Payload
from holdfast.core.priority import Priority
from holdfast.core.states import State
from holdfast.stores.postgres import PostgresStore
from holdfast.testing.factories import (
    after,
    claimed_ids,
    field_values,
    hears,
    new_job,
    read_counts,
    read_one,
    read_states,
    register,
    submit_one,
)
from holdfast.testing.invariants import require_consistent
from tests.integration.postgres.callers import CALLERS, Caller, OpenCaller, dialect, with_asyncpg, with_psycopg
from tests.integration.postgres.databases import connected, fetch, listening, somebody_waits_for_a_lock

# Shorter than the time a waiter is given, long enough for a wake-up that should not come.
QUIET_SECONDS = 0.2
LONG_SECONDS = 20.0


@pytest.fixture(params=CALLERS)
def open_caller(request: pytest.FixtureRequest) -> OpenCaller:
    return CALLERS[request.param]


@pytest.fixture
async def caller(open_caller: OpenCaller, url: str) -> AsyncIterator[Caller]:
    async with open_caller(url) as caller:
        yield caller


async def submit_within(store: PostgresStore, caller: Caller, *jobs: NewJob) -> tuple[Submitted, ...]:
    (answer,) = await store.submit([Submit(jobs=jobs)], connection=caller.connection)
    assert not isinstance(answer, HoldfastError)
    return answer


def workflow() -> list[NewJob]:
    """A plain job, a keyed one with every option, and one that waits for both."""
    plain = new_job()
    keyed = new_job(
        key="order-7",
        payload=Payload.of({"text": "100 %s and %(p1)s, $1 — ü", "n": 1.5}),
        priority=Priority.HIGH,
        tags={"a%": "b"},
        correlation_id="%",
        delay_seconds=3600.0,
    )
    raw = new_job(payload=Payload.of_bytes(bytes(range(256))))
    return [plain, keyed, raw, new_job(dependencies=after(plain.id, keyed.id))]


async def test_jobs_are_seen_after_the_callers_commit_and_not_before(store: PostgresStore, caller: Caller) -> None:
    jobs = workflow()
    ids = [job.id for job in jobs]
    answers = await submit_within(store, caller, *jobs)
    assert [answer.job_id for answer in answers] == ids
    worker = await register(store)
    assert await store.read(ids) == [None] * 4
    assert await claimed_ids(store, worker) == []
    assert await store.read_queues() == []
    await caller.commit()
    assert await read_states(store, ids) == [State.SCHEDULED, State.DELAYED, State.SCHEDULED, State.PENDING]
    await require_consistent(store)
    keyed = await read_one(store, ids[1])
    assert (keyed.key, keyed.payload, keyed.tags) == ("order-7", jobs[1].payload, {"a%": "b"})
    assert (keyed.priority, keyed.correlation_id) == (Priority.HIGH, "%")
    assert (await read_one(store, ids[2])).payload == jobs[2].payload
    assert await claimed_ids(store, worker) == [ids[0], ids[2]]


async def test_every_field_is_kept(store: PostgresStore, caller: Caller) -> None:
    values = field_values(datetime.now(UTC))
    jobs = {name: new_job(**{name: value}) for name, value in values.items()}
    await submit_within(store, caller, *jobs.values())
    await caller.commit()
    for name, job in jobs.items():
        found = await read_one(store, job.id)
        given = {**as_given(job), "priority": job.priority}
        assert {one: getattr(found, one) for one in given} == given, name


async def test_jobs_are_gone_after_the_callers_rollback(store: PostgresStore, caller: Caller) -> None:
    jobs = workflow()
    await submit_within(store, caller, *jobs)
    await caller.rollback()
    assert await store.read([job.id for job in jobs]) == [None] * 4
    assert await store.read_queues() == []
    # The key is free again, and the IDs too.
    (answer,) = await store.submit([Submit(jobs=tuple(jobs))])
    assert answer == tuple(Submitted(job.id) for job in jobs)


async def test_a_refused_submit_leaves_the_callers_transaction_as_it_was(
    store: PostgresStore, caller: Caller, url: str
) -> None:
    taken = await submit_one(store, key="k", payload=Payload.of(1))
    await caller.execute("CREATE TABLE orders (id integer)")
    await caller.execute("INSERT INTO orders VALUES (1)")
    kept = new_job()
    await submit_within(store, caller, kept)
    with pytest.raises(IdempotencyConflict):
        await submit_within(store, caller, new_job(), new_job(key="k", payload=Payload.of(2)))
    with pytest.raises(InvalidInput):
        await submit_within(store, caller, new_job(), new_job(dependencies=after(uuid4())))
    await caller.execute("INSERT INTO orders VALUES (2)")
    await caller.commit()
    try:
        assert [row["id"] for row in await fetch(url, "SELECT id FROM orders ORDER BY id")] == [1, 2]
    finally:
        await fetch(url, "DROP TABLE orders")
    assert set(await all_ids(url)) == {taken, kept.id}
    await require_consistent(store)


async def test_a_key_that_is_taken_answers_with_its_job(store: PostgresStore, caller: Caller) -> None:
    taken = await submit_one(store, key="k")
    assert await submit_within(store, caller, new_job(key="k")) == (Submitted(taken, is_duplicate=True),)
    await caller.commit()


async def test_a_repeat_in_a_later_transaction_doubles_nothing(
    store: PostgresStore, open_caller: OpenCaller, url: str
) -> None:
    """PORT-4: the commit's answer may be lost."""
    jobs = workflow()
    for _ in range(2):
        async with open_caller(url) as caller:
            await submit_within(store, caller, *jobs)
            await caller.commit()
    assert len(await all_ids(url)) == 4
    await require_consistent(store)


async def test_a_job_may_wait_for_one_of_the_same_transaction(store: PostgresStore, caller: Caller) -> None:
    first, second = new_job(), new_job()
    await submit_within(store, caller, first)
    await submit_within(store, caller, second, new_job(dependencies=after(first.id, second.id)))
    await caller.commit()
    assert await read_counts(store) == {State.PENDING: 1, State.SCHEDULED: 2}


async def test_a_thousand_jobs_fit_in_one_submit(store: PostgresStore, caller: Caller) -> None:
    jobs = [new_job() for _ in range(1000)]
    await submit_within(store, caller, *jobs)
    await caller.commit()
    assert await read_counts(store) == {State.SCHEDULED: 1000}
    assert await claimed_ids(store, await register(store), limit=1000) == [job.id for job in jobs]


async def test_the_commit_wakes_a_waiting_worker(
    store: PostgresStore, other_store: PostgresStore, caller: Caller
) -> None:
    """The NOTIFY is sent inside the caller's transaction, so the commit delivers it."""
    async with asyncio.timeout(LONG_SECONDS):
        await listening(other_store)
        waiter = asyncio.create_task(hears(other_store, ["default"], within_seconds=LONG_SECONDS))
        await submit_within(store, caller, new_job())
        done, _ = await asyncio.wait({waiter}, timeout=QUIET_SECONDS)
        assert not done, "woken before the commit"
        await caller.commit()
        assert await waiter


async def test_a_rollback_wakes_nobody(store: PostgresStore, other_store: PostgresStore, url: str) -> None:
    await listening(other_store)
    waiter = asyncio.create_task(hears(other_store, ["default"], within_seconds=QUIET_SECONDS))
    async with with_asyncpg(url) as caller:
        await submit_within(store, caller, new_job())
        await caller.rollback()
    assert not await waiter


async def all_ids(url: str) -> list[UUID]:
    return [UUID(str(row["id"])) for row in await fetch(url, "SELECT id FROM holdfast.job ORDER BY seq")]


# what is refused


async def test_asyncpg_outside_of_a_transaction_is_refused(store: PostgresStore, url: str) -> None:
    async with connected(url) as connection:
        with pytest.raises(UsageError, match="inside a transaction"):
            await store.submit([Submit(jobs=(new_job(),))], connection=connection)
    assert await all_ids(url) == []


async def test_psycopg_in_autocommit_is_refused(store: PostgresStore, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection, pytest.raises(UsageError, match="autocommit"):
        await store.submit([Submit(jobs=(new_job(),))], connection=connection)
    assert await all_ids(url) == []


async def test_psycopg_in_autocommit_but_in_a_transaction_is_taken(store: PostgresStore, url: str) -> None:
    job = new_job()
    with psycopg.connect(url, autocommit=True) as connection, connection.transaction():
        await store.submit([Submit(jobs=(job,))], connection=connection)
        assert await all_ids(url) == []
    assert await all_ids(url) == [job.id]


async def test_asynchronous_psycopg_in_autocommit_is_refused(store: PostgresStore, url: str) -> None:
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
    async with connection:
        with pytest.raises(UsageError, match="autocommit"):
            await store.submit([Submit(jobs=(new_job(),))], connection=connection)
    assert await all_ids(url) == []


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_sqlalchemy_in_autocommit_is_refused(store: PostgresStore, url: str, driver: str) -> None:
    engine = create_async_engine(dialect(url, driver), isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        with pytest.raises(UsageError):
            await store.submit([Submit(jobs=(new_job(),))], connection=connection)
    await engine.dispose()
    assert await all_ids(url) == []


@pytest.mark.parametrize("foreign", [object(), "postgresql://", 7, sqlite3.Connection, asyncpg])
async def test_a_foreign_object_is_refused_and_named(store: PostgresStore, foreign: object) -> None:
    with pytest.raises(UsageError, match=type(foreign).__qualname__):
        await store.submit([Submit(jobs=(new_job(),))], connection=foreign)


async def test_another_database_behind_sqlalchemy_is_refused(store: PostgresStore) -> None:
    with create_engine("sqlite://").connect() as connection, pytest.raises(UsageError, match="give an asyncpg"):
        await store.submit([Submit(jobs=(new_job(),))], connection=connection)


async def test_an_engine_is_not_a_connection(store: PostgresStore, url: str) -> None:
    with pytest.raises(UsageError, match="Engine"):
        await store.submit([Submit(jobs=(new_job(),))], connection=create_engine(dialect(url, "psycopg")))


# what goes wrong


@pytest.mark.parametrize("open_caller", [with_asyncpg, with_psycopg], indirect=False)
async def test_a_transaction_that_has_failed_already_is_the_callers_fault(
    store: PostgresStore, open_caller: OpenCaller, url: str
) -> None:
    async with open_caller(url) as caller:
        with pytest.raises((asyncpg.PostgresError, psycopg.Error)):
            await caller.execute("SELECT 1 / 0")
        with pytest.raises(UsageError, match="failed"):
            await submit_within(store, caller, new_job())
        await caller.rollback()


@pytest.mark.parametrize("name", ["asyncpg", "psycopg", "psycopg async", "sqlalchemy async session, psycopg"])
async def test_a_connection_that_was_lost_is_unavailable(store: PostgresStore, name: str, url: str) -> None:
    async with AsyncExitStack() as stack:
        # Ending a transaction on a connection that is gone fails in every driver's own way.
        stack.enter_context(contextlib.suppress(Exception))
        caller = await stack.enter_async_context(CALLERS[name](url))
        await caller.execute("SELECT 1")
        await fetch(
            url,
            """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND state = 'idle in transaction'
            """,
        )
        for _ in range(2):
            with pytest.raises(Unavailable):
                await submit_within(store, caller, new_job())
        await stack.aclose()
    assert await all_ids(url) == []


async def test_names_too_long_for_one_notification_are_no_obstacle(
    store: PostgresStore, other_store: PostgresStore, url: str
) -> None:
    queues = [f"{n}-" + "ü" * 250 for n in range(50)]
    await listening(other_store)
    waiter = asyncio.create_task(hears(other_store, queues[-1:], within_seconds=LONG_SECONDS))
    async with with_asyncpg(url) as caller:
        await submit_within(store, caller, *(new_job(queue=queue) for queue in queues))
        await caller.commit()
    assert await waiter


async def test_two_transactions_with_one_key_make_one_job(store: PostgresStore, url: str) -> None:
    """The second waits for the first to end, and is then answered with its job."""
    async with with_asyncpg(url) as first, with_asyncpg(url) as second:
        (one,) = await submit_within(store, first, new_job(key="k"))
        waiting = asyncio.create_task(submit_within(store, second, new_job(key="k")))
        await somebody_waits_for_a_lock(url)
        await first.commit()
        assert await waiting == (Submitted(one.job_id, is_duplicate=True),)
        await second.commit()


async def test_two_transactions_with_one_job_make_one_job(store: PostgresStore, url: str) -> None:
    """PORT-4: a repeat while the first try is still under way."""
    job = new_job()
    async with with_asyncpg(url) as first, with_asyncpg(url) as second:
        await submit_within(store, first, job)
        waiting = asyncio.create_task(submit_within(store, second, job))
        await somebody_waits_for_a_lock(url)
        await first.commit()
        assert await waiting == (Submitted(job.id),)
        await second.commit()
    assert await all_ids(url) == [job.id]
    await require_consistent(store)
