"""Wake-ups between processes: LISTEN and NOTIFY are quick, few, and never needed."""

import asyncio

import asyncpg
import pytest

from holdfast.stores.postgres import PostgresStore, wake
from holdfast.stores.postgres.wake import MAX_PAYLOAD_BYTES, payloads_of
from holdfast.testing.factories import hears, register, running_job, settle, submit_one
from tests.integration.postgres.databases import LONG_SECONDS, connected, fetch, listening, opened

QUIET_SECONDS = 0.2
SUBMITS = 200


def waiting(store: PostgresStore, queue: str = "default", *, seconds: float = LONG_SECONDS) -> asyncio.Task[bool]:
    return asyncio.create_task(hears(store, [queue], within_seconds=seconds))


async def test_a_submit_in_one_store_wakes_a_waiter_in_another(
    store: PostgresStore, other_store: PostgresStore
) -> None:
    await listening(other_store)
    waiter = waiting(other_store)
    await asyncio.sleep(0)
    await submit_one(store)
    assert await waiter


async def test_work_in_another_queue_wakes_nobody(store: PostgresStore, other_store: PostgresStore) -> None:
    await listening(other_store)
    waiter = waiting(other_store, seconds=QUIET_SECONDS)
    await submit_one(store, queue="another")
    assert not await waiter


async def test_work_in_another_schema_wakes_nobody(url: str, other_store: PostgresStore) -> None:
    await listening(other_store)
    waiter = waiting(other_store, seconds=QUIET_SECONDS)
    async with connected(url) as connection:
        await connection.execute("SELECT pg_notify('holdfast_other', 'default')")
    assert not await waiter


async def test_a_listener_whose_connection_was_cut_listens_again(
    store: PostgresStore, other_store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake, "RECONNECT_AFTER_SECONDS", 0.05)
    await listening(other_store)
    waiter = waiting(other_store)
    await cut_listeners(url)
    # What was said meanwhile is unknown, so that everybody is woken once it listens again.
    assert await waiter
    await listening(other_store)
    waiter = waiting(other_store)
    await asyncio.sleep(0)
    await submit_one(store)
    assert await waiter


async def cut_listeners(url: str) -> None:
    """Ends the connections that have said LISTEN last, and waits until they are gone."""
    async with connected(url) as connection:
        where = "datname = current_database() AND query LIKE 'LISTEN %'"
        cut = await connection.fetch(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {where}")
        assert cut
        for _ in range(1000):
            if not await connection.fetchval(f"SELECT count(*) FROM pg_stat_activity WHERE {where}"):
                return
            await asyncio.sleep(0.01)
    raise AssertionError("a listener's connection is still there")


@pytest.mark.parametrize("options", [{"listen": False}, {}])
async def test_without_notifications_a_waiter_comes_back_in_time(url: str, options: dict[str, bool]) -> None:
    async with opened(url, notify=False) as store, opened(url, **options) as other:
        if options.get("listen", True):
            await listening(other)
        waiter = waiting(other, seconds=QUIET_SECONDS)
        await submit_one(store)
        assert not await waiter


async def test_a_store_wakes_its_own_waiters_without_the_database(url: str) -> None:
    async with opened(url, notify=False, listen=False) as store:
        waiter = waiting(store)
        await asyncio.sleep(0)
        await submit_one(store)
        assert await waiter


async def heard_from(url: str, heard: list[str]) -> asyncpg.Connection:
    connection = await asyncpg.connect(url)
    await connection.add_listener("holdfast_holdfast", lambda *arguments: heard.append(str(arguments[-1])))
    return connection


async def test_many_submits_send_few_notifications(store: PostgresStore, url: str) -> None:
    heard: list[str] = []
    connection = await heard_from(url, heard)
    try:
        await asyncio.gather(*(submit_one(store, queue=f"queue-{n % 3}") for n in range(SUBMITS)))
        for _ in range(1000):
            if {name for payload in heard for name in payload.split("\n")} == {"queue-0", "queue-1", "queue-2"}:
                break
            await asyncio.sleep(0.01)
        await asyncio.sleep(QUIET_SECONDS)
    finally:
        await connection.close()
    assert 1 <= len(heard) <= SUBMITS / 4, len(heard)
    assert {name for payload in heard for name in payload.split("\n")} == {"queue-0", "queue-1", "queue-2"}


@pytest.mark.parametrize("submits", [1, 2, 3])
async def test_a_program_that_submits_and_ends_has_told_of_its_last_job(
    url: str, other_store: PostgresStore, submits: int
) -> None:
    """Else the job would lie there until a worker's poll."""
    await listening(other_store)
    waiter = waiting(other_store, "last")
    async with opened(url) as store:
        for number in range(submits):
            await submit_one(store, queue="last" if number == submits - 1 else f"queue-{number}")
    assert await waiter


async def test_work_that_wakes_nobody_sends_nothing(store: PostgresStore, url: str) -> None:
    """A notification takes a lock that all committers of a database share."""
    heard: list[str] = []
    connection = await heard_from(url, heard)
    try:
        worker = await register(store)
        await submit_one(store, delay_seconds=60.0)
        job = await running_job(store, worker=worker, queue="q")
        await asyncio.sleep(QUIET_SECONDS)
        heard.clear()
        await settle(store, job)
        await store.read_queues()
        await asyncio.sleep(QUIET_SECONDS)
    finally:
        await connection.close()
    assert heard == []


async def test_a_store_that_nobody_waits_on_does_not_listen(store: PostgresStore, url: str) -> None:
    await submit_one(store)
    listeners = await fetch(
        url, "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN %' AND datname = current_database()"
    )
    assert listeners == []


# payloads


def test_names_are_joined_in_as_few_payloads_as_they_fit_in() -> None:
    assert payloads_of([]) == []
    assert payloads_of(["b", "a"]) == ["a\nb"]
    names = [f"{n:03}" + "ü" * 250 for n in range(100)]
    payloads = payloads_of(names)
    assert [name for payload in payloads for name in payload.split("\n")] == names
    assert max(len(payload.encode()) for payload in payloads) <= MAX_PAYLOAD_BYTES
    assert len(payloads) == 7
