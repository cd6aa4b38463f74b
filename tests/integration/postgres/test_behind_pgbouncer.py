"""Behind a pooler in transaction mode: the whole conformance suite, and nothing left on the server's connections."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest

from holdfast.core.ports import Store
from holdfast.core.states import State
from holdfast.stores.postgres import PostgresStore
from holdfast.testing import ManualClock, StoreHarness
from holdfast.testing.factories import (
    FAIL,
    after,
    claim,
    job_in_state,
    new_job,
    register,
    replay_one,
    settle,
    submit_jobs,
    tick,
)
from holdfast.testing.invariants import require_consistent, require_healthy
from holdfast.testing.store_suite import *  # noqa: F403
from tests.integration.postgres.databases import connected, fetch
from tests.servers import PgBouncer
from tests.servers.pgbouncer import POOL_SIZE

# LISTEN needs a session of its own, which a pooler in transaction mode does not give: other processes poll.
globals().pop("test_a_waiter_of_another_store_is_woken")


class PgBouncerHarness:
    is_durable = True

    def __init__(self, pooled_url: str, direct_url: str) -> None:
        self.clock = ManualClock()
        self._pooled_url = pooled_url
        self._direct_url = direct_url
        self._opened: list[PostgresStore] = []
        self.store: Store

    async def second_store(self) -> Store:
        store = PostgresStore(self._pooled_url, clock=self.clock, prepared_statements=False, listen=False)
        await store.open()
        self._opened.append(store)
        return store

    async def reopened(self) -> Store:
        await self.store.close()
        self.store = await self.second_store()
        return self.store

    async def forget_worker(self, worker_id: UUID) -> None:
        await fetch(self._direct_url, "DELETE FROM holdfast.worker WHERE id = $1", worker_id)

    async def set_max_attempts(self, job_id: UUID, max_attempts: int) -> None:
        await fetch(self._direct_url, "UPDATE holdfast.job SET max_attempts = $2 WHERE id = $1", job_id, max_attempts)

    async def close(self) -> None:
        await asyncio.gather(*(store.close() for store in self._opened))


@pytest.fixture
def pooled_url(url: str, pgbouncer: PgBouncer, migrated_database: str) -> str:
    return pgbouncer.url(migrated_database)


@pytest.fixture
async def harness(url: str, pooled_url: str) -> AsyncIterator[StoreHarness]:
    harness = PgBouncerHarness(pooled_url, url)
    harness.store = await harness.second_store()
    try:
        yield harness
        await require_consistent(harness.store)
        await require_healthy(harness)
    finally:
        await harness.close()


async def use_every_kind_of_statement(store: Store) -> None:
    queue = f"queue-{uuid4().hex}"
    parent, keyed = new_job(queue=queue), new_job(queue=queue, key=queue, tags={"a": "b"})
    await submit_jobs(store, parent, keyed, new_job(dependencies=after(parent.id)))
    worker = await register(store)
    first, second = await claim(store, worker, queues=(queue,))
    await settle(store, first)
    await settle(store, second, FAIL)
    await replay_one(store, second.id)
    for state in State:
        await job_in_state(store, state)
    await tick(store)


async def test_no_setting_is_left_on_the_servers_connections(harness: StoreHarness, url: str, pooled_url: str) -> None:
    await asyncio.gather(*(use_every_kind_of_statement(harness.store) for _ in range(POOL_SIZE)))
    async with connected(url) as fresh:
        expected = {row["name"]: row["setting"] for row in await fresh.fetch("SELECT name, setting FROM pg_settings")}
    # Held open together, so that every one of the pooler's connections is looked at.
    everyone_has_one = asyncio.Barrier(POOL_SIZE)

    async def settings_and_backend() -> tuple[dict[str, str], int]:
        async with connected(pooled_url) as client, client.transaction():
            backend = await client.fetchval("SELECT pg_backend_pid()")
            await everyone_has_one.wait()
            rows = await client.fetch("SELECT name, setting FROM pg_settings")
            return {row["name"]: row["setting"] for row in rows}, backend

    async with asyncio.timeout(20):
        seen = await asyncio.gather(*(settings_and_backend() for _ in range(POOL_SIZE)))
    assert len({backend for _, backend in seen}) == POOL_SIZE
    for settings, _ in seen:
        assert settings["enable_seqscan"] == "on"
        assert settings["synchronous_commit"] == "on"
        different = {name for name in expected if settings[name] != expected[name]}
        # Set by the client at its start and kept apart by PgBouncer.
        assert different <= {"application_name", "client_encoding", "DateStyle", "TimeZone"}, different


async def test_nothing_that_belongs_to_a_session_is_left_behind(harness: StoreHarness, url: str) -> None:
    await use_every_kind_of_statement(harness.store)
    locks = await fetch(
        url,
        """
        SELECT l.locktype, l.mode FROM pg_locks l JOIN pg_stat_activity a USING (pid)
        WHERE a.datname = current_database() AND pid <> pg_backend_pid()
        """,
    )
    assert locks == []
    open_transactions = await fetch(
        url,
        """
        SELECT query FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'
        """,
    )
    assert open_transactions == []
    temporary = await fetch(url, "SELECT relname FROM pg_class WHERE relpersistence = 't'")
    assert temporary == []


async def test_nothing_is_prepared_on_the_servers_connections(harness: StoreHarness, pooled_url: str) -> None:
    """A statement prepared on one connection would be unknown on the next, or belong to somebody else."""
    await use_every_kind_of_statement(harness.store)
    async with connected(pooled_url) as client:
        named = await client.fetch("SELECT name FROM pg_prepared_statements WHERE name <> ''")
    assert named == []
