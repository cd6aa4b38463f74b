"""Claims start where the last one ended, and still overlook nothing (C1, C2 of ``cursors``)."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.batches import JobsInParts
from holdfast.core.commands import NewJob, Settlement, Submit
from holdfast.core.priority import Priority
from holdfast.stores.postgres import PostgresStore, cursors, migrate
from holdfast.stores.postgres.cursors import REFRESH_SECONDS, ClaimCursors
from holdfast.stores.postgres.database import PLANNER
from holdfast.stores.postgres.statements import Statements
from holdfast.testing.factories import (
    COMPLETED,
    claim,
    claimed_ids,
    new_claim,
    new_job,
    register,
    submit_jobs,
    submit_one,
)
from tests.conftest import NewDatabase
from tests.integration.postgres.callers import with_asyncpg
from tests.integration.postgres.databases import connected, opened

QUEUES = ("default",)
NORMAL = int(Priority.NORMAL)
END = 10**9


# the cursors by themselves


def row(place: int, queue: str = "default", priority: int = NORMAL) -> dict[str, Any]:
    return {"queue": queue, "priority": priority, "place": place}


def floor_row(*, first: int | None, oldest_open: int, next_transaction: int) -> dict[str, Any]:
    return {
        "queue": "default",
        "priority": NORMAL,
        "first_place": first,
        "oldest_open": oldest_open,
        "next_transaction": next_transaction,
    }


def start_of(claim_cursors: ClaimCursors) -> int:
    """Where the next claim of the one lane that these tests use starts."""
    _, priorities, starts = claim_cursors.columns(QUEUES)
    return starts[priorities.index(NORMAL)]


def floor_of(claim_cursors: ClaimCursors) -> int:
    _, priorities, floors = claim_cursors.floors(QUEUES)
    return floors[priorities.index(NORMAL)]


def test_lanes_come_queue_by_queue_and_by_priority() -> None:
    queues, priorities, starts = ClaimCursors().columns(("b", "a"))
    assert queues == ["b"] * 5 + ["a"] * 5
    assert priorities == [0, 1, 2, 3, 4] * 2
    assert starts == [0] * 10


def test_a_claim_starts_after_the_last_row_claimed() -> None:
    claim_cursors = ClaimCursors()
    claim_cursors.advance([row(3), row(7), row(9, priority=0)])
    assert start_of(claim_cursors) == 7
    claim_cursors.advance([row(5)])
    assert start_of(claim_cursors) == 7
    assert claim_cursors.columns(QUEUES, from_start=True)[2] == [0] * 5


def test_a_short_claim_returns_to_the_floor() -> None:
    claim_cursors = ClaimCursors()
    claim_cursors.advance([row(7)])
    assert claim_cursors.is_ahead(QUEUES)
    claim_cursors.go_back(QUEUES)
    assert start_of(claim_cursors) == 0
    assert not claim_cursors.is_ahead(QUEUES)


def test_the_floor_rises_only_to_a_cursor_whose_transactions_have_all_ended() -> None:
    claim_cursors = ClaimCursors()
    claim_cursors.advance([row(10)])
    claim_cursors.refresh(QUEUES, [floor_row(first=None, oldest_open=100, next_transaction=105)], monotonic=1)
    assert floor_of(claim_cursors) == 0, "nothing was noted before"
    claim_cursors.advance([row(20)])
    claim_cursors.refresh(QUEUES, [floor_row(first=None, oldest_open=104, next_transaction=110)], monotonic=2)
    assert floor_of(claim_cursors) == 0, "104 may have drawn a place below 10, and may yet commit it"
    claim_cursors.advance([row(30)])
    claim_cursors.refresh(QUEUES, [floor_row(first=None, oldest_open=110, next_transaction=120)], monotonic=3)
    assert floor_of(claim_cursors) == 20
    assert start_of(claim_cursors) == 20


def test_the_floor_stays_below_the_first_row_that_can_be_seen() -> None:
    """It may be locked by a claim that is rolled back."""
    claim_cursors = ClaimCursors()
    claim_cursors.advance([row(10)])
    claim_cursors.refresh(QUEUES, [floor_row(first=4, oldest_open=5, next_transaction=5)], monotonic=1)
    claim_cursors.advance([row(20)])
    claim_cursors.refresh(QUEUES, [floor_row(first=4, oldest_open=9, next_transaction=9)], monotonic=2)
    assert floor_of(claim_cursors) == 3
    assert start_of(claim_cursors) == 3


def test_a_refresh_is_due_after_a_while_and_only_if_something_may_be_behind() -> None:
    claim_cursors = ClaimCursors()
    assert not claim_cursors.is_refresh_due(QUEUES, monotonic=0)
    assert not claim_cursors.is_refresh_due(QUEUES, monotonic=100)
    claim_cursors.advance([row(1)])
    assert claim_cursors.is_refresh_due(QUEUES, monotonic=100)
    claim_cursors.refresh(QUEUES, [], monotonic=100)
    assert not claim_cursors.is_refresh_due(QUEUES, monotonic=100 + REFRESH_SECONDS / 2)


class Server:
    """Transactions that place rows, as far as a claim's cursors can tell it from PostgreSQL."""

    def __init__(self) -> None:
        self.next_transaction = 1
        self.next_place = 1
        self.open: dict[int, int] = {}
        self.visible: set[int] = set()
        self.locked: set[int] = set()

    def begin(self) -> None:
        """A transaction draws a place, and goes on."""
        self.open[self.next_transaction] = self.next_place
        self.next_transaction += 1
        self.next_place += 1

    def submit(self) -> None:
        self.visible.add(self.next_place)
        self.next_transaction += 1
        self.next_place += 1

    def end(self, pick: int, *, commits: bool) -> None:
        if self.open:
            place = self.open.pop(sorted(self.open)[pick % len(self.open)])
            self.visible.update({place} if commits else ())

    def claim(self, claim_cursors: ClaimCursors, limit: int) -> None:
        found = sorted(p for p in self.visible - self.locked if p > start_of(claim_cursors))[:limit]
        self.visible.difference_update(found)
        claim_cursors.advance([row(place) for place in found])
        if len(found) < limit:
            claim_cursors.go_back(QUEUES)

    def lock(self, pick: int) -> None:
        """Another claim has it, and may yet give it back."""
        if self.visible:
            self.locked.add(sorted(self.visible)[pick % len(self.visible)])

    def refresh(self, claim_cursors: ClaimCursors, at: float) -> None:
        oldest = min(self.open, default=self.next_transaction)
        first = min((place for place in self.visible if place > floor_of(claim_cursors)), default=None)
        answer = floor_row(first=first, oldest_open=oldest, next_transaction=self.next_transaction)
        claim_cursors.refresh(QUEUES, [answer], monotonic=at)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "submit", "commit", "roll back", "claim", "lock", "unlock", "refresh"]),
        st.integers(0, 9),
    ),
    min_size=20,
    max_size=60,
)


@given(STEPS)
@settings(max_examples=200, deadline=None)
def test_no_row_ever_lies_below_the_floor(steps: list[tuple[str, int]]) -> None:
    """C1, for every order of events; and C2: when all transactions have ended, short claims find every row."""
    server, claim_cursors = Server(), ClaimCursors()
    for at, (step, pick) in enumerate(steps):
        match step:
            case "begin":
                server.begin()
            case "submit":
                server.submit()
            case "commit" | "roll back":
                server.end(pick, commits=step == "commit")
            case "claim":
                server.claim(claim_cursors, pick % 2 + 1)
            case "lock":
                server.lock(pick)
            case "unlock":
                server.locked.clear()
            case "refresh":
                server.refresh(claim_cursors, float(at))
        assert min(server.visible, default=END) > floor_of(claim_cursors)
    server.locked.clear()
    while server.open:
        server.end(0, commits=True)
    for _ in range(len(server.visible) + 2):
        server.claim(claim_cursors, 2)
    assert not server.visible


# the cursors and PostgreSQL


async def test_a_row_that_is_committed_late_is_claimed_by_the_next_short_claim(store: PostgresStore, url: str) -> None:
    worker = await register(store)
    async with with_asyncpg(url) as late:
        early_place = await submit_within(store, late)
        later_places = [await submit_one(store) for _ in range(4)]
        assert await claimed_ids(store, worker, limit=2) == later_places[:2]
        await late.commit()
        assert await claimed_ids(store, worker, limit=1) == later_places[2:3], "the cursor has passed it"
        assert await claimed_ids(store, worker, limit=2) == later_places[3:], "short: the cursor goes back"
        assert await claimed_ids(store, worker, limit=2) == [early_place]


async def test_a_row_that_is_committed_late_is_claimed_after_a_refresh(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await register(store)
    async with with_asyncpg(url) as late:
        early_place = await submit_within(store, late)
        later_places = [await submit_one(store) for _ in range(10)]
        assert await claimed_ids(store, worker, limit=2) == later_places[:2]
        await late.commit()
    monkeypatch.setattr(cursors, "REFRESH_SECONDS", 0.0)
    assert await claimed_ids(store, worker, limit=2) == [early_place, later_places[2]]


async def test_the_floor_rises_while_somebody_holds_a_snapshot(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cursors, "REFRESH_SECONDS", 0.0)
    worker = await register(store)
    await submit_jobs(store, *(new_job() for _ in range(30)))
    async with connected(url) as reader, reader.transaction(isolation="repeatable_read", readonly=True):
        await reader.fetch("SELECT FROM holdfast.ready")
        for _ in range(6):
            assert len(await claim(store, worker, limit=5)) == 5
        assert floor_of(store._cursors) > 0


async def test_rows_of_a_claim_that_was_rolled_back_come_back(store: PostgresStore, url: str) -> None:
    worker = await register(store)
    jobs = [await submit_one(store) for _ in range(6)]
    async with connected(url) as stranger:
        transaction = stranger.transaction()
        await transaction.start()
        taken = await claim_by_hand(stranger, worker, limit=2)
        assert taken == jobs[:2]
        assert await claimed_ids(store, worker, limit=2) == jobs[2:4]
        await transaction.rollback()
    assert await claimed_ids(store, worker, limit=2) == jobs[4:]
    assert await claimed_ids(store, worker, limit=2) == jobs[:2]


async def claim_by_hand(connection: asyncpg.Connection, worker: UUID, *, limit: int) -> list[UUID]:
    """claim.sql in a transaction that the test ends as it likes."""
    asked = new_claim(worker, limit=limit)
    lanes = ClaimCursors().columns(QUEUES)
    rows = await connection.fetch(
        Statements("holdfast")["claim"], None, worker, *lanes, limit, None, str(asked.nonce)[:-4]
    )
    return [claimed["id"] for claimed in rows if claimed["job"] is not None]


async def submit_within(store: PostgresStore, caller: Any) -> UUID:
    job: NewJob = new_job()
    await store.submit([Submit(jobs=(job,))], connection=caller.connection)
    return job.id


BATCH = 20
DRAINED = 4000
DRAINED_AT_ONCE = 500


async def test_the_cost_of_a_claim_does_not_grow_with_the_jobs_drained_under_a_held_snapshot(url: str) -> None:
    """Dead rows that a long transaction keeps: counted in pages touched, not in time."""
    async with opened(url) as store, connected(url) as reader, reader.transaction(isolation="repeatable_read"):
        worker = await register(store)
        await submit_jobs(store, *(new_job() for _ in range(DRAINED + 2 * DRAINED_AT_ONCE)))
        await reader.fetch("SELECT FROM holdfast.ready")
        await drain(store, worker, DRAINED_AT_ONCE)
        first = await pages_of_a_claim(store, url, worker)
        await drain(store, worker, DRAINED)
        last = await pages_of_a_claim(store, url, worker)
        from_the_start = await pages_of_a_claim(store, url, worker, from_start=True)
    assert last <= first + 5, (first, last)
    assert from_the_start > 2 * last, (from_the_start, last, "the dead rows that the cursor spares us are not there")


async def drain(store: PostgresStore, worker: UUID, count: int) -> None:
    for _ in range(count // DRAINED_AT_ONCE):
        jobs = await claim(store, worker, limit=DRAINED_AT_ONCE)
        assert len(jobs) == DRAINED_AT_ONCE
        await store.settle([Settlement(lease=job.lease, outcome=COMPLETED) for job in jobs])


async def pages_of_a_claim(store: PostgresStore, url: str, worker: UUID, *, from_start: bool = False) -> int:
    """The pages that the store's next claim would touch to find its jobs; it is rolled back."""
    lanes = store._cursors.columns(QUEUES, from_start=from_start)
    token_stem = str(new_claim(worker).nonce)[:-4]
    explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + Statements("holdfast")["claim"]
    async with connected(url, **PLANNER) as connection:
        transaction = connection.transaction()
        await transaction.start()
        plan = json.loads(await connection.fetchval(explain, None, worker, *lanes, BATCH, None, token_stem))
        await transaction.rollback()
    scans = [node for node in nodes_of(plan[0]["Plan"]) if node.get("Index Name") == "ready_claim"]
    assert scans
    return sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in scans)


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes_of(child)


# a transaction's number comes before its places

ASSERTING_SEQUENCE = """
CREATE FUNCTION holdfast.next_place() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF pg_current_xact_id_if_assigned() IS NULL THEN
        RAISE EXCEPTION 'a place was drawn by a transaction without a number';
    END IF;
    RETURN nextval('holdfast.job_seq');
END $$;
ALTER TABLE holdfast.job ALTER COLUMN seq SET DEFAULT holdfast.next_place();
"""
PLAIN_SUBMITS = {
    "one": [Submit(jobs=[new_job()])],
    "alike": [Submit(jobs=[new_job()]), Submit(jobs=[new_job()])],
    "different": [Submit(jobs=[new_job(), new_job(type="other")])],
    "delayed": [Submit(jobs=[new_job(delay_seconds=60.0)])],
    "in parts": [Submit(jobs=JobsInParts([new_job()], iter([[new_job()]])))],
}


@pytest.mark.parametrize("submits", PLAIN_SUBMITS.values(), ids=PLAIN_SUBMITS)
async def test_a_submit_has_its_number_before_its_places(new_database: NewDatabase, submits: list[Submit]) -> None:
    """PG3. Else a job could come to stand behind the floor: it was placed early and is written late."""
    url = new_database()
    await migrate.upgrade(url)
    async with opened(url) as store, connected(url) as connection:
        await connection.execute(ASSERTING_SEQUENCE)
        answers = await store.submit(submits)
    assert [len(answer) for answer in answers] == [len(one.jobs) for one in submits]  # type: ignore[arg-type]
