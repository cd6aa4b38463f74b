"""A worker that stops when there is nothing left to do, made of the worker's own parts.

Claims, attempts and settlements go through the same ``Leases``, ``Executor`` and ``Settler`` as in production. What is
left out is what needs real time to pass: polling, waiting for company, and heartbeats, in whose place the flags are
looked at whenever the store has news. So a drain takes no longer than its handlers do.

HANDS-1. ``work`` returns when no job can be claimed and none of its own runs; a handler that waits for another job gets
    it run in another slot.
HANDS-2. However it ends, no handler of it is left running (a thread that does not return excepted) and no lease held.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self
from uuid import UUID, uuid4

from holdfast.core.commands import Claim, Outcome
from holdfast.core.errors import UsageError, WorkerStuck
from holdfast.core.job import ClaimedJob
from holdfast.core.ports import LogStore
from holdfast.engine import work
from holdfast.testing.recording import RecordingStore
from holdfast.worker import capture
from holdfast.worker.executor import STUBBORN_SECONDS, Executor
from holdfast.worker.handler import Registry
from holdfast.worker.leases import Leases
from holdfast.worker.middleware import Execute, Execution, Middleware
from holdfast.worker.patience import Outage
from holdfast.worker.reporter import Reporter
from holdfast.worker.running import Ending, Running
from holdfast.worker.settler import Settler

NAME: Final = "holdfast.testing"
PATIENCE_SECONDS: Final = STUBBORN_SECONDS + 1.0
"""How long handlers that are ended may take to end."""


class Hands:
    """``async with Hands(…) as hands: await hands.work()``; again after time has moved on."""

    def __init__(
        self,
        store: RecordingStore,
        *,
        registry: Registry,
        logs: LogStore,
        middleware: Sequence[Middleware],
        concurrency: int,
        max_jobs: int,
    ) -> None:
        self._store = store
        self._registry = registry
        self._concurrency = concurrency
        self._max_jobs = max_jobs
        self._leases = Leases(uuid4())
        self._news = asyncio.Event()
        self._errors = ErrorKeeper()
        self.started: dict[UUID, None] = {}
        """The jobs of all attempts, in the order of their first."""
        self._attempts = 0
        self._met = Registry()
        """Of the jobs that were started: no child process is started for a function that no job needs."""
        outage = Outage()
        self._settler = Settler(
            store, self._leases, is_idle=lambda: True, on_room=self._news.set, on_postponed=lambda: None, outage=outage
        )
        self._executor = Executor(
            store,
            registry=self._met,
            reporter=Reporter(store, logs, loop=asyncio.get_running_loop(), on_stale=self._end_stale, outage=outage),
            middleware=(self._errors, *middleware),
            concurrency=concurrency,
            on_settlement=self._settler.settle,
            on_free=lambda _: self._news.set(),
        )

    def _end_stale(self, running: Running) -> None:
        self._executor.end(running, Ending.STALE)

    async def __aenter__(self) -> Self:
        capture.install()
        self._store.on_news = self._news.set
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._end_what_runs()
        finally:
            self._store.on_news = _ignore
            await self._executor.close()
            await self._store.leave(self._leases.worker_id)
            capture.uninstall()

    @property
    def errors(self) -> dict[UUID, BaseException]:
        """What the last attempt of a job raised; what a child process raised, only its failure tells."""
        return self._errors.by_job

    async def work(self) -> None:
        """Until nothing is left to do at this moment (HANDS-1). UsageError where that does not come to an end."""
        # Anew each time: time may have moved on by more than a worker can be silent.
        await work.register(self._store, self._leases.worker_id, name=NAME, types=tuple(self._registry))
        while True:
            self._news.clear()
            jobs = await self._claim()
            for job in jobs:
                self._start(job)
            if not jobs:
                self._require_free_slots()
                if not len(self._leases):
                    return
            await self._heed()
            await self._news.wait()

    @property
    def running(self) -> list[Running]:
        """What has not ended yet."""
        return [one for one in self._executor.running.values() if not one.is_settled]

    async def _claim(self) -> list[ClaimedJob]:
        queues = self._store.queue_names()
        free = self._concurrency - len(self._executor.running)
        if not queues or free <= 0:
            return []
        claim = Claim(
            owner=self._leases.worker_id, queues=queues, limit=free, nonce=uuid4(), types=tuple(self._registry)
        )
        await self._leases.begin_claim(claim.nonce, claim.limit)
        jobs: list[ClaimedJob] = []
        try:
            jobs = await work.claim(self._store, claim)
        finally:
            self._leases.end_claim(claim.nonce, jobs)
        return jobs

    def _start(self, job: ClaimedJob) -> None:
        self._attempts += 1
        if self._attempts > self._max_jobs:
            raise UsageError(
                f"{self._max_jobs} attempts were made and {job.type!r} is still to run: does a job submit itself for "
                "ever? If it is meant to be so much, write testing.run(app, max_jobs=…)"
            )
        self.started[job.id] = None
        handler = self._registry[job.type]
        self._met.add(handler)
        self._executor.start(job, handler)
        # A slot may be free for another one: one that must be claimed alone ends a claim.
        self._news.set()

    async def _heed(self) -> None:
        """What a heartbeat does for a worker: cancels reach their handlers."""
        answer = await self._store.heartbeat(self._leases.begin_heartbeat())
        self._leases.end_heartbeat(asyncio.get_running_loop())
        for token in answer.lost | answer.cancel_requested:
            running = self._executor.running.get(token)
            if running is not None:
                self._executor.end(running, Ending.STALE if token in answer.lost else Ending.CANCELLED)

    def _require_free_slots(self) -> None:
        stuck = self._executor.stuck()
        if len(stuck) >= self._concurrency and self._store.queue_names():
            raise WorkerStuck(handlers=", ".join(sorted({one.handler.name for one in stuck})), slots=len(stuck))

    async def _end_what_runs(self) -> None:
        """HANDS-2. What was claimed and not started goes back when this worker leaves."""
        if not self.running:
            return
        self._executor.end_all(Ending.SHUTDOWN)
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while self.running:
                    self._news.clear()
                    await self._news.wait()
                await self._settler.flush()


class ErrorKeeper(Middleware):
    """Keeps what attempts raise, outermost, so that a test can be shown the very exception."""

    def __init__(self) -> None:
        self.by_job: dict[UUID, BaseException] = {}

    async def execute(self, execution: Execution, proceed: Execute) -> Outcome:
        job_id = execution.context.job_id
        self.by_job.pop(job_id, None)
        try:
            outcome = await proceed()
        except Exception as error:
            self.by_job[job_id] = error
            raise
        if execution.error is not None:
            self.by_job[job_id] = execution.error
        return outcome


def _ignore() -> None: ...
