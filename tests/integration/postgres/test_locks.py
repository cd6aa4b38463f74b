"""Nobody deadlocks, and a row that somebody's open transaction holds delays that job only."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from holdfast.core.commands import (
    BUSY,
    ClaimIds,
    Completed,
    Heartbeat,
    NewJob,
    Report,
    Settled,
    Settlement,
    Submit,
    Tick,
)
from holdfast.core.errors import Unavailable
from holdfast.core.job import Lease, Progress, Timeouts
from holdfast.core.states import State
from holdfast.stores.postgres import PostgresStore, migrate
from holdfast.stores.postgres.transaction import PostgresTransaction
from holdfast.testing import ManualClock
from holdfast.testing.factories import (
    COMPLETED,
    FAIL,
    after,
    claim,
    new_job,
    read_state,
    read_states,
    register,
    submit_jobs,
)
from tests.conftest import NewDatabase
from tests.integration.postgres.databases import LONG_SECONDS, connected, fetch, opened

FAN_INS = 40
WIDTH = 12
BATCH = 20
STORES = 4


async def quick_to_see_deadlocks(url: str) -> None:
    """A deadlock is then seen long before anybody stops waiting."""
    async with connected(url) as connection:
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f"ALTER DATABASE \"{name}\" SET deadlock_timeout = '5ms'")


async def deadlocks(url: str) -> int:
    # Counted by each session, and reported when it is idle.
    async with connected(url) as connection:
        await connection.execute("SELECT pg_stat_clear_snapshot()")
        return int(
            await connection.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        )


@asynccontextmanager
async def several(url: str, count: int = STORES) -> AsyncIterator[list[PostgresStore]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(opened(url)) for _ in range(count)]


async def side_by_side(
    stores: Sequence[PostgresStore],
    batches: Sequence[Any],
    work: Callable[[PostgresStore, Any], Coroutine[Any, Any, None]],
) -> None:
    rest = list(reversed(batches))

    async def one(store: PostgresStore) -> None:
        while rest:
            await work(store, rest.pop())

    async with asyncio.timeout(3 * LONG_SECONDS):
        await asyncio.gather(*(one(store) for store in stores))


async def fan_ins(store: PostgresStore) -> tuple[list[UUID], list[UUID]]:
    """The parents, shuffled, and those that wait for them."""
    parents = [[new_job() for _ in range(WIDTH)] for _ in range(FAN_INS)]
    children = [new_job(queue="children", dependencies=after(*(job.id for job in some))) for some in parents]
    jobs = [job for some in parents for job in some]
    random.Random(17).shuffle(jobs)
    await submit_jobs(store, *jobs)
    await submit_jobs(store, *children)
    return [job.id for job in jobs], [job.id for job in children]


def in_batches(items: Sequence[Any]) -> list[Sequence[Any]]:
    return [items[n : n + BATCH] for n in range(0, len(items), BATCH)]


@pytest.mark.parametrize("way", ["settle", "settle by verb", "cancel", "tick"])
async def test_interleaved_fan_ins_never_deadlock(new_database: NewDatabase, way: str) -> None:
    url = new_database()
    await migrate.upgrade(url)
    await quick_to_see_deadlocks(url)
    async with several(url) as stores:
        first = stores[0]
        ids, children = await fan_ins(first)
        if way == "cancel":
            await side_by_side(stores, in_batches(ids), cancel)
        else:
            worker = await register(first)
            jobs = [job for _ in range(0, len(ids), 100) for job in await claim(first, worker)]
            outcome = FAIL if way == "settle by verb" else COMPLETED
            settlements = [Settlement(lease=job.lease, outcome=outcome) for job in jobs]
            if way == "tick":
                await leave_marks(url, first, settlements)
                await side_by_side(stores, range(100), lambda store, _: let_tick(store))
            else:
                await side_by_side(stores, in_batches(settlements), settle)
        for _ in range(20):
            await first.tick(Tick())
        expected = {"settle": State.SCHEDULED, "tick": State.SCHEDULED}.get(way, State.CANCELLED)
        if way == "settle by verb":
            expected = State.FAILED
        assert set(await read_states(first, children)) == {expected}
        assert await fetch(url, "SELECT * FROM holdfast.mark") == []
    assert await deadlocks(url) == 0


async def settle(store: PostgresStore, batch: Sequence[Settlement]) -> None:
    assert all(isinstance(answer, Settled) for answer in await store.settle(batch))


async def cancel(store: PostgresStore, ids: Sequence[UUID]) -> None:
    await store.cancel(ids)


async def let_tick(store: PostgresStore) -> None:
    await store.tick(Tick(batch=BATCH))


async def leave_marks(url: str, store: PostgresStore, settlements: Sequence[Settlement]) -> None:
    """As by processes that ended between their settles and the telling."""
    parked = "UPDATE holdfast.edge SET is_open = false"
    await fetch(url, parked)
    await store.settle(settlements)
    await fetch(url, "UPDATE holdfast.edge SET is_open = true")
    seqs = [one.lease.seq for one in settlements]
    await fetch(url, "INSERT INTO holdfast.mark (job) SELECT unnest($1::bigint[])", seqs)


async def held_leases(store: PostgresStore, count: int = 3, **job: Any) -> list[Lease]:
    worker = await register(store)
    await submit_jobs(store, *(new_job(**job) for _ in range(count)))
    return [one.lease for one in await claim(store, worker)]


@asynccontextmanager
async def holding(url: str, store: PostgresStore, *job_ids: UUID) -> AsyncIterator[None]:
    """A caller's transaction has submitted a dependent of these jobs, and is at work on other things."""
    async with connected(url) as connection, connection.transaction():
        await store.submit([submit_of(new_job(dependencies=after(*job_ids)))], connection=connection)
        yield


def submit_of(*jobs: NewJob) -> Submit:
    return Submit(jobs=jobs)


async def in_time(work: Awaitable[Any]) -> Any:
    async with asyncio.timeout(LONG_SECONDS / 2):
        return await work


# claim by ID


async def test_a_claim_by_id_leaves_what_somebody_holds_and_takes_the_others(url: str) -> None:
    async with opened(url) as store:
        jobs = [new_job(), new_job(), new_job(delay_seconds=0.001), new_job(delay_seconds=0.001)]
        await submit_jobs(store, *jobs)
        asked = ClaimIds(
            owner=await register(store), ids=tuple(job.id for job in jobs), queues=("default",), nonce=uuid4()
        )
        async with holding(url, store, jobs[0].id, jobs[2].id):
            answers = await in_time(store.claim_ids(asked))
        assert [answer == BUSY for answer in answers] == [True, False, True, False]
        again = await store.claim_ids(replace(asked, nonce=uuid4()))
        assert [answer == BUSY for answer in again] == [False, True, False, True]


# heartbeat


async def test_a_heartbeat_never_waits_for_a_locked_row(url: str) -> None:
    clock = ManualClock()
    async with opened(url, clock=clock) as store:
        leases = await held_leases(store, timeouts=Timeouts(visibility=30.0))
        worker = (await fetch(url, "SELECT id FROM holdfast.worker"))[0]["id"]
        before = await expiries(url)
        clock.advance(20)
        async with holding(url, store, leases[1].job_id):
            answer = await in_time(store.heartbeat(Heartbeat(worker=worker, held=tuple(leases))))
            assert not answer.lost
        later = await expiries(url)
        assert [later[lease.seq] > before[lease.seq] for lease in leases] == [True, False, True]
        await store.heartbeat(Heartbeat(worker=worker, held=tuple(leases)))
        assert (await expiries(url))[leases[1].seq] > before[leases[1].seq]


async def expiries(url: str) -> dict[int, Any]:
    return {row["job"]: row["expires_at"] for row in await fetch(url, "SELECT job, expires_at FROM holdfast.running")}


async def test_a_heartbeat_and_a_settle_never_deadlock(new_database: NewDatabase) -> None:
    """With leases held in descending order."""
    url = new_database()
    await migrate.upgrade(url)
    await quick_to_see_deadlocks(url)
    clock = ManualClock()
    async with opened(url, clock=clock) as store, opened(url, clock=clock) as beside:
        for _ in range(24):
            leases = await held_leases(store, 100, timeouts=Timeouts(visibility=30.0))
            worker = (await fetch(url, "SELECT id FROM holdfast.worker ORDER BY registered_at DESC LIMIT 1"))[0]["id"]
            clock.advance(20)
            held = tuple(sorted(leases, key=lambda lease: -lease.seq))
            await asyncio.gather(
                beside.heartbeat(Heartbeat(worker=worker, held=held)),
                store.settle([Settlement(lease=lease, outcome=COMPLETED) for lease in leases]),
            )
    assert await deadlocks(url) == 0


# what answers item by item


@pytest.mark.parametrize("outcome", [COMPLETED, FAIL, Completed(None, (new_job(),))], ids=["plain", "verb", "spawn"])
async def test_a_job_that_somebody_holds_keeps_no_other_from_being_settled(
    url: str, store: PostgresStore, outcome: Any
) -> None:
    leases = await held_leases(store)
    settlements = [Settlement(lease=lease, outcome=outcome) for lease in leases]
    async with holding(url, store, leases[1].job_id):
        answers = await in_time(store.settle(settlements))
        assert [type(answer) for answer in answers[::2]] == [Settled, Settled]
        assert isinstance(answers[1], Unavailable)
        assert await read_state(store, leases[1].job_id) is State.RUNNING
    answers = await store.settle(settlements)
    assert [answer.is_repeat for answer in answers if isinstance(answer, Settled)] == [True, False, True]


async def test_a_job_that_somebody_holds_keeps_no_other_from_being_extended_or_reported(
    url: str, store: PostgresStore
) -> None:
    leases = await held_leases(store)
    reports = [Report(lease=lease, progress=Progress(percent=5.0)) for lease in leases]
    async with holding(url, store, leases[1].job_id):
        extended = await in_time(store.extend(leases))
        assert [isinstance(answer, Unavailable) for answer in extended] == [False, True, False]
        reported = await in_time(store.report(reports))
        assert [isinstance(answer, Unavailable) for answer in reported] == [False, True, False]
    assert await store.report(reports) == [None] * 3


@pytest.mark.parametrize("verb", ["cancel", "replay"])
async def test_a_job_that_somebody_holds_is_named_when_the_others_are_done(
    url: str, store: PostgresStore, verb: str
) -> None:
    leases = await held_leases(store)
    ids = [lease.job_id for lease in leases]
    if verb == "replay":
        await store.settle([Settlement(lease=lease, outcome=FAIL) for lease in leases])
    act = store.replay if verb == "replay" else store.cancel
    async with holding_rows(url, leases[1].seq):
        with pytest.raises(Unavailable, match=str(ids[1])):
            await in_time(act(ids))
    states = await read_states(store, ids)
    if verb == "replay":
        assert states == [State.SCHEDULED, State.FAILED, State.SCHEDULED]
    await act(ids)
    if verb == "replay":
        assert await read_states(store, ids) == [State.SCHEDULED] * 3


@asynccontextmanager
async def holding_rows(url: str, *seqs: int) -> AsyncIterator[None]:
    async with connected(url) as connection, connection.transaction():
        for table in ("ready", "waiting", "running", "ended"):
            sql = f"SELECT FROM holdfast.{table} WHERE job = ANY ($1::bigint[]) FOR UPDATE"
            await connection.fetch(sql, list(seqs))
        yield


# dependents


@pytest.mark.parametrize("held", ["child", "parent"])
async def test_what_somebody_holds_keeps_no_other_dependent_from_being_told(
    url: str, store: PostgresStore, other_store: PostgresStore, held: str
) -> None:
    parents = [new_job() for _ in range(3)]
    children = [new_job(queue="children", dependencies=after(job.id)) for job in parents]
    await submit_jobs(store, *parents, *children)
    worker = await register(store)
    leases = [job.lease for job in await claim(store, worker)]
    child_seqs = [row["seq"] for row in await fetch(url, "SELECT seq FROM holdfast.job WHERE queue = 'children'")]
    if held == "child":
        async with holding_rows(url, sorted(child_seqs)[1]):
            answers = await in_time(store.settle([Settlement(lease=lease, outcome=COMPLETED) for lease in leases]))
            assert all(isinstance(answer, Settled) for answer in answers)
            await in_time(other_store.tick(Tick()))
            states = await read_states(store, [job.id for job in children])
            assert states == [State.SCHEDULED, State.PENDING, State.SCHEDULED]
    else:
        await leave_marks(url, store, [Settlement(lease=lease, outcome=COMPLETED) for lease in leases])
        async with holding_rows(url, leases[1].seq):
            await in_time(other_store.tick(Tick()))
            states = await read_states(store, [job.id for job in children])
            assert states == [State.SCHEDULED, State.PENDING, State.SCHEDULED]
    async with asyncio.timeout(LONG_SECONDS):
        # It may also be the one who settled them that tells them, and holds them for a moment.
        while await fetch(url, "SELECT * FROM holdfast.mark"):
            await other_store.tick(Tick())
    assert await read_states(store, [job.id for job in children]) == [State.SCHEDULED] * 3


async def claimed_fan_in(store: PostgresStore, width: int) -> tuple[NewJob, list[Lease]]:
    """A fan-in, and the leases of the jobs that it waits for."""
    parents = [new_job() for _ in range(width)]
    child = new_job(queue="children", dependencies=after(*(job.id for job in parents)))
    await submit_jobs(store, *parents, child)
    worker = await register(store)
    return child, [job.lease for job in await claim(store, worker, limit=width)]


async def test_marks_that_somebody_holds_up_keep_tick_from_no_other(
    url: str, store: PostgresStore, other_store: PostgresStore
) -> None:
    """However many they are. Once they are free they are told, too."""
    batch = 20
    child, leases = await claimed_fan_in(store, 3 * batch)
    parent = new_job(queue="other")
    dependent = new_job(queue="other", dependencies=after(parent.id))
    await submit_jobs(store, parent, dependent)
    async with holding(url, store, child.id):
        await leave_marks(url, store, [Settlement(lease=lease, outcome=COMPLETED) for lease in leases])
        worker = await register(store)
        (job,) = await claim(store, worker, queues=("other",))
        await leave_marks(url, store, [Settlement(lease=job.lease, outcome=COMPLETED)])
        reports = [await in_time(other_store.tick(Tick(batch=batch))) for _ in range(5)]
        assert await read_state(store, dependent.id) is State.SCHEDULED
        # It goes on at once until it has seen all, and then comes to rest.
        assert [report.has_more for report in reports[:3]] == [True, True, True]
        assert not all(report.has_more for report in reports)
    for _ in range(40):
        await other_store.tick(Tick(batch=batch))
    assert await read_state(store, child.id) is State.SCHEDULED
    assert await fetch(url, "SELECT FROM holdfast.mark") == []


async def test_a_held_dependent_makes_one_settle_wait_and_not_the_next(url: str, store: PostgresStore) -> None:
    """Its marks are durable. Somebody who lets go soon is noticed without a tick."""
    child, leases = await claimed_fan_in(store, 3)
    async with holding(url, store, child.id):
        assert store._database._retelling.may_wait()
        await store.settle([Settlement(lease=leases[0], outcome=COMPLETED)])
        assert not store._database._retelling.may_wait()
        async with asyncio.timeout(LONG_SECONDS / 2):
            for lease in leases[1:]:
                (answer,) = await store.settle([Settlement(lease=lease, outcome=COMPLETED)])
                assert isinstance(answer, Settled)
    await until_released(store, child)


async def until_released(store: PostgresStore, job: NewJob) -> None:
    async with asyncio.timeout(LONG_SECONDS):
        while await read_state(store, job.id) is not State.SCHEDULED:
            await asyncio.sleep(0.01)


async def test_a_held_job_is_waited_for_once_in_a_settle(
    url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the others are answered, without a second wait for the same job."""
    leases = await held_leases(store, 10)
    waits: list[Collection[int]] = []
    wait_for = PostgresTransaction._wait_for

    async def counted(tx: PostgresTransaction, seqs: Collection[int]) -> Any:
        waits.append(seqs)
        return await wait_for(tx, seqs)

    monkeypatch.setattr(PostgresTransaction, "_wait_for", counted)
    async with holding_rows(url, leases[4].seq):
        answers = await in_time(store.settle([Settlement(lease=lease, outcome=COMPLETED) for lease in leases]))
    assert [isinstance(answer, Unavailable) for answer in answers].count(True) == 1
    assert waits == []


# connections


async def test_those_who_wait_for_a_job_that_somebody_holds_use_up_no_connections(url: str) -> None:
    async with opened(url, pool_size=2) as store:
        leases = await held_leases(store, 12)
        async with holding(url, store, *(lease.job_id for lease in leases)):
            waiting = [asyncio.create_task(store.settle([Settlement(lease=lease, outcome=FAIL)])) for lease in leases]
            await asyncio.sleep(0)
            await in_time(submit_jobs(store, new_job()))
            answers = await in_time(asyncio.gather(*waiting))
            assert all(isinstance(answer, Unavailable) for (answer,) in answers)
