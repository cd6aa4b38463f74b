"""One database, the model beside it, and what has happened so far.

The store leads: it is asked, then the model says whether the answer was legal and does the same. After every command
all jobs are compared, field by field.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final
from uuid import UUID

from holdfast.core import limits
from holdfast.core.commands import Filter
from holdfast.core.errors import Unavailable
from holdfast.core.job import Job, Lease
from holdfast.core.states import State
from holdfast.testing.model import Model
from holdfast.testing.model.following import overdue
from holdfast.testing.model.moves import tell_what_is_owed
from holdfast.testing.model.world import Hold
from tests.differential.driver import Difference
from tests.differential.overlaps.databases import Caller, Database
from tests.differential.overlaps.time import JumpingClock, Steady
from tests.differential.sides import Book
from tests.differential.snapshots import answer_of, comparable, differences, pages

ANSWER_SECONDS: Final = 10.0
"""Whoever has not answered by then waits for the transaction that the stream holds open."""
MOST_SKEW_SECONDS: Final = 12 * 3600.0
LATE_SECONDS: Final = 60.0
"""After that long, by the steady clock, a tick has dealt with whatever its time has come."""


class Verdict(Enum):
    """Whether somebody's open transaction keeps a store from doing what it is asked."""

    FREE = "it must do it"
    EITHER = "it may do it, or answer Unavailable"
    HELD = "it must answer Unavailable"


@dataclass(frozen=True, slots=True)
class Asked:
    """A command made concrete: how to ask a store, and how the model follows its answer."""

    ask: Callable[[Any], Awaitable[Any]]
    follow: Callable[[Any], Awaitable[None]]
    is_claim: bool = False


@dataclass(slots=True)
class Open:
    """A caller's open transaction, in the database and in the model."""

    caller: Caller
    hold: Hold


@dataclass(slots=True)
class Stage:
    database: Database
    clock: JumpingClock
    steady: Steady
    model: Model = field(init=False)
    book: Book = field(init=False)
    leases: list[tuple[Lease, Lease]] = field(default_factory=list)
    """As the store and as the model gave them."""
    dead_workers: set[UUID] = field(default_factory=set)
    open: list[Open] = field(default_factory=list)
    unseen: list[set[UUID]] = field(init=False)
    """For each store: what it may have passed by while it was locked, or not committed."""
    late: dict[UUID, float] = field(default_factory=dict)
    """Since when, by the steady clock, a tick has left a job whose time has come."""
    skew: float = 0.0
    """How far the clock is from where it would be if nobody had set it."""
    is_releasing: bool = False
    """A transaction ends while the command runs: whether it still finds what that held is a race."""
    seen: dict[UUID, Job] = field(default_factory=dict)
    answer: Any = None
    met: set[str] = field(default_factory=set)
    """What has happened that streams are made for."""

    def __post_init__(self) -> None:
        self.model = Model(self.clock)
        self.book = Book(self.clock, self.model)
        self.unseen = [set() for _ in self.database.stores]

    @property
    def world(self) -> Any:
        return self.model.world

    # asking

    async def play(self, asked: Asked, store: int) -> None:
        answer = await self._answer(asked, store)
        await self.look(store)
        await asked.follow(answer)
        await self.compare(store)

    async def play_while_releasing(self, asked: Asked, store: int, *, closing: int, is_commit: bool) -> None:
        """Ask, end the transaction while the store is at it, then look."""
        held = set(self.open[closing].hold.locked_jobs)
        task = asyncio.ensure_future(self._answer(asked, store))
        await asyncio.sleep(0.02)
        await self.release(closing, is_commit=is_commit)
        answer = await task
        await self.look(store)
        # Dependents that were held a moment ago may have been told, or left to tick. A claim may have found them.
        ghost = Hold(locked_jobs=held)
        self.world.holds += [] if asked.is_claim or self.database.has_one_writer else [ghost]
        await asked.follow(answer)
        await self.compare(store)
        self.world.holds = [hold for hold in self.world.holds if hold is not ghost]

    async def _answer(self, asked: Asked, store: int) -> Any:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                self.answer = await answer_of(lambda: asked.ask(self.database.stores[store]))
                return self.answer
        except TimeoutError as error:
            raise Difference(f"no answer in {ANSWER_SECONDS} s: it waits for somebody's open transaction") from error

    # callers' transactions

    async def begin(self) -> None:
        if len(self.open) < self.database.callers:
            self.open.append(Open(await self.database.begin(), self.model.begin()))

    async def release(self, index: int, *, is_commit: bool) -> None:
        one = self.open.pop(index)
        await one.caller.end(is_commit=is_commit)
        freed = one.hold.locked_jobs | one.hold.jobs.keys()
        (self.model.commit if is_commit else self.model.roll_back)(one.hold)
        if self.database.has_one_writer:
            # They commit in the order of their places: there is nothing to pass by.
            return
        found = {i for i in freed if i in self.world.jobs and self.world.jobs[i].state is State.SCHEDULED}
        for unseen in self.unseen:
            unseen |= found

    def verdict(self, is_held: bool, *, may_be_held: bool = False) -> Verdict:
        if self.database.has_one_writer:
            return Verdict.EITHER if self.open or self.is_releasing else Verdict.FREE
        if is_held:
            return Verdict.EITHER if self.is_releasing else Verdict.HELD
        return Verdict.EITHER if may_be_held else Verdict.FREE

    # following

    def sort_out(self, answer: Any, verdicts: Sequence[Verdict]) -> list[int]:
        """The positions of the items that were done; the others were rightly refused."""
        if isinstance(answer, Unavailable):
            answer = [answer] * len(verdicts)
        if not isinstance(answer, list):
            return list(range(len(verdicts)))
        done = []
        for n, (one, verdict) in enumerate(zip(answer, verdicts, strict=True)):
            is_refused = isinstance(one, Unavailable)
            if verdict is (Verdict.FREE if is_refused else Verdict.HELD):
                raise Difference(f"item {n}: {verdict.value}, and was answered with {one!r}")
            done += [] if is_refused else [n]
        return done

    def require_same(self, expected: Any, got: Any) -> None:
        if found := differences(comparable(expected), comparable(got), "answer"):
            raise Difference("the store's answer differs from the model's:\n  " + "\n  ".join(found))

    async def look(self, store: int) -> None:
        port = self.database.stores[store]
        self.seen = {
            job.id: job
            async for page in pages(lambda c: port.read_page(Filter(), limit=limits.MAX_PAGE_JOBS, cursor=c))
            for job in page.jobs
        }

    async def compare(self, store: int) -> None:
        while told := [child for _, child in self.world.owed if self._has_been_told(child)]:
            tell_what_is_owed(self.world, to=told[0])
        if self.world.owed:
            self.met.add("a dependent is told later")
        expected = {job.id: comparable(job) for job in self.model.read(list(self.world.jobs)) if job is not None}
        got = {job_id: comparable(job) for job_id, job in self.seen.items()}
        if found := differences(expected, got, "jobs"):
            raise Difference("the store differs from the model:\n  " + "\n  ".join(found[:20]))
        expected_workers = {w.id: w.is_lost for w in self.world.workers.values()}
        workers = {w.id: w.is_lost for w in await self.database.stores[store].read_workers()}
        if found := differences(expected_workers, workers, "workers: lost"):
            raise Difference("\n  ".join(found))
        for unseen in self.unseen:
            unseen &= {job.id for job in self.book.jobs(frozenset({State.SCHEDULED}))}
        self.book.note([lease for _, lease in self.leases])

    def _has_been_told(self, child: Any) -> bool:
        return child.state is State.PENDING and self.seen[child.id].state is not State.PENDING

    def require_in_time(self) -> None:
        """After a tick: what it has left although its time had come, and since when."""
        left = {job.id for job in overdue(self.world)}
        if any(job.owner not in self.world.workers for job in self.book.jobs(frozenset({State.RUNNING}))):
            self.met.add("a lease has no worker")
        self.late = {i: self.late.get(i, self.steady.seconds) for i in left}
        for job_id, since in self.late.items():
            if self.steady.seconds - since > LATE_SECONDS:
                job = self.world.jobs[job_id]
                raise Difference(
                    f"ticks have left a job whose time has come for {self.steady.seconds - since} s: {job_id}, "
                    f"{job.state}, due {job.due_at}, lease until {job.expires_at}, now {self.world.now}"
                )

    # time

    async def pass_time(self, seconds: float) -> None:
        whole = min(int(seconds), 3)
        self.clock.advance(seconds - whole)
        self.steady.seconds += seconds - whole
        for _ in range(whole):
            self.clock.advance(1)
            self.steady.seconds += 1
            await self.database.pass_a_second()
            for unseen in self.unseen:
                unseen.clear()

    def jump(self, seconds: float) -> None:
        """Not so far that retention would remove what was just done."""
        if abs(self.skew + seconds) > MOST_SKEW_SECONDS:
            return
        # A claim has passed by what was over its lifetime, and is not any more if the clock goes back.
        over = {job.id for job in self.book.jobs(None) if job.lifetime_ends_at <= self.clock.now()}
        if not self.database.has_one_writer:
            for unseen in self.unseen:
                unseen |= over
        self.skew += seconds
        self.clock.jump(seconds)

    # leases

    def held_by(self, worker: UUID) -> list[tuple[Lease, Lease]]:
        tokens = {job.token for job in self.world.leases_of(worker)}
        return [pair for pair in self.leases if pair[1].token in tokens]

    def pick_lease(self, pick: int, *, is_valid: bool) -> tuple[Lease, Lease] | None:
        """The newest for 0. One whose worker has gone is known to nobody."""
        tokens = {job.token for job in self.book.jobs(frozenset({State.RUNNING}))}
        found = [pair for pair in self.leases if (pair[1].token in tokens) is is_valid]
        return found[-1 - pick % len(found)] if found else None

    def forget(self, worker: UUID) -> None:
        """The worker's process is gone, and what it knew."""
        self.dead_workers.add(worker)
        self.leases = [pair for pair in self.leases if pair[1].owner != worker]

    def is_held(self, jobs: Collection[UUID]) -> bool:
        return any(set(jobs) & one.hold.locked_jobs for one in self.open)
