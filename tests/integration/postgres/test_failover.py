"""The primary dies and its standby takes over: what survived goes on, and nothing is held by two."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import pytest

from holdfast.core.commands import Settled, Tick
from holdfast.core.errors import JobNotFound, StaleLease, Unavailable
from holdfast.core.job import ClaimedJob
from holdfast.core.states import State
from holdfast.stores.postgres import PostgresStore, marks, migrate
from holdfast.testing.clock import ManualClock
from holdfast.testing.factories import (
    RETRY,
    after,
    claim,
    claim_one,
    new_job,
    read_state,
    register,
    settle,
    settle_answer,
    submit_jobs,
    submit_one,
    tick,
)
from holdfast.testing.invariants import require_consistent
from tests.integration.postgres.books import Books, clients, growth, repeated, require_books_kept
from tests.integration.postgres.databases import connected, fetch, jobs_that_stand_wrongly, opened
from tests.integration.postgres.test_marks import left_mark
from tests.integration.worker.world import World, eventually
from tests.servers import PostgresPair

MANY = 200
"""More numbers than a sequence writes to the log ahead of their use, which are 32."""


@dataclass(frozen=True)
class Pair:
    servers: PostgresPair
    url: str
    """Of a migrated database, with both hosts in it."""
    name: str


@pytest.fixture
def pair(postgres_pair: PostgresPair) -> Pair:
    name = postgres_pair.create_database()
    url = postgres_pair.url(name)
    asyncio.run(migrate.upgrade(url))
    return Pair(postgres_pair, url, name)


async def hold_back(pair: Pair) -> None:
    await asyncio.to_thread(pair.servers.hold_back)


async def fail_over(pair: Pair) -> None:
    await asyncio.to_thread(pair.servers.fail_over)


async def when_back(store: PostgresStore) -> None:
    await repeated(Books(), lambda _: store.read_queues())


async def claim_soon(store: PostgresStore, worker: UUID, *, queue: str) -> ClaimedJob:
    """Behind a cursor of before the failover a job is found with the next refresh."""
    while not (jobs := await claim(store, worker, limit=1, queues=(queue,))):
        await asyncio.sleep(0.05)
    return jobs[0]


async def sequence(url: str) -> int:
    (row,) = await fetch(url, "SELECT pg_sequence_last_value('holdfast.job_seq') AS last")
    return int(row["last"])


# an asynchronous standby


async def test_what_the_standby_had_goes_on_and_what_it_had_not_is_gone(pair: Pair) -> None:
    async with opened(pair.url) as store:
        worker = await register(store)
        kept = await submit_one(store)
        await hold_back(pair)
        lost = await submit_one(store)
        await fail_over(pair)
        await when_back(store)
        assert await store.read([lost]) == [None]
        job = await claim_one(store, worker)
        assert job.id == kept
        assert await settle_answer(store, job) == Settled(State.COMPLETED)
        await submit_one(store)
        assert await jobs_that_stand_wrongly(pair.url) == []
        await require_consistent(store)


async def test_of_all_leases_only_those_that_survived_are_valid(pair: Pair) -> None:
    async with opened(pair.url) as store:
        worker = await register(store)
        for queue in ("held", "settled", "claimed"):
            await submit_one(store, queue=queue)
        held = await claim_one(store, worker, queues=("held",))
        settled = await claim_one(store, worker, queues=("settled",))
        # Waits for the disk, and takes the claims before it along.
        await submit_one(store, queue="another")
        await hold_back(pair)
        await settle(store, settled)
        claimed = await claim_one(store, worker, queues=("claimed",))
        await submit_one(store, queue="born")
        born = await claim_one(store, worker, queues=("born",))
        await fail_over(pair)
        await when_back(store)
        for lost, refusal in ((claimed, StaleLease), (born, JobNotFound)):
            assert isinstance(await settle_answer(store, lost), refusal)
            assert isinstance(await settle_answer(store, lost, RETRY), refusal)
            (extension,) = await store.extend([lost.lease])
            assert isinstance(extension, StaleLease)
        # Its end was lost, so its lease is what it was.
        assert await settle_answer(store, settled) == Settled(State.COMPLETED)
        assert await settle_answer(store, held) == Settled(State.COMPLETED)
        again = await claim_soon(store, worker, queue="claimed")
        assert again.id == claimed.id
        assert again.lease.token != claimed.lease.token
        assert isinstance(await settle_answer(store, claimed), StaleLease)
        assert await settle_answer(store, again) == Settled(State.COMPLETED)


async def test_a_lost_lease_does_not_settle_the_job_that_has_its_number_now(pair: Pair) -> None:
    async with opened(pair.url) as store:
        worker = await register(store)
        await hold_back(pair)
        await submit_jobs(store, *(new_job() for _ in range(MANY)))
        lost = {job.lease.seq: job for job in await claim(store, worker, limit=MANY)}
        await fail_over(pair)
        await when_back(store)
        await submit_jobs(store, *(new_job() for _ in range(MANY)))
        found = {job.lease.seq: job for job in await claim(store, worker, limit=MANY)}
        shared = sorted(lost.keys() & found.keys())
        assert shared, "no number was given out twice"
        assert isinstance(await settle_answer(store, lost[shared[0]]), JobNotFound)
        assert isinstance(await settle_answer(store, lost[shared[0]], RETRY), JobNotFound)
        assert await settle_answer(store, found[shared[0]]) == Settled(State.COMPLETED)


async def test_a_cursor_ahead_of_the_promoted_server_finds_what_is_submitted_there(pair: Pair) -> None:
    async with opened(pair.url) as store:
        worker = await register(store)
        await hold_back(pair)
        await submit_jobs(store, *(new_job() for _ in range(MANY)))
        claimed = await claim(store, worker, limit=MANY)
        await fail_over(pair)
        await when_back(store)
        assert await sequence(pair.url) < max(job.lease.seq for job in claimed), "the cursor is not ahead"
        new = await submit_one(store)
        async with asyncio.timeout(30):
            while not (found := await claim(store, worker)):
                await asyncio.sleep(0.05)
        assert [job.id for job in found] == [new]


async def test_no_number_is_given_out_that_a_row_has(pair: Pair) -> None:
    async with opened(pair.url) as store:
        for jobs in (1, 40, 7):
            await submit_jobs(store, *(new_job() for _ in range(jobs)))
        await fail_over(pair)
        await when_back(store)
        (row,) = await fetch(
            pair.url,
            """
            SELECT nextval('holdfast.job_seq') AS next, (SELECT max(seq) FROM holdfast.job) AS seq,
                (SELECT max(place) FROM holdfast.ready) AS place
            """,
        )
        assert row["next"] > max(row["seq"], row["place"])


async def test_a_job_that_was_made_ready_and_is_not_any_more_is_found_again(pair: Pair) -> None:
    """The standby is so far behind that a search from the last one on would not come upon it."""
    clock = ManualClock()
    async with opened(pair.url, clock=clock) as store:
        delayed = await submit_one(store, delay_seconds=60.0)
        await tick(store)
        await hold_back(pair)
        clock.advance(600)
        await tick(store)
        assert await read_state(store, delayed) is State.SCHEDULED
        await tick(store)
        await fail_over(pair)
        await when_back(store)
        assert await read_state(store, delayed) is State.DELAYED
        await store.tick(Tick())
        assert await read_state(store, delayed) is State.SCHEDULED


async def test_a_mark_with_the_number_of_a_lost_transaction_is_found(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "OVERLAP_SECONDS", 0.0)
    monkeypatch.setattr(marks, "NOTE_SECONDS", 0.0)
    async with opened(pair.url) as store:
        seq, child = await left_mark(pair.url, store)
        await hold_back(pair)
        async with connected(pair.url) as connection:
            for _ in range(MANY):
                await connection.execute("SELECT pg_current_xact_id()")
        for _ in range(3):
            await store.tick(Tick())
        await fail_over(pair)
        await when_back(store)
        await fetch(pair.url, "INSERT INTO holdfast.mark (job) VALUES ($1)", seq)
        await store.tick(Tick())
        assert await read_state(store, child) is State.SCHEDULED  # type: ignore[arg-type]


async def test_under_load_what_survived_stands_in_one_place_and_the_clients_go_on(pair: Pair) -> None:
    books = Books()
    async with opened(pair.url) as store:
        async with clients(store, books):
            await growth(books.submitted, 100)
            await growth(books.settled, 30)
            await hold_back(pair)
            await growth(books.submitted, 100)
            await growth(books.settled, 30)
            await asyncio.to_thread(pair.servers.kill_primary)
            # The last answers may be on their way.
            await asyncio.sleep(0.1)
            before = set(books.submitted)
            await asyncio.to_thread(pair.servers.promote)
            await growth(books.submitted, 100)
            await growth(books.settled, 30)
        ids = {row["id"] for row in await fetch(pair.url, "SELECT id FROM holdfast.job")}
        assert books.missing.isdisjoint(ids)
        assert before - ids, "nothing was lost: the standby was not held back"
        assert books.submitted - before - ids == set(), "accepted by the new primary, and lost"
        assert await jobs_that_stand_wrongly(pair.url) == []
        await require_consistent(store)


# workers


@asynccontextmanager
async def world_of(pair: Pair) -> AsyncIterator[World]:
    async with opened(pair.url) as store:
        yield World(pair.url, store)


async def test_a_worker_carries_on_and_runs_all_that_survived(pair: Pair) -> None:
    """Its registration, some of its claims and some of its outcomes are among what is lost."""
    go_on = asyncio.Event()

    async def work(number: int) -> int:
        if number % 10 == 0:
            await go_on.wait()
        return number

    async with world_of(pair) as world:
        name = world.handle(work)
        early = [await world.submit(name, {"number": number}) for number in range(30)]
        await hold_back(pair)
        async with world.worker(concurrency=8, poll_seconds=0.2):
            late = [await world.submit(name, {"number": 1}) for _ in range(30)]
            await asyncio.gather(*(world.until(job_id, State.COMPLETED) for job_id in late))
            await fail_over(pair)
            go_on.set()
            await when_back(world.store)  # type: ignore[arg-type]
            newest = await repeated(Books(), lambda _: world.submit(name, {"number": 2}))
            for job_id in (*early, newest):
                assert (await repeated(Books(), lambda _, j=job_id: world.until(j))).state is State.COMPLETED  # type: ignore[misc]
        assert await world.store.read(late) == [None] * len(late)
        assert await jobs_that_stand_wrongly(pair.url) == []


async def test_a_job_whose_outcome_was_lost_is_run_again(pair: Pair) -> None:
    runs = 0
    is_told = asyncio.Event()

    async def work() -> None:
        nonlocal runs
        runs += 1
        await is_told.wait()

    async with world_of(pair) as world:
        name = world.handle(work)
        async with world.worker():
            job_id = await world.submit(name)
            await world.until(job_id, State.RUNNING)
            await hold_back(pair)
            is_told.set()
            await world.until(job_id, State.COMPLETED)
            await fail_over(pair)
            await when_back(world.store)  # type: ignore[arg-type]
            await eventually(lambda: runs == 2)
            job = await repeated(Books(), lambda _: world.until(job_id))
            assert job.state is State.COMPLETED


# a server that became read-only


async def test_connections_that_survive_on_a_fenced_primary_are_given_up_for_the_new_one(pair: Pair) -> None:
    servers = pair.servers
    async with opened(pair.url, pool_size=3) as store:
        worker = await register(store)
        await asyncio.gather(*(store.read_queues() for _ in range(10)))
        await asyncio.to_thread(servers.catch_up)
        await asyncio.to_thread(servers.set, "default_transaction_read_only", "on")
        assert servers.standby is not None
        await asyncio.to_thread(servers.standby.promote)
        with pytest.raises(Unavailable, match="read-only"):
            await submit_one(store)
        kept = await repeated(Books(), lambda _: submit_one(store))
        assert (await claim_one(store, worker)).id == kept
        assert await fetch(servers.standby.url(pair.name), "SELECT FROM holdfast.job WHERE id = $1", kept)
        left = "SELECT FROM pg_stat_activity WHERE datname = $1 AND application_name = 'holdfast'"
        async with asyncio.timeout(30):
            while await fetch(servers.primary.url(pair.name), left, pair.name):
                await asyncio.sleep(0.02)


# a synchronous standby


async def test_a_synchronous_standby_loses_nothing_that_was_acknowledged(pair: Pair) -> None:
    books = Books()
    await asyncio.to_thread(pair.servers.make_synchronous)
    async with opened(pair.url) as store:
        async with clients(store, books):
            await growth(books.submitted, 200)
            await growth(books.settled, 60)
            await fail_over(pair)
            await growth(books.submitted, 100)
            await growth(books.settled, 30)
        assert books.outages > 0
        await require_books_kept(pair.url, books)


@pytest.mark.parametrize("is_plain", [True, False])
async def test_a_repeat_is_not_acknowledged_before_the_first_try_is_on_the_standby(pair: Pair, is_plain: bool) -> None:
    """A wait for the standby that was broken off leaves a job that can be seen, and is lost with the primary."""
    async with opened(pair.url) as store:
        parent = await submit_one(store)
        job = new_job(dependencies=() if is_plain else after(parent))
        await asyncio.to_thread(pair.servers.make_synchronous)
        await asyncio.to_thread(pair.servers.hold_back)
        first = asyncio.create_task(submit_jobs(store, job))
        broken_off = await break_off(pair)
        with pytest.raises(Unavailable):
            await first
        assert await store.read([job.id]) != [None]
        repeat = asyncio.create_task(submit_jobs(store, job))
        await waiting_for_the_standby(pair, other_than=broken_off)
        assert not repeat.done()
        await fail_over(pair)
        with pytest.raises(Unavailable):
            await repeat
        await when_back(store)
        assert await store.read([job.id]) == [None]
        await submit_jobs(store, job)
        assert await store.read([job.id]) != [None]


async def waiting_for_the_standby(pair: Pair, *, other_than: int = 0) -> int:
    sql = """
        SELECT pid FROM pg_stat_activity
        WHERE wait_event = 'SyncRep' AND application_name = 'holdfast' AND pid <> $1
    """
    async with asyncio.timeout(30):
        while not (rows := await fetch(pair.servers.primary.url(pair.name), sql, other_than)):
            await asyncio.sleep(0.02)
    return int(rows[0]["pid"])


async def break_off(pair: Pair) -> int:
    pid = await waiting_for_the_standby(pair)
    await fetch(pair.servers.primary.url(pair.name), "SELECT pg_terminate_backend($1)", pid)
    return pid
