"""An app under test: its store, its clock, and the walk through time from one thing that happens to the next.

STAGE-1. Time stands still unless ``advance`` or ``drain(wait=True)`` moves it. What is due at a moment happens at that
    moment, in the order of time: periodic jobs at their slots, delayed jobs and retries when they are due, lifetimes
    at their end.
STAGE-2. No job fails unseen: every failure is reported once, by the call that leaves it behind. One that a later
    attempt of the same call has mended is none.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from holdfast.app import Holdfast
from holdfast.core.commands import Tick
from holdfast.core.errors import UsageError
from holdfast.core.job import Job
from holdfast.engine.cron import CronEntry, CronScheduler
from holdfast.testing.clock import ManualClock
from holdfast.testing.failed_jobs import FailedJob
from holdfast.testing.hands import Hands
from holdfast.testing.recording import FAILING, RecordingLogs, RecordingStore
from holdfast.worker.handler import Registry

TICK: Final = Tick()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Drained:
    """What a drain did, and what it left."""

    ran: tuple[Job, ...]
    """The jobs that were tried, in the order of their first attempt, as they stand now."""
    failed: tuple[FailedJob, ...]
    """What is left behind failed: dead, or waiting for another attempt."""
    waiting: tuple[Job, ...]
    """What has not ended, soonest first: ``due_at`` says when a delayed or a failed one comes."""

    def __repr__(self) -> str:
        return f"<Drained: {len(self.ran)} ran, {len(self.failed)} failed, {len(self.waiting)} waiting>"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOptions:
    start: datetime | None
    concurrency: int
    max_jobs: int
    timeout_seconds: float | None
    has_cron: bool


class Stage:
    def __init__(self, app: Holdfast, options: StageOptions) -> None:
        self.app = app
        self.options = options
        self.clock = ManualClock(options.start or datetime.now(UTC))
        self.store = RecordingStore(clock=self.clock)
        self.logs = RecordingLogs()
        self.seen: set[tuple[UUID, str, int, int]] = set()
        """Failures that were reported: of which job, how it stood, at which attempt, after how many replays."""
        self._real = time.monotonic()
        self._is_busy = False

    @property
    def crons(self) -> list[CronEntry]:
        # Asked each time: a test may define a periodic job after it has begun.
        return list(self.app.crons) if self.options.has_cron else []

    async def begin(self) -> None:
        """Periodic jobs count from here."""
        await CronScheduler(self.store, self.crons).fire_due()

    async def drain(self, registry: Registry, *, wait: bool) -> Drained:
        return await self._play(registry, lambda act: act.drain(wait=wait))

    async def advance(self, registry: Registry, seconds: float) -> Drained:
        end = self.clock.now() + timedelta(seconds=seconds + self._real_seconds())
        return await self._play(registry, lambda act: act.walk(end))

    def _real_seconds(self) -> float:
        """The code under test may have made a ``run_at`` from the real time, which goes on: we go beyond it."""
        before, self._real = self._real, time.monotonic()
        return 0.0 if self.options.start is not None else self._real - before

    async def _play(self, registry: Registry, work: Callable[["Act"], Awaitable[None]]) -> Drained:
        if self._is_busy:
            raise UsageError("a drain is under way; it runs what is submitted meanwhile, too: wait for its end")
        self._is_busy = True
        options = self.options
        try:
            async with Hands(
                self.store,
                registry=registry,
                logs=self.logs,
                middleware=self.app.middleware,
                concurrency=options.concurrency,
                max_jobs=options.max_jobs,
            ) as hands:
                act = Act(self, hands)
                await self._in_time(work(act), hands)
            return await act.drained()
        finally:
            self._is_busy = False

    async def _in_time(self, work: Awaitable[None], hands: Hands) -> None:
        bound = asyncio.timeout(self.options.timeout_seconds)
        try:
            async with bound:
                await work
        except TimeoutError:
            if not bound.expired():
                raise
            names = ", ".join(sorted({one.handler.name for one in hands.running})) or "nothing"
            raise TimeoutError(
                f"after {self.options.timeout_seconds:g} s of real time there is still running: {names}. Does it wait "
                "for a job that is not due? If it needs longer, write testing.run(app, timeout=…)"
            ) from None


class Act:
    """One drain or advance."""

    def __init__(self, stage: Stage, hands: Hands) -> None:
        self._stage = stage
        self._hands = hands
        self._crons = stage.crons
        self._scheduler = CronScheduler(stage.store, self._crons)
        self._failed: dict[UUID, Job] = {}
        self._moves = 0

    async def drain(self, *, wait: bool) -> None:
        await self._settle_down()
        while wait and (due_at := self._stage.store.next_due_at()) is not None:
            await self.walk(due_at)

    async def walk(self, end: datetime) -> None:
        """From here to there, with a stop wherever something happens (STAGE-1)."""
        await self._settle_down()
        while (moment := self._next_moment()) is not None and moment < end:
            await self._move_to(moment)
        await self._move_to(end)

    async def _settle_down(self) -> None:
        """Everything that happens at this moment, and what comes of it."""
        store, clock = self._stage.store, self._stage.clock
        is_more_due = True
        while is_more_due:
            while (await store.tick(TICK)).has_more or store.has_ends_to_tell():
                pass
            await self._scheduler.fire_due()
            await self._hands.work()
            self._note_failures()
            due_at = store.next_due_at()
            is_more_due = store.has_ends_to_tell() or (due_at is not None and due_at <= clock.now())

    def _next_moment(self) -> datetime | None:
        store, now = self._stage.store, self._stage.clock.now()
        moments = [store.next_due_at(), store.next_lifetime_end(), *(entry.next_after(now) for entry in self._crons)]
        return min((moment for moment in moments if moment is not None and moment > now), default=None)

    async def _move_to(self, moment: datetime) -> None:
        self._moves += 1
        if self._moves > self._stage.options.max_jobs:
            raise UsageError(
                f"time has stopped {self._moves - 1} times on its way and is not there yet. Periodic jobs can be left "
                "out: testing.run(app, cron=False); and time can jump: jobs.clock.advance(seconds)"
            )
        clock = self._stage.clock
        clock.advance((moment - clock.now()).total_seconds())
        await self._settle_down()

    # what came of it

    def _note_failures(self) -> None:
        # At every stop, and not at the end: retention may have removed a job by then.
        for job in self._stage.store.failing():
            seen = (job.id, job.state, job.attempt, job.replays)
            if seen not in self._stage.seen:
                self._stage.seen.add(seen)
                self._failed[job.id] = job

    async def drained(self) -> Drained:
        store = self._stage.store
        ran = [job for job in await store.read(list(self._hands.started)) if job is not None]
        return Drained(ran=tuple(ran), failed=tuple(await self._left_failed()), waiting=tuple(store.waiting()))

    async def _left_failed(self) -> list[FailedJob]:
        store = self._stage.store
        now = await store.read(list(self._failed))
        left = [job for job, at_end in zip(self._failed.values(), now, strict=True) if _is_failing(at_end)]
        ids = {job.id for job in left}
        # What ended with a dependency that is named itself is not named again.
        return [await self._failed_job(job) for job in left if job.ended_by not in ids]

    async def _failed_job(self, job: Job) -> FailedJob:
        attempts = await self._stage.store.read_attempts(job.id)
        failure = job.failure or (attempts[-1].failure if attempts else None)
        return FailedJob(job=job, failure=failure, error=self._hands.errors.get(job.id), now=self._stage.clock.now())


def _is_failing(job: Job | None) -> bool:
    """None: it was dead, and its retention is over."""
    return job is None or job.state in FAILING
