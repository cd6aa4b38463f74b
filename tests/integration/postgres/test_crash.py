"""Servers that die, connections that are cut and callers who give up: nothing accepted is lost, nothing doubled."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

import pytest

from holdfast.core.commands import NewJob, Settled
from holdfast.core.errors import StaleLease, Unavailable
from holdfast.core.states import State
from holdfast.stores.postgres import PostgresStore, migrate
from holdfast.testing.factories import (
    RETRY,
    claim,
    claim_one,
    hears,
    new_job,
    read_one,
    read_state,
    register,
    running_job,
    settle,
    settle_answer,
    submit_jobs,
    submit_one,
    tick,
)
from holdfast.testing.invariants import require_consistent
from tests.conftest import started_postgres
from tests.integration.postgres.books import CALL_SECONDS, Books, clients, growth, repeated, require_books_kept
from tests.integration.postgres.databases import (
    connected,
    fetch,
    jobs_that_stand_wrongly,
    opened,
    somebody_waits_for_a_lock,
)
from tests.servers import PostgresServer

# the server


@dataclass(frozen=True)
class Server:
    process: PostgresServer
    url: str
    """Of a migrated database of the test's own."""


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server to kill, one for all tests here: it comes back from everything that they do to it."""
    with started_postgres() as server:
        yield server


@pytest.fixture
def server(own_server: PostgresServer) -> Iterator[Server]:
    own_server.start()
    name = own_server.create_database()
    asyncio.run(migrate.upgrade(own_server.url(name)))
    yield Server(own_server, own_server.url(name))
    own_server.start()
    own_server.drop_database(name)


async def test_a_killed_server_loses_nothing_and_the_store_goes_on(server: Server) -> None:
    books = Books()
    async with opened(server.url) as store:
        async with clients(store, books):
            for _ in range(2):
                await growth(books.submitted, 100)
                await growth(books.settled, 30)
                await asyncio.to_thread(server.process.kill9)
                await asyncio.sleep(0.1)
                await asyncio.to_thread(server.process.start)
            await growth(books.submitted, 100)
            await growth(books.settled, 30)
        assert books.outages > 0
        await require_books_kept(server.url, books)
        # The leases of the crash, too, come to an end.
        assert await store.read_queues()


async def test_what_was_acknowledged_last_survives_the_crash_that_follows(server: Server) -> None:
    """Accepted means durable: each way to write by itself, with nothing after it that takes it to the disk along."""
    async with opened(server.url) as store:
        await keep_the_log_in_memory(server.url)
        worker = await register(store)
        leases = [await running_job(store, worker=worker, queue="q") for _ in range(2)]
        one, batch = new_job(), [new_job() for _ in range(3)]
        verbs: list[tuple[Callable[[], Awaitable[object]], UUID, State]] = [
            (lambda: submit_jobs(store, one), one.id, State.SCHEDULED),
            (lambda: submit_jobs(store, *batch), batch[-1].id, State.SCHEDULED),
            (lambda: settle(store, leases[0]), leases[0].id, State.COMPLETED),
            (lambda: settle(store, leases[1], RETRY), leases[1].id, State.RETRYING),
        ]
        for verb, job_id, state in verbs:
            await verb()
            server.process.kill9()
            server.process.start()
            assert await read_state_when_back(store, job_id) is state


async def keep_the_log_in_memory(url: str) -> None:
    """The writer of the log would have everything on disk within a fraction of a second."""
    await fetch(url, "ALTER SYSTEM SET wal_writer_delay = '10s'")
    await fetch(url, "SELECT pg_reload_conf()")


async def test_a_claim_that_the_server_forgot_makes_the_job_ready_again(server: Server) -> None:
    """Claims commit without waiting for the disk: a crash may take the newest of them back."""
    async with opened(server.url) as store:
        await keep_the_log_in_memory(server.url)
        worker = await register(store)
        kept, forgotten = await submit_one(store, queue="kept"), await submit_one(store, queue="forgotten")
        held = await claim_one(store, worker, queues=("kept",))
        # Waits for the disk, and takes the claim before it along.
        await submit_one(store, queue="another")
        lost = await claim_one(store, worker, queues=("forgotten",))
        assert (held.id, lost.id) == (kept, forgotten)
        server.process.kill9()
        with pytest.raises(Unavailable):
            await store.read([kept])
        server.process.start()
        assert await read_state_when_back(store, kept) is State.RUNNING
        assert await read_state(store, forgotten) is State.SCHEDULED
        assert isinstance(await settle_answer(store, lost), StaleLease)
        assert isinstance(await settle_answer(store, lost, RETRY), StaleLease)
        (answer,) = await store.extend([lost.lease])
        assert isinstance(answer, StaleLease)
        assert await settle_answer(store, held) == Settled(State.COMPLETED)
        again = await claim_one(store, worker, queues=("forgotten",))
        # The crash gave the attempt back with the rest: this is the first again, under a token of its own.
        assert (again.id, again.attempt, again.lease.version) == (forgotten, 1, 1)
        assert again.lease.token != lost.lease.token
        assert isinstance(await settle_answer(store, lost), StaleLease)
        assert await settle_answer(store, again) == Settled(State.COMPLETED)
        assert await jobs_that_stand_wrongly(server.url) == []


async def read_state_when_back(store: PostgresStore, job_id: UUID) -> State:
    job = await repeated(Books(), lambda _: read_one(store, job_id))
    return job.state


async def test_a_restarted_server_is_found_again_by_every_connection(server: Server) -> None:
    async with opened(server.url, pool_size=5) as store:
        ids = [await submit_one(store) for _ in range(5)]
        await asyncio.gather(*(store.read(ids) for _ in range(20)))
        await asyncio.to_thread(server.process.restart)
        for _ in range(20):
            jobs = await repeated(Books(), lambda _: store.read(ids))
            assert [job.id for job in jobs if job is not None] == ids


# connections


async def test_connections_cut_again_and_again_lose_and_double_nothing(url: str) -> None:
    books = Books()
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    chance = random.Random(seed)
    async with opened(url) as store, clients(store, books):
        for _ in range(25):
            await asyncio.sleep(chance.uniform(0.01, 0.1))
            await cut_all_connections(url)
        await growth(books.submitted, 50)
        await growth(books.settled, 10)
    assert books.outages > 0
    await require_books_kept(url, books)
    counts = await fetch(url, "SELECT count(*) AS n, count(DISTINCT id) AS ids FROM holdfast.job")
    assert counts[0]["n"] == counts[0]["ids"]


async def cut_all_connections(url: str) -> None:
    await fetch(
        url,
        """
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'holdfast'
        """,
    )


# callers who give up


async def test_callers_who_give_up_lose_and_double_nothing(url: str) -> None:
    """Cancelled at any moment, a call leaves no transaction open and no connection that others would trip over."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    chance = random.Random(seed)
    async with opened(url, pool_size=3) as store:
        worker = await register(store)
        submitted: set[UUID] = set()
        for n in range(150):
            job = new_job(key=str(n) if n % 2 else None)
            calls: list[Callable[[NewJob], Awaitable[object]]] = [
                lambda job: submit_jobs(store, job),
                lambda _: claim(store, worker, limit=2),
                lambda job: store.cancel([job.id]),
                lambda _: tick(store),
            ]
            task = asyncio.ensure_future(calls[n % 4](job))
            with suppress(TimeoutError):
                await asyncio.wait_for(task, chance.uniform(0, 0.01))
                submitted.update({job.id} if n % 4 == 0 else ())
        kept = await submit_one(store)
        async with opened(url) as other:
            assert await read_state(other, kept) is State.SCHEDULED, "accepted in a transaction that nobody commits"
            found = await other.read(list(submitted))
            assert None not in found
    assert await jobs_that_stand_wrongly(url) == []
    async with opened(url) as store:
        await require_consistent(store)


async def test_a_call_given_up_while_it_waits_for_a_lock_lets_go_of_those_it_has(
    store: PostgresStore, url: str
) -> None:
    first, second = [await running_job(store) for _ in range(2)]
    async with connected(url) as stranger, stranger.transaction():
        await stranger.execute("SELECT FROM holdfast.running WHERE job = $1 FOR UPDATE", second.lease.seq)
        task = asyncio.create_task(store.cancel([first.id, second.id]))
        await somebody_waits_for_a_lock(url)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        # Shorter than lock_timeout, after which the server would end the abandoned transaction by itself.
        async with asyncio.timeout(10):
            # Takes the first row's lock, which the cancelled call had.
            assert await settle_answer(store, first) == Settled(State.COMPLETED)
    assert await settle_answer(store, second) == Settled(State.COMPLETED)


async def test_a_store_without_a_server_says_that_it_may_be_repeated(server: Server) -> None:
    async with opened(server.url) as store:
        server.process.stop()
        for call in (store.read_queues(), submit_one(store), tick(store), store.register(UUID(int=1), name="w")):
            with pytest.raises(Unavailable):
                await asyncio.wait_for(call, CALL_SECONDS)
        waited = await asyncio.wait_for(hears(store, ["default"], within_seconds=0.1), CALL_SECONDS)
        assert waited is False
    fresh = PostgresStore(server.url)
    with pytest.raises(Unavailable):
        await fresh.open()
    server.process.start()
    await fresh.open()
    await fresh.close()


async def test_a_store_that_is_closed_says_so(url: str) -> None:
    store = PostgresStore(url)
    with pytest.raises(Unavailable, match="open"):
        await store.read_queues()
    await store.open()
    await store.close()
    with pytest.raises(Unavailable, match="open"):
        await store.read_queues()
    await store.close()
