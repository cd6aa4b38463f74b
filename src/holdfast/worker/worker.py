"""The worker: starts its parts, keeps its slots filled, and stops in good order.

How it works: one event loop runs claims (``fetcher``), handlers (``executor``) and settlements (``settler``); a second
thread runs heartbeat, tick and cron (``pulse``). A claimed job goes from the fetcher's ``ready`` into a free slot, its
outcome to the settler; the slot is free at once.

K1. Stopping stops claiming at once, hands back what was not started, lets the rest finish within the grace time, then
    ends it and hands it back. None of that spends an attempt. The heartbeat goes on until the last settlement.
K2. Asked to stop a second time, it ends everything at once.
K3. A job of an unknown type is handed back, due in 30 s, and from then on claims name the types that are known here.
K4. Jobs claimed ahead that long ones keep from starting are handed back for other workers.
K5. When half the slots are held by handlers that do not return, the worker stops with an error that names them.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

from holdfast.core import limits
from holdfast.core.commands import HandedBack, HeartbeatAnswer, Settlement
from holdfast.core.errors import HoldfastError, Unavailable, WorkerStuck
from holdfast.core.job import ClaimedJob
from holdfast.core.ports import LogStore, Store
from holdfast.worker import capture
from holdfast.worker.executor import STUBBORN_SECONDS, Executor
from holdfast.worker.fetcher import Fetcher
from holdfast.worker.handler import Registry
from holdfast.worker.leases import Leases
from holdfast.worker.middleware import Middleware
from holdfast.worker.options import WorkerOptions
from holdfast.worker.pulse import Pulse
from holdfast.worker.reporter import Reporter
from holdfast.worker.running import Ending, Running
from holdfast.worker.settler import Settler

if TYPE_CHECKING:
    from holdfast.engine.cron import CronEntry

LOG: Final = logging.getLogger("holdfast.worker")
LOOK_SECONDS: Final = 0.5
"""How often the worker looks after itself: logs, stuck handlers, jobs that wait behind long ones."""
HOARD_SECONDS: Final = 1.0
"""Jobs claimed ahead go back when none of them could be started for so long: others may have free slots."""
LOG_FLUSH_SECONDS: Final = 2.0
LAST_SETTLE_SECONDS: Final = 10.0
"""How long a worker that stops waits for a store that does not answer; the leases then run out by themselves."""
LOG_SWEEP_SECONDS: Final = 3600.0
LOG_MARGIN_DAYS: Final = 8
"""Logs go by the day their job was created; a job may end later than that, by its lifetime."""


class Worker:
    """``async with worker:`` runs beside your own code; ``await worker.run()`` runs until it is stopped."""

    def __init__(
        self,
        store: Store,
        *,
        registry: Registry,
        options: WorkerOptions,
        create_pulse_store: Callable[[], Store] | None = None,
        logs: LogStore | None = None,
        middleware: Sequence[Middleware] = (),
        crons: Sequence["CronEntry"] = (),
        on_blocked: Callable[[], None] | None = None,
    ) -> None:
        self.id = uuid4()
        self.options = options
        self._store = store
        self._registry = registry
        self._create_pulse_store = create_pulse_store
        self._logs = logs
        self._middleware = middleware
        self._crons = crons
        self._on_blocked = on_blocked
        self._leases = Leases(self.id)
        self._is_stopping = False
        self._hurry = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self._background: list[asyncio.Task[None]] = []
        self._all_ended = asyncio.Event()
        self._stopped = asyncio.Event()
        self._error: HoldfastError | None = None
        self._last_start = 0.0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        await self.wait_stopped()

    async def run(self) -> None:
        """Start, and work until ``stop``; WorkerStuck where handlers have used up the slots for good."""
        await self.start()
        await self.wait_stopped()
        if self._error is not None:
            raise self._error

    async def start(self) -> None:
        """Register, and begin to claim."""
        loop = asyncio.get_running_loop()
        self._reporter = Reporter(self._store, self._logs, loop=loop)
        self._settler = Settler(self._store, self._leases, is_idle=self._is_idle, on_room=self._fill)
        self._executor = Executor(
            self._store,
            registry=self._registry,
            reporter=self._reporter,
            middleware=self._middleware,
            concurrency=self.options.concurrency,
            on_settlement=self._settle,
            on_free=self._free,
        )
        self._fetcher = Fetcher(
            self._store,
            self._leases,
            self.options,
            mean_seconds=lambda: self._executor.mean_seconds,
            running=lambda: len(self._executor.running),
            may_start=lambda: self._settler.has_room,
            on_jobs=self._fill,
        )
        await self._store.register(
            self.id, name=self.options.worker_name, queues=self.options.queue_names, types=tuple(self._registry)
        )
        await self._open_logs()
        capture.install()
        self._pulse = self._make_pulse()
        self._pulse.start()
        self._background = [loop.create_task(self._look_after_itself())]
        self._fetching = loop.create_task(self._fetcher.run())
        self._fetching.add_done_callback(self._check_fetching)
        LOG.info(
            "worker %s serves %s",
            self.options.worker_name,
            ", ".join(self.options.queue_names),
            extra={"event": "worker_started", "worker_id": str(self.id)},
        )

    async def _open_logs(self) -> None:
        """A place that cannot be written is told of once, at the start; it keeps no job from running (R3)."""
        if self._logs is not None:
            try:
                await self._logs.open()
            except HoldfastError as error:
                LOG.warning("execution logs will be lost: %s", error, extra={"event": "log_lost"})

    def _make_pulse(self) -> Pulse:
        return Pulse(
            store=self._store,
            create_store=self._create_pulse_store,
            leases=self._leases,
            options=self.options,
            types=tuple(self._registry),
            crons=self._crons,
            running=lambda: list(self._executor.running.values()),
            on_answer=self._heed,
            on_silence=lambda: self._executor.end_all(Ending.UNCONFIRMED),
            on_blocked=self._on_blocked or (lambda: None),
        )

    # slots

    def _is_idle(self) -> bool:
        return not self._executor.running and not self._fetcher.ready

    def _fill(self) -> None:
        """Start what is ready in the slots that are free."""
        ready, running = self._fetcher.ready, self._executor.running
        is_started = False
        while ready and len(running) < self.options.concurrency and self._settler.has_room:
            job = ready.popleft()
            if job.type in self._registry:
                self._executor.start(job)
                is_started = True
            else:
                self._hand_back_unknown(job)
        if is_started:
            self._last_start = asyncio.get_running_loop().time()
        self._fetcher.note_room()

    def _free(self, running: Running) -> None:
        self._fetcher.note_ended(running.job.queue)
        if not self._is_stopping:
            self._fill()

    def _settle(self, settlement: Settlement) -> None:
        self._settler.settle(settlement)
        if self._is_stopping and not self._unsettled:
            self._all_ended.set()

    @property
    def _unsettled(self) -> list[Running]:
        """What has not ended yet. A handler that does not return although its job is settled is not waited for."""
        return [one for one in self._executor.running.values() if not one.is_settled]

    def _hand_back_unknown(self, job: ClaimedJob) -> None:
        if self._fetcher.types is None:
            self._fetcher.types = tuple(self._registry)
            LOG.warning(
                "no handler for job type %r here: the job is handed back for a worker that has one",
                job.type,
                extra={"event": "unknown_type", "job_id": str(job.id)},
            )
        self._fetcher.note_ended(job.queue)
        self._settler.settle(Settlement(lease=job.lease, outcome=HandedBack(limits.UNKNOWN_TYPE_DELAY_SECONDS)))

    def _heed(self, answer: HeartbeatAnswer) -> None:
        for token in answer.lost:
            running = self._executor.running.get(token)
            if running is not None:
                self._executor.end(running, Ending.STALE)
        for token in answer.cancel_requested:
            running = self._executor.running.get(token)
            if running is not None:
                self._executor.end(running, Ending.CANCELLED)

    def _check_fetching(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("claiming ended: %s", error, exc_info=error, extra={"event": "claiming_failed"})
            self._error = error if isinstance(error, HoldfastError) else Unavailable(f"claiming ended: {error!r}")
            self.stop()

    async def _look_after_itself(self) -> None:
        clock = asyncio.get_running_loop().time
        next_flush, next_sweep = clock() + LOG_FLUSH_SECONDS, clock()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._stop_if_stuck()
            self._share_what_waits()
            if clock() >= next_flush:
                next_flush = clock() + LOG_FLUSH_SECONDS
                await self._reporter.write_logs(self._executor.running.values())
            if clock() >= next_sweep:
                next_sweep = clock() + LOG_SWEEP_SECONDS
                await self._sweep_logs()

    def _share_what_waits(self) -> None:
        if self._fetcher.ready and asyncio.get_running_loop().time() - self._last_start > HOARD_SECONDS:
            self._fetcher.claim_no_more_ahead()
            self._hand_back_ready()

    async def _sweep_logs(self) -> None:
        if self._logs is None or self.options.tick is None:
            return
        kept_seconds = max(self.options.tick.completed_retention_seconds, self.options.tick.dead_retention_seconds)
        oldest = datetime.now(UTC) - timedelta(seconds=kept_seconds) - timedelta(days=LOG_MARGIN_DAYS)
        try:
            await self._logs.remove_before(oldest.date())
        except HoldfastError as error:
            LOG.warning("old logs could not be removed: %s", error, extra={"event": "log_retention"})

    def _stop_if_stuck(self) -> None:
        stuck = self._executor.stuck
        if not self._is_stopping and len(stuck) * 2 >= self.options.concurrency:
            names = ", ".join(sorted({one.handler.name for one in stuck}))
            self._error = WorkerStuck(handlers=names, slots=len(stuck))
            LOG.critical("%s", self._error, extra={"event": "worker_stuck"})
            self.stop()

    # the end

    def stop(self) -> None:
        """Ask it to finish: no more claims, and the grace time for what runs."""
        if self._ending is None:
            self._is_stopping = True
            self._ending = asyncio.get_running_loop().create_task(self._drain())

    def stop_now(self) -> None:
        """Ask it to end what runs at once."""
        self._hurry.set()
        self.stop()

    async def wait_stopped(self) -> None:
        await self._stopped.wait()
        if self._ending is not None:
            await self._ending

    async def _drain(self) -> None:
        try:
            await _cancel(self._fetching)
            self._hand_back_ready()
            await self._finish_running()
            await self._settle_the_rest()
        finally:
            await _cancel(*self._background)
            await self._pulse.stop()
            await self._leave()
            await self._executor.close()
            capture.uninstall()
            self._stopped.set()
            LOG.info("worker %s stopped", self.options.worker_name, extra={"event": "worker_stopped"})

    def _hand_back_ready(self) -> None:
        while self._fetcher.ready:
            job = self._fetcher.ready.popleft()
            self._fetcher.note_ended(job.queue)
            self._settler.settle(Settlement(lease=job.lease, outcome=HandedBack()))

    async def _finish_running(self) -> None:
        if not self._unsettled:
            return
        hurry = asyncio.ensure_future(self._hurry.wait())
        ended = asyncio.ensure_future(self._all_ended.wait())
        await asyncio.wait([hurry, ended], timeout=self.options.grace_seconds, return_when=asyncio.FIRST_COMPLETED)
        if not self._all_ended.is_set():
            self._executor.end_all(Ending.SHUTDOWN)
            await asyncio.wait([ended], timeout=STUBBORN_SECONDS + 1)
        await _cancel(hurry, ended)

    async def _settle_the_rest(self) -> None:
        try:
            async with asyncio.timeout(LAST_SETTLE_SECONDS):
                await self._settler.flush()
        except TimeoutError:
            LOG.warning("the store is away: the last outcomes could not be settled, their jobs will run again")

    async def _leave(self) -> None:
        try:
            async with asyncio.timeout(LAST_SETTLE_SECONDS):
                await self._store.leave(self.id)
        except (HoldfastError, TimeoutError) as error:
            LOG.warning("the worker could not sign off: %s", error, extra={"event": "leave_failed"})


async def _cancel(*tasks: "asyncio.Future[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
