"""Claims start where the last one ended, and still overlook nothing (CURSOR-1 to CURSOR-3)."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sized
from contextlib import contextmanager, suppress
from itertools import permutations
from typing import Any, Literal
from uuid import UUID, uuid4

import asyncpg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core import limits
from holdfast.core.batches import JobColumns
from holdfast.core.commands import NewJob, Settlement, Submit
from holdfast.core.errors import Unavailable
from holdfast.core.payload import EMPTY
from holdfast.core.priority import Priority
from holdfast.stores.postgres import PostgresStore, cursors, migrate
from holdfast.stores.postgres.cursors import (
    LOOK_BACK_SECONDS,
    MOST_CLAIMS,
    REFRESH_SECONDS,
    SEARCH_SECONDS,
    Asked,
    ClaimCursors,
    Holders,
    Lane,
    Question,
)
from holdfast.stores.postgres.database import PLANNER
from holdfast.stores.postgres.statements import Statements
from holdfast.testing.factories import (
    COMPLETED,
    claim,
    claimed_ids,
    hears,
    new_claim,
    new_job,
    read_one,
    register,
    submit_jobs,
    submit_one,
)
from tests.conftest import NewDatabase
from tests.integration.postgres.callers import with_asyncpg
from tests.integration.postgres.databases import LONG_SECONDS, connected, fetch, opened
from tests.integration.postgres.test_tick import blocks_of

QUEUES = ("default",)
NORMAL = int(Priority.NORMAL)
END = 10**9
MINE = ("mine",)


# the cursors by themselves


def row(place: int, queue: str = "default", priority: int = NORMAL) -> dict[str, Any]:
    return {"queue": queue, "priority": priority, "place": place}


def ask(claim_cursors: ClaimCursors, *, at: float = 0.0, types: tuple[str, ...] | None = None) -> Asked:
    return claim_cursors.ask(QUEUES, types, monotonic=at)


def start_of(asked: Asked) -> int:
    """Where a claim starts in the one lane that these tests use."""
    return asked.starts[asked.columns[1].index(NORMAL)]


def lane_of(claim_cursors: ClaimCursors, types: tuple[str, ...] | None = None) -> Lane:
    return claim_cursors._lanes["default", NORMAL, types]


def take(claim_cursors: ClaimCursors, *places: int, at: float = 0.0, is_short: bool = False) -> None:
    claim_cursors.took(ask(claim_cursors, at=at), [row(place) for place in places], is_short=is_short)


def refresh(
    claim_cursors: ClaimCursors, *names: str, place: int, first: int | None = None, at: float = 1.0
) -> set[str]:
    question = question_of(claim_cursors, *names, place=place, at=at)
    return claim_cursors.refresh(question, [first if lane.priority == NORMAL else None for lane in question.lanes])


def question_of(claim_cursors: ClaimCursors, *names: str, place: int, at: float = 1.0, server: int = 1) -> Question:
    furthest = claim_cursors.furthest()
    claim_cursors.note_refresh(monotonic=at)
    return claim_cursors.question(Holders(place, frozenset(names), server), furthest=furthest, monotonic=at)


def test_lanes_come_queue_by_queue_and_by_priority() -> None:
    queues, priorities, starts = ClaimCursors().ask(("b", "a"), None, monotonic=0).columns
    assert queues == ["b"] * 5 + ["a"] * 5
    assert priorities == [0, 1, 2, 3, 4] * 2
    assert starts == [0] * 10


def test_a_claim_starts_after_the_last_row_claimed() -> None:
    claim_cursors = ClaimCursors()
    claim_cursors.took(ask(claim_cursors), [row(3), row(7), row(9, priority=0)], is_short=False)
    assert start_of(ask(claim_cursors)) == 7
    take(claim_cursors, 5)
    assert start_of(ask(claim_cursors)) == 7


def test_a_claim_that_found_nothing_passes_what_it_saw() -> None:
    claim_cursors = ClaimCursors()
    claim_cursors.saw(ask(claim_cursors, types=MINE), [None, None, 300, None, None])
    ask(claim_cursors, at=1.0, types=MINE)
    assert start_of(ask(claim_cursors, at=2.0, types=MINE)) == 300
    assert start_of(ask(claim_cursors, types=("theirs",))) == 0, "other types have cursors of their own"


def test_after_a_short_claim_the_next_one_starts_a_moment_ago() -> None:
    claim_cursors = ClaimCursors()
    take(claim_cursors, 7, at=0.0)
    take(claim_cursors, 9, at=LOOK_BACK_SECONDS)
    take(claim_cursors, 11, at=2 * LOOK_BACK_SECONDS, is_short=True)
    asked = ask(claim_cursors, at=2 * LOOK_BACK_SECONDS)
    assert start_of(asked) == 7
    assert not asked.is_ahead
    take(claim_cursors, 12, at=3 * LOOK_BACK_SECONDS)
    assert start_of(ask(claim_cursors, at=3 * LOOK_BACK_SECONDS)) == 12


def test_a_short_claim_is_remembered_whatever_the_order_of_the_queues() -> None:
    claim_cursors = ClaimCursors()
    claim_cursors.took(claim_cursors.ask(("a", "b"), None, monotonic=0.0), [row(7, "a")], is_short=True)
    assert set(claim_cursors.ask(("b", "a"), None, monotonic=0.0).starts) == {0}


def test_what_is_kept_does_not_grow_with_the_orders_of_the_queues() -> None:
    """With weights, nearly every claim has an order of its own."""
    claim_cursors = ClaimCursors()
    names = [f"q{n}" for n in range(6)]
    kept = []
    for order in permutations(names):
        claim_cursors.took(claim_cursors.ask(order, MINE, monotonic=0.0), [], is_short=True)
        kept.append(sum(len(one) for one in vars(claim_cursors).values() if isinstance(one, Sized)))
    assert set(kept) == {len(names) * len(Priority)}


def test_what_claims_saw_is_asked_for_once_in_a_moment() -> None:
    claim_cursors = ClaimCursors()
    asked = [ask(claim_cursors, at=at, types=MINE).says_seen for at in (0.0, 0.01, LOOK_BACK_SECONDS)]
    assert asked == [True, False, True]
    assert not ask(claim_cursors, at=1.0).says_seen, "of all types, it takes what it sees"


def test_the_floor_rises_to_the_place_of_the_last_refresh_once_its_holders_have_ended() -> None:
    claim_cursors = ClaimCursors()
    take(claim_cursors, 10)
    refresh(claim_cursors, "3/1", "4/1", place=12)
    assert lane_of(claim_cursors).floor == 0, "nothing was noted before"
    take(claim_cursors, 20)
    refresh(claim_cursors, "4/1", "5/1", place=22)
    assert lane_of(claim_cursors).floor == 0, "4/1 may have drawn a place below 12, and may yet commit it"
    refresh(claim_cursors, "3/2", place=30)
    assert lane_of(claim_cursors).floor == 22
    refresh(claim_cursors, place=30)
    assert lane_of(claim_cursors).floor == 30
    assert start_of(ask(claim_cursors)) == 30, "there is nothing before the floor"


def test_no_floor_rises_while_a_prepared_transaction_holds_the_table() -> None:
    """It has another name than it had when it was noted."""
    claim_cursors = ClaimCursors()
    take(claim_cursors, 10)
    refresh(claim_cursors, "3/1", place=12)
    refresh(claim_cursors, "-1/741", place=12)
    assert lane_of(claim_cursors).floor == 0


def test_a_row_ahead_of_the_cursor_is_announced_too() -> None:
    """Row 9 was locked when the cursor passed it and came to 20; row 15 was committed when a claim had looked there."""
    claim_cursors = ClaimCursors()
    take(claim_cursors, 20)
    refresh(claim_cursors, "3/1", place=20, first=9)
    take(claim_cursors, 9, is_short=True)
    assert refresh(claim_cursors, place=20, first=15) == {"default"}


def test_the_floor_stays_below_the_first_row_that_can_be_seen_and_the_cursor_returns_to_it() -> None:
    """It may be locked by a claim that is rolled back."""
    claim_cursors = ClaimCursors()
    take(claim_cursors, 10)
    assert refresh(claim_cursors, place=12, first=4) == {"default"}
    take(claim_cursors, 10)
    assert refresh(claim_cursors, place=12, first=4) == {"default"}
    assert lane_of(claim_cursors).floor == 3
    assert start_of(ask(claim_cursors)) == 3


def test_an_answer_does_not_move_a_cursor_that_went_back_meanwhile() -> None:
    """CURSOR-3: else a claim that is always under way would pass a row by for ever."""
    claim_cursors = ClaimCursors()
    take(claim_cursors, 10)
    asked = ask(claim_cursors)
    refresh(claim_cursors, place=12, first=4)
    claim_cursors.took(asked, [row(15)], is_short=False)
    assert start_of(ask(claim_cursors)) == 3


def test_refreshes_are_owed_until_every_cursor_is_at_its_floor() -> None:
    claim_cursors = ClaimCursors()
    assert not claim_cursors.is_refresh_owed(monotonic=0.0)
    take(claim_cursors, 10)
    for at in (1.0, 2.0):
        assert claim_cursors.is_refresh_owed(monotonic=at)
        refresh(claim_cursors, place=12, at=at)
    assert not claim_cursors.is_refresh_owed(monotonic=2.0)
    assert claim_cursors.seconds_until_refresh(monotonic=2.0) == REFRESH_SECONDS
    take(claim_cursors, at=2.0, is_short=True)
    assert not claim_cursors.is_refresh_owed(monotonic=2.0), "a look at an empty queue costs nothing more"
    assert claim_cursors.is_refresh_owed(monotonic=SEARCH_SECONDS), "once a minute from the beginning"


def test_many_claims_for_nothing_are_a_reason_to_look_further() -> None:
    """Another process's dead rows may lie in front of a cursor that never moves."""
    claim_cursors = ClaimCursors()
    take(claim_cursors)
    for _ in range(2):
        refresh(claim_cursors, place=12)
    assert not claim_cursors.is_refresh_owed(monotonic=1.0)
    for _ in range(MOST_CLAIMS):
        take(claim_cursors)
    for place in (50, 60):
        assert claim_cursors.is_refresh_owed(monotonic=1.0)
        refresh(claim_cursors, place=place)
    assert start_of(ask(claim_cursors)) == 50


@pytest.mark.parametrize("change", ["sequence", "server", "connection"])
def test_what_was_known_of_another_server_is_forgotten(change: str) -> None:
    claim_cursors = ClaimCursors()
    take(claim_cursors, 10)
    for _ in range(2):
        refresh(claim_cursors, place=12)
    assert lane_of(claim_cursors).floor == 12
    if change == "connection":
        claim_cursors.forget()
    question = question_of(
        claim_cursors, place=5 if change == "sequence" else 20, server=2 if change == "server" else 1
    )
    assert set(question.starts) == {0}, "the search starts from the beginning"
    assert lane_of(claim_cursors).floor == 0
    claim_cursors.refresh(question, [3 if lane.priority == NORMAL else None for lane in question.lanes])
    assert start_of(ask(claim_cursors)) == 2


def test_a_cursor_is_never_ahead_of_a_sequence_that_was_set_back() -> None:
    claim_cursors = ClaimCursors()
    take(claim_cursors, 10)
    refresh(claim_cursors, place=5)
    assert start_of(ask(claim_cursors)) == 5


def test_the_answer_of_a_server_of_before_counts_for_nothing() -> None:
    claim_cursors = ClaimCursors()
    take(claim_cursors, 10)
    refresh(claim_cursors, place=12)
    question = question_of(claim_cursors, place=12)
    assert question.settled == 12
    claim_cursors.forget()
    claim_cursors.refresh(question, [None] * len(question.lanes))
    assert lane_of(claim_cursors).floor == 0


class Server:
    """Transactions that place rows of two types, as far as a claim's cursors can tell it from PostgreSQL."""

    def __init__(self) -> None:
        self.now = 0.0
        self.last_transaction = 0
        self.last_place = 0
        self.open: dict[str, tuple[int, bool]] = {}
        self.visible: dict[int, bool] = {}
        """Whether they are ours, by place."""
        self.locked: set[int] = set()
        self.claims: list[tuple[Asked, list[int], int | None, bool]] = []
        """Answers on their way."""
        self.holders: Holders | None = None
        self.question: Question | None = None
        self.first: int | None = None

    def begin(self, *, is_ours: bool) -> None:
        """A transaction draws a place, and goes on."""
        self.last_transaction += 1
        self.last_place += 1
        self.open[f"1/{self.last_transaction}"] = (self.last_place, is_ours)

    def end(self, pick: int, *, commits: bool) -> None:
        if self.open:
            place, is_ours = self.open.pop(sorted(self.open)[pick % len(self.open)])
            if commits:
                self.visible[place] = is_ours

    @property
    def claimable(self) -> set[int]:
        return {place for place, is_ours in self.visible.items() if is_ours}

    def claim(self, claim_cursors: ClaimCursors, limit: int) -> None:
        asked = ask(claim_cursors, at=self.now, types=MINE)
        found = sorted(p for p in self.claimable - self.locked if p > start_of(asked))[:limit]
        seen = max((place for place in self.visible if place > start_of(asked)), default=None)
        for place in found:
            del self.visible[place]
        self.claims.append((asked, found, seen, len(found) < limit))

    def answer_claim(self, claim_cursors: ClaimCursors, pick: int) -> None:
        if self.claims:
            asked, found, seen, is_short = self.claims.pop(pick % len(self.claims))
            if found:
                claim_cursors.took(asked, [row(place) for place in found], is_short=is_short)
            if is_short and (asked.says_seen or not found):
                claim_cursors.saw(asked, [seen if one.priority == NORMAL else None for one in asked.lanes])

    def lock(self, pick: int) -> None:
        """Another claim has it, and may yet give it back."""
        if self.visible:
            self.locked.add(sorted(self.visible)[pick % len(self.visible)])

    def refresh(self, claim_cursors: ClaimCursors) -> None:
        """One step of one refresh: ask for the holders, look for rows, take the answer in."""
        if self.question is not None:
            question, self.question = self.question, None
            claim_cursors.refresh(question, [self.first if one.priority == NORMAL else None for one in question.lanes])
        elif self.holders is not None:
            holders, self.holders = self.holders, None
            self.question = claim_cursors.question(holders, furthest=holders.place, monotonic=self.now)
            starts = [
                s for one, s in zip(self.question.lanes, self.question.starts, strict=True) if one.priority == NORMAL
            ]
            self.first = min((p for p in self.claimable if starts and p > starts[0]), default=None)
        else:
            self.holders = Holders(self.last_place, frozenset(self.open), 1)


STEPS_A_REFRESH = 3
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "ours",
                "theirs",
                "commit",
                "commit",
                "roll back",
                "claim",
                "answer",
                "lock",
                "unlock",
                "refresh",
                "two refreshes",
                "pause",
            ]
        ),
        st.integers(0, 9),
    ),
    min_size=20,
    max_size=80,
)


@given(STEPS)
@settings(max_examples=100, deadline=None)
def test_no_row_ever_lies_below_the_floor(steps: list[tuple[str, int]]) -> None:
    """CURSOR-1, for every order of events; CURSOR-2: once all transactions have ended, one refresh finds every row."""
    server, claim_cursors = Server(), ClaimCursors()
    ask(claim_cursors, types=MINE)
    for step, pick in steps:
        match step:
            case "ours" | "theirs":
                server.begin(is_ours=step == "ours")
            case "commit" | "roll back":
                server.end(pick, commits=step == "commit")
            case "claim":
                server.claim(claim_cursors, pick % 2 + 1)
            case "answer":
                server.answer_claim(claim_cursors, pick)
            case "lock":
                server.lock(pick)
            case "unlock":
                server.locked.clear()
            case "refresh":
                server.refresh(claim_cursors)
            case "two refreshes":
                for _ in range(STEPS_A_REFRESH * 2):
                    server.refresh(claim_cursors)
            case "pause":
                server.now += LOOK_BACK_SECONDS
        assert min(server.claimable, default=END) > lane_of(claim_cursors, MINE).floor
    server.locked.clear()
    while server.open:
        server.end(0, commits=True)
    while server.claims:
        server.answer_claim(claim_cursors, 0)
    while server.holders is not None or server.question is not None:
        server.refresh(claim_cursors)
    for _ in range(3):
        server.refresh(claim_cursors)
    for _ in range(len(server.claimable) + 2):
        server.claim(claim_cursors, 2)
        server.answer_claim(claim_cursors, 0)
    assert not server.claimable


# the cursors and PostgreSQL


async def settled(store: PostgresStore) -> None:
    """All floors at their cursors, as they are a moment after the last claim."""
    for _ in range(2):
        await store._claims.floors.refresh()


async def test_a_row_that_is_committed_late_is_claimed_by_the_next_short_claim(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine a refresh may find it before.
    monkeypatch.setattr(store._claims.floors, "start", lambda: None)
    worker = await register(store)
    async with with_asyncpg(url) as late:
        early_place = await submit_within(store, late)
        later_places = [await submit_one(store) for _ in range(4)]
        assert await claimed_ids(store, worker, limit=2) == later_places[:2]
        await late.commit()
        assert await claimed_ids(store, worker, limit=1) == later_places[2:3], "the cursor has passed it"
        assert await claimed_ids(store, worker, limit=2) == later_places[3:], "short: the next one looks back"
        assert await claimed_ids(store, worker, limit=2) == [early_place]


async def test_a_row_that_is_committed_late_is_claimed_after_a_refresh(store: PostgresStore, url: str) -> None:
    worker = await register(store)
    async with with_asyncpg(url) as late:
        early_place = await submit_within(store, late)
        later_places = [await submit_one(store) for _ in range(10)]
        assert await claimed_ids(store, worker, limit=2) == later_places[:2]
        await late.commit()
    await store._claims.floors.refresh()
    assert await claimed_ids(store, worker, limit=2) == [early_place, later_places[2]]


async def test_a_worker_that_sleeps_is_woken_for_what_lies_behind_its_cursor(url: str) -> None:
    """With nobody to tell it: the caller's commit is not announced."""
    async with opened(url, listen=False, notify=False) as store, with_asyncpg(url) as late:
        worker = await register(store)
        early_place = await submit_within(store, late)
        later_places = [await submit_one(store) for _ in range(2)]
        assert await claimed_ids(store, worker, limit=2) == later_places
        waiting = asyncio.create_task(hears(store, QUEUES, within_seconds=LONG_SECONDS))
        await asyncio.sleep(0)
        await late.commit()
        assert await waiting
        assert await claimed_ids(store, worker, limit=2) == [early_place]


async def test_a_floor_does_not_pass_what_was_placed_while_its_answer_was_on_the_way(
    store: PostgresStore, url: str
) -> None:
    """Claims of the same store go on meanwhile, and move the cursor."""
    worker = await register(store)
    await submit_one(store)
    await claim(store, worker, limit=1)
    await settled(store)
    async with with_asyncpg(url) as late:
        late_ids: list[UUID] = []

        async def meanwhile() -> None:
            late_ids.append(await submit_within(store, late))
            for _ in range(3):
                await submit_one(store)
            assert len(await claim(store, worker, limit=3)) == 3

        with answer_held_back(store, "claim.holders", meanwhile):
            await store._claims.floors.refresh()
        await submit_one(store)
        assert len(await claim(store, worker, limit=1)) == 1
        await settled(store)
        await late.commit()
    await settled(store)
    assert await claimed_ids(store, worker, limit=2) == late_ids


@contextmanager
def answer_held_back(store: PostgresStore, name: str, meanwhile: Callable[[], Awaitable[None]]) -> Iterator[None]:
    """Of the next such statement: something else happens before it arrives."""
    fetched, sql = store._database.fetch, store._database.sql[name]

    async def fetch_late(text: str, *arguments: Any) -> Any:
        answer = await fetched(text, *arguments)
        if text == sql:
            await meanwhile()
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store._database, "fetch", fetch_late)
        yield


Isolation = Literal["repeatable_read", "read_committed"]
HELD: dict[str, tuple[Isolation, str]] = {
    "a reader": ("repeatable_read", "SELECT FROM holdfast.ready"),
    "a writer": ("read_committed", "SELECT txid_current()"),
}


@pytest.mark.parametrize(("isolation", "statement"), HELD.values(), ids=HELD)
async def test_the_floor_rises_while_somebody_holds_a_transaction(
    store: PostgresStore, url: str, isolation: Isolation, statement: str
) -> None:
    worker = await register(store)
    await submit_jobs(store, *(new_job() for _ in range(30)))
    async with connected(url) as stranger, stranger.transaction(isolation=isolation):
        await stranger.fetch(statement)
        assert len(await claim(store, worker, limit=5)) == 5
        await settled(store)
        lane = lane_of(store._claims.cursors)
        assert lane.floor >= lane.after > 0


async def test_nothing_is_asked_once_every_floor_is_at_its_cursor(store: PostgresStore) -> None:
    """An idle worker's claims cost what they cost, and nothing beside."""
    worker = await register(store)
    await submit_jobs(store, *(new_job() for _ in range(3)))
    await claim(store, worker)
    async with asyncio.timeout(LONG_SECONDS):
        while store._claims.floors._task is not None:
            await asyncio.sleep(0.05)
    assert await claim(store, worker) == []
    assert store._claims.floors._task is None


async def test_a_late_commit_is_found_within_a_moment_whatever_the_order_of_the_queues(
    store: PostgresStore, url: str
) -> None:
    """A worker with weighted queues claims in another order each time; none of these claims comes back short."""
    worker = await register(store)
    queues = [f"queue-{n}" for n in range(12)]
    async with with_asyncpg(url) as late:
        late_id = await submit_within(store, late, queue="queue-0")
        await submit_jobs(store, *(new_job(queue=queue) for queue in queues for _ in range(100)))
        await claim(store, worker, queues=tuple(queues), limit=1)
        await settled(store)
        await late.commit()
    refreshes = store._claims.cursors._turn
    found: set[UUID] = set()
    async with asyncio.timeout(LONG_SECONDS):
        while late_id not in found and store._claims.cursors._turn < refreshes + 3:
            queues.append(queues.pop(0))
            found.update(await claimed_ids(store, worker, queues=tuple(queues), limit=1))
            await asyncio.sleep(0.01)
    assert late_id in found


# another server, another past


async def test_a_job_behind_the_floor_is_found_after_the_sequence_was_set_back(store: PostgresStore, url: str) -> None:
    """As after the loss of an asynchronous primary."""
    worker = await register(store)
    (place,) = await fetch(url, "SELECT nextval('holdfast.job_seq') AS now")
    await submit_jobs(store, *(new_job() for _ in range(20)))
    await claim(store, worker)
    await settled(store)
    await fetch(url, "DELETE FROM holdfast.running")
    await fetch(url, "DELETE FROM holdfast.job")
    await fetch(url, "SELECT setval('holdfast.job_seq', $1::bigint)", place["now"])
    jobs = [await submit_one(store) for _ in range(2)]
    assert await claimed_ids(store, worker) == []
    await store._claims.floors.refresh()
    assert await claimed_ids(store, worker) == jobs


async def test_a_job_behind_the_floor_is_found_after_a_connection_was_lost(store: PostgresStore, url: str) -> None:
    """As after a failover to a server whose sequence has grown past the floor since."""
    worker = await register(store)
    await submit_jobs(store, *(new_job() for _ in range(3)))
    await claim(store, worker)
    await settled(store)
    job = await submit_one(store)
    await fetch(url, "UPDATE holdfast.ready SET place = 1")
    assert await claimed_ids(store, worker) == []
    await settled(store)
    assert await claimed_ids(store, worker) == [], "nothing says that this is another server"
    kill = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'holdfast'"
    await fetch(url, kill + " AND datname = current_database()")
    for _ in range(limits.DEFAULT_POOL_CONNECTIONS + 1):
        with suppress(Unavailable):
            await store._claims.floors.refresh()
    assert await claimed_ids(store, worker) == [job]


async def test_a_search_from_the_beginning_finds_what_nothing_told_of(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await register(store)
    await submit_jobs(store, *(new_job() for _ in range(3)))
    await claim(store, worker)
    await settled(store)
    job = await submit_one(store)
    await fetch(url, "UPDATE holdfast.ready SET place = 1")
    monkeypatch.setattr(cursors, "SEARCH_SECONDS", 0.0)
    await store._claims.floors.refresh()
    assert await claimed_ids(store, worker) == [job]


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
    # In which order depends on when the refresh beside the claims looks.
    rest = [await claimed_ids(store, worker, limit=2) for _ in range(2)]
    assert sorted(rest) == sorted([jobs[:2], jobs[4:]])


async def claim_by_hand(connection: asyncpg.Connection, worker: UUID, *, limit: int) -> list[UUID]:
    """claim.sql in a transaction that the test ends as it likes."""
    asked = new_claim(worker, limit=limit)
    lanes = ask(ClaimCursors()).columns
    rows = await connection.fetch(
        Statements("holdfast")["claim.lease"], None, worker, *lanes, limit, None, str(asked.nonce)[:-4], False
    )
    return [claimed["id"] for claimed in rows if claimed["job"] is not None]


async def submit_within(store: PostgresStore, caller: Any, **given: Any) -> UUID:
    job: NewJob = new_job(**given)
    await store.submit([Submit(jobs=(job,))], connection=caller.connection)
    return job.id


# what a claim costs, counted in pages touched, not in time

BATCH = 20
DRAINED = 4000
DRAINED_AT_ONCE = 500
FEW_PAGES = 5


@pytest.mark.parametrize(("isolation", "statement"), HELD.values(), ids=HELD)
async def test_the_cost_of_a_claim_does_not_grow_with_the_jobs_drained_under_a_held_transaction(
    url: str, isolation: Isolation, statement: str
) -> None:
    """Dead rows that a long transaction keeps."""
    async with opened(url) as store, connected(url) as stranger, stranger.transaction(isolation=isolation):
        worker = await register(store)
        empty = await pages_of_a_claim(store, url, worker)
        await submit_jobs(store, *(new_job() for _ in range(DRAINED + 2 * DRAINED_AT_ONCE)))
        await stranger.fetch(statement)
        await drain(store, worker, DRAINED_AT_ONCE)
        first = await pages_of_a_claim(store, url, worker)
        await drain(store, worker, DRAINED)
        last = await pages_of_a_claim(store, url, worker)
        from_the_start = await pages_of_a_claim(store, url, worker, from_start=True)
        await drain(store, worker, DRAINED_AT_ONCE)
        assert await claim(store, worker) == []
        await settled(store)
        short = await pages_of_a_claim(store, url, worker)
    assert last <= first + FEW_PAGES, (first, last)
    assert short <= empty + 2 * FEW_PAGES, (empty, short, "after a short claim the next one walks over the dead rows")
    assert from_the_start > 2 * last, (from_the_start, last, "the dead rows that the cursor spares us are not there")


async def test_the_cost_of_counting_does_not_grow_with_the_jobs_drained_under_a_held_transaction(url: str) -> None:
    """For a process that claims nothing, too: it learns for itself where the oldest job can be."""
    async with opened(url) as store, opened(url) as other, connected(url) as stranger, stranger.transaction():
        worker = await register(store)
        await submit_jobs(store, *(new_job() for _ in range(2 * DRAINED_AT_ONCE)))
        await stranger.fetch("SELECT txid_current()")
        first = await blocks_of(other, url, other.read_queues)
        await drain(store, worker, 2 * DRAINED_AT_ONCE)
        walking = await blocks_of(other, url, other.read_queues)
        await settled(other)
        last = await blocks_of(other, url, other.read_queues)
        job_id = await submit_one(store)
        (queue,) = await other.read_queues()
        assert queue.oldest_scheduled_at == (await read_one(store, job_id)).scheduled_at
    assert last <= first + 2 * FEW_PAGES, (first, last)
    assert walking > 2 * last, (walking, last, "the dead rows that the floor spares us are not there")


@pytest.mark.parametrize("is_own_job_there", [True, False])
async def test_jobs_of_other_types_in_front_are_passed_once(
    store: PostgresStore, url: str, is_own_job_there: bool
) -> None:
    worker = await register(store)
    await submit_jobs(store, *(new_job(type="theirs") for _ in range(DRAINED)))
    first = await pages_of_a_claim(store, url, worker, types=MINE)
    own = [await submit_one(store, type="mine") for _ in range(2)] if is_own_job_there else []
    assert await claimed_ids(store, worker, limit=2, types=MINE) == own
    later = [await submit_one(store, type="mine") for _ in range(2)]
    await settled(store)
    pages = await pages_of_a_claim(store, url, worker, types=MINE)
    assert pages <= first / 3, (first, pages)
    assert await claimed_ids(store, worker, types=MINE) == later
    assert len(await claim(store, worker, limit=3, types=("theirs",))) == 3, "those who know them are not held up"


async def test_jobs_of_other_types_are_passed_by_the_claim_that_meets_them(store: PostgresStore, url: str) -> None:
    """Not only by the next refresh, which may be a second away."""
    worker = await register(store)
    await claim(store, worker, types=MINE)
    await submit_jobs(store, *(new_job(type="theirs") for _ in range(DRAINED)))
    first = await pages_of_a_claim(store, url, worker, types=MINE)
    assert await claim(store, worker, types=MINE) == []
    for at in (END, 2 * END):
        ask(store._claims.cursors, at=at, types=MINE)
    pages = await pages_of_a_claim(store, url, worker, types=MINE)
    assert pages <= first / 3, (first, pages)


@pytest.mark.parametrize(("limit", "theirs"), [(2, Priority.HIGH), (10, Priority.LOW)], ids=["before", "after"])
async def test_jobs_of_other_types_in_other_lanes_are_passed_while_no_floor_rises(
    new_database: NewDatabase, limit: int, theirs: Priority
) -> None:
    """Somebody's submit stays open. A claim that takes something passes the lanes that it has searched to the end."""
    url = new_database()
    await migrate.upgrade(url)
    async with opened(url) as store, with_asyncpg(url) as caller:
        worker = await register(store)
        await submit_within(store, caller, queue="elsewhere")
        await submit_jobs(store, *(new_job(type="theirs", priority=theirs) for _ in range(DRAINED)))
        own = [await submit_one(store, type="mine") for _ in range(2)]
        first = await pages_of_a_claim(store, url, worker, types=MINE)
        forget_that_claims_said_what_they_saw(store)
        assert await claimed_ids(store, worker, limit=limit, types=MINE) == own
        for at in (END, 2 * END):
            ask(store._claims.cursors, at=at, types=MINE)
        later = [await submit_one(store, type="mine") for _ in range(2)]
        pages = await pages_of_a_claim(store, url, worker, types=MINE)
        assert pages <= first / 3, (first, pages)
        assert await claimed_ids(store, worker, limit=limit, types=MINE) == later
        assert len(await claim(store, worker, limit=3, types=("theirs",))) == 3, "those who know them are not held up"


async def test_a_claim_passes_nothing_in_lanes_that_it_did_not_search(store: PostgresStore) -> None:
    worker = await register(store)
    put_refreshes_off(store)
    low = [await submit_one(store, type="mine", priority=Priority.LOW) for _ in range(2)]
    own = [await submit_one(store, type="mine") for _ in range(3)]
    assert await claimed_ids(store, worker, limit=2, types=MINE) == own[:2]
    starts = dict(zip(*ask(store._claims.cursors, types=MINE).columns[1:], strict=True))
    assert starts[int(Priority.LOW)] == 0
    assert await claimed_ids(store, worker, limit=3, types=MINE) == [own[2], *low]


async def test_a_claim_passes_nothing_where_a_job_must_be_taken_alone(store: PostgresStore, url: str) -> None:
    worker = await register(store)
    put_refreshes_off(store)
    jobs = [await submit_one(store, type="mine") for _ in range(3)]
    await fetch(
        url, "UPDATE holdfast.ready SET is_fragile = true WHERE place = (SELECT max(place) - 1 FROM holdfast.ready)"
    )
    for job_id in jobs:
        assert await claimed_ids(store, worker, limit=10, types=MINE) == [job_id]
        (left,) = await fetch(url, "SELECT min(place) AS place FROM holdfast.ready")
        assert lane_of(store._claims.cursors, MINE).after < (left["place"] or END)


async def test_a_job_of_an_earlier_lane_that_was_locked_when_it_was_passed_is_found_by_the_refresh(
    store: PostgresStore, url: str
) -> None:
    """CURSOR-2, for what a claim that took something has passed."""
    worker = await register(store)
    urgent = await submit_one(store, type="mine", priority=Priority.HIGH)
    await submit_jobs(store, new_job(type="theirs", priority=Priority.HIGH))
    own = [await submit_one(store, type="mine") for _ in range(4)]
    async with connected(url) as stranger, stranger.transaction():
        await stranger.fetch("SELECT FROM holdfast.ready WHERE priority = $1 FOR UPDATE", int(Priority.HIGH))
        assert await claimed_ids(store, worker, limit=2, types=MINE) == own[:2]
    await store._claims.floors.refresh()
    assert await claimed_ids(store, worker, limit=2, types=MINE) == [urgent, own[2]]


def put_refreshes_off(store: PostgresStore) -> None:
    """They would put right what a claim has passed by mistake."""
    store._claims.cursors.note_refresh(monotonic=END)


def forget_that_claims_said_what_they_saw(store: PostgresStore) -> None:
    for lane in store._claims.cursors._lanes.values():
        lane.is_asked = False


async def test_a_job_without_a_type_in_its_row_is_claimed_by_its_type(store: PostgresStore, url: str) -> None:
    """A program of before this column wrote it."""
    worker = await register(store)
    theirs, mine = await submit_one(store, type="theirs"), await submit_one(store, type="mine")
    await fetch(url, "UPDATE holdfast.ready SET type = NULL")
    assert await claimed_ids(store, worker, types=MINE) == [mine]
    await settled(store)
    assert await claimed_ids(store, worker, types=("theirs",)) == [theirs]


async def drain(store: PostgresStore, worker: UUID, count: int) -> None:
    for _ in range(count // DRAINED_AT_ONCE):
        jobs = await claim(store, worker, limit=DRAINED_AT_ONCE)
        assert len(jobs) == DRAINED_AT_ONCE
        await store.settle([Settlement(lease=job.lease, outcome=COMPLETED) for job in jobs])


async def pages_of_a_claim(
    store: PostgresStore, url: str, worker: UUID, *, types: tuple[str, ...] | None = None, from_start: bool = False
) -> int:
    """The pages that the store's next claim would touch to find its jobs; it is rolled back."""
    claim_cursors = ClaimCursors() if from_start else store._claims.cursors
    lanes = claim_cursors.ask(QUEUES, types, monotonic=claim_cursors._rotated_at).columns
    token_stem = str(new_claim(worker).nonce)[:-4]
    explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + Statements("holdfast")["claim.lease"]
    names = list(types) if types is not None else None
    async with connected(url, **PLANNER) as connection:
        transaction = connection.transaction()
        await transaction.start()
        plan = json.loads(await connection.fetchval(explain, None, worker, *lanes, BATCH, names, token_stem, False))
        await transaction.rollback()
    scans = [node for node in nodes_of(plan[0]["Plan"]) if node.get("Index Name") == "ready_claim"]
    assert scans
    return sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in scans)


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes_of(child)


# the lock on ready comes before the places

ASSERTING_SEQUENCE = """
CREATE FUNCTION holdfast.next_place() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_locks
        WHERE pid = pg_backend_pid() AND relation = 'holdfast.ready'::regclass AND mode = 'RowExclusiveLock'
    ) THEN
        RAISE EXCEPTION 'a place was drawn by a transaction that has not locked ready';
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
    "columns": [Submit(jobs=JobColumns(new_job(), [uuid4(), uuid4()], [EMPTY, EMPTY]))],
}


@pytest.mark.parametrize("submits", PLAIN_SUBMITS.values(), ids=PLAIN_SUBMITS)
async def test_a_submit_locks_ready_before_it_draws_places(new_database: NewDatabase, submits: list[Submit]) -> None:
    """POSTGRES-3. Else a job could come to stand behind the floor: it was placed early and is written late."""
    url = new_database()
    await migrate.upgrade(url)
    async with opened(url) as store, connected(url) as connection:
        await connection.execute(ASSERTING_SEQUENCE)
        answers = await store.submit(submits)
    assert [len(answer) for answer in answers] == [len(one.jobs) for one in submits]  # type: ignore[arg-type]


def test_the_verbs_draw_places_in_the_statement_that_writes_them() -> None:
    """POSTGRES-3, for everything that is not a plain submit."""
    assert "INSERT INTO {schema}.ready" in (
        text := Statements("holdfast")["write.ready"].replace('"holdfast"', "{schema}")
    )
    assert "nextval('{schema}.job_seq')" in text
