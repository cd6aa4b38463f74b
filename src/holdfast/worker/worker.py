"""The worker: starts its parts, looks after itself, and stops in good order.

How it works: one event loop runs claims (``fetcher``), handlers (``executor``) and settlements (``settler``), joined in
``slots``; a second thread runs heartbeat, tick and cron (``pulse``). A claimed job goes from the fetcher's ``ready``
into a free slot, its outcome to the settler; the slot is free at once.

WORKER-1. Stopping stops claiming at once, hands back what was not started, lets the rest finish within the grace time,
    then ends it and hands it back. None of that spends an attempt. The heartbeat goes on until the last settlement.
WORKER-2. Asked to stop a second time, it ends everything at once. It can be asked at any time, before it has started,
    too.
WORKER-3. Whatever fails while it starts or stops, all its parts are ended, and whoever waits for its end is told.
WORKER-4. When half the slots are held by handlers that were ended and did not return within the grace time, the worker
    stops with an error that names them. Its supervisor starts another.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

from holdfast.core.errors import HoldfastError, Unavailable, UsageError, WorkerStuck
from holdfast.core.ports import Delivery, LogStore, Store
from holdfast.engine import work
from holdfast.worker import capture, tasks
from holdfast.worker.executor import STUBBORN_SECONDS
from holdfast.worker.handler import Registry
from holdfast.worker.leases import Leases
from holdfast.worker.middleware import Middleware
from holdfast.worker.options import WorkerOptions
from holdfast.worker.patience import Outage
from holdfast.worker.pulse import Pulse
from holdfast.worker.running import Ending, Running
from holdfast.worker.slots import Slots
from holdfast.worker.starvation import Starvation

if TYPE_CHECKING:
    from holdfast.engine.cron import CronEntry

LOG: Final = logging.getLogger("holdfast.worker")
LOOK_SECONDS: Final = 0.5
"""How often the worker looks after itself: logs, stuck handlers, jobs that wait behind long ones."""
LOG_FLUSH_SECONDS: Final = 2.0
LAST_WORDS_SECONDS: Final = 10.0
HURRIED_WORDS_SECONDS: Final = 2.0
"""How long a worker that stops waits for a store that does not answer; its leases then run out by themselves."""
LOG_SWEEP_SECONDS: Final = 3600.0
LOG_MARGIN_DAYS: Final = 8
"""Logs go by the day their job was created; a job may end later than that, by its lifetime."""


class Worker:
    """``async with worker:`` runs beside your own code; ``await worker.run()`` runs until it is stopped. Once."""

    def __init__(
        self,
        store: Store,
        *,
        delivery: Delivery,
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
        self._delivery = delivery
        self._registry = registry
        self._create_pulse_store = create_pulse_store
        self._logs = logs
        self._middleware = middleware
        self._crons = crons
        self._on_blocked = on_blocked
        self._leases = Leases(self.id)
        self._outage = Outage()
        self._registered_at = 0.0
        self._is_started = False
        self._is_running = False
        self._is_stopping = False
        self._stuck: list[Running] = []
        self._slots: Slots | None = None
        self._hurry = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self._all_ended = asyncio.Event()
        self._stopped = asyncio.Event()
        self._error: HoldfastError | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        await self.wait_stopped()
        if error is None and self._error is not None:
            raise self._error

    async def run(self) -> None:
        """Start, and work until ``stop``; WorkerStuck where handlers have used up the slots for good."""
        try:
            await self.start()
            await self._stopped.wait()
        finally:
            self.stop()
            await self.wait_stopped()
        if self._error is not None:
            raise self._error

    # the beginning

    async def start(self) -> None:
        """Register, and begin to claim."""
        if self._is_started:
            raise UsageError("this worker has run already; make a new one")
        self._is_started = True
        try:
            await self._register()
            await self._delivery.open()
            self._begin()
        except BaseException:
            await self._undo()
            raise
        if self._is_stopping:
            self._begin_to_stop()

    async def _register(self) -> None:
        self._registered_at = time.monotonic()
        await work.register(
            self._store,
            self.id,
            name=self.options.worker_name,
            queues=self.options.queue_names,
            types=tuple(self._registry),
        )
        if self._logs is not None:
            try:
                await self._logs.open()
            except Exception as error:
                # It keeps no job from running, and is told of once, here (REPORTER-3).
                LOG.warning("execution logs will be lost: %s", error, extra={"event": "log_lost"})

    async def _undo(self) -> None:
        if self._slots is not None:
            await self._step("handlers", self._slots.executor.close())
        await self._step("signing off", self._in_time(self._store.leave(self.id)))
        await self._step("the delivery", self._in_time(self._delivery.close()))
        self._stopped.set()

    def _begin(self) -> None:
        self._slots = slots = Slots(
            self._store,
            self._delivery,
            self._leases,
            self.options,
            registry=self._registry,
            logs=self._logs,
            middleware=self._middleware,
            on_all_ended=self._all_ended.set,
            on_later=self._nudge,
            outage=self._outage,
        )
        slots.executor.warm_up()
        self._pulse = self._make_pulse(slots)
        self._pulse.start()
        # From here on nothing can fail.
        capture.install()
        self._housekeeping = tasks.start(self._look_after_itself(slots))
        self._fetching = tasks.start(slots.fetcher.run())
        self._housekeeping.add_done_callback(partial(self._check, "housekeeping"))
        self._fetching.add_done_callback(partial(self._check, "claiming"))
        self._is_running = True
        LOG.info(
            "worker %s serves %s",
            self.options.worker_name,
            ", ".join(self.options.queue_names),
            extra={"event": "worker_started", "worker_id": str(self.id)},
        )

    def _nudge(self) -> None:
        if self._pulse is not None:
            self._pulse.nudge()

    def _make_pulse(self, slots: Slots) -> Pulse:
        return Pulse(
            store=self._store,
            create_store=self._create_pulse_store,
            leases=self._leases,
            options=self.options,
            types=tuple(self._registry),
            crons=self._crons,
            running=lambda: list(slots.executor.running.values()),
            on_answer=slots.heed,
            on_silence=slots.give_up,
            on_heard=slots.go_on,
            on_blocked=self._on_blocked or (lambda: None),
            on_failed=lambda error: self._fail("the heartbeat", error),
            outage=self._outage,
            registered_at=self._registered_at,
        )

    # housekeeping

    def _check(self, what: str, task: asyncio.Task[None]) -> None:
        """A part without which this worker is none, and which ends only with it."""
        if task.cancelled():
            if self._is_stopping:
                return
            error: BaseException = Unavailable(f"{what} was cancelled, and not by the worker")
        else:
            error = task.exception() or Unavailable(f"{what} has ended")
        self._fail(what, error)

    def _fail(self, what: str, error: BaseException) -> None:
        if self._is_stopping:
            return
        LOG.error("%s ended: %s", what, error, exc_info=error, extra={"event": "worker_failed"})
        self._error = error if isinstance(error, HoldfastError) else Unavailable(f"{what} ended: {error!r}")
        self.stop()

    async def _look_after_itself(self, slots: Slots) -> None:
        clock = asyncio.get_running_loop().time
        next_flush, next_sweep = clock() + LOG_FLUSH_SECONDS, clock()
        starvation = Starvation(self._store, concurrency=self.options.concurrency, queues=self.options.queue_names)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._stop_if_stuck(slots)
            slots.share_what_waits()
            await starvation.look(list(slots.executor.running.values()))
            if clock() >= next_flush:
                next_flush = clock() + LOG_FLUSH_SECONDS
                await slots.reporter.write_logs(list(slots.executor.running.values()))
            if clock() >= next_sweep:
                next_sweep = clock() + LOG_SWEEP_SECONDS
                await self._sweep_logs()

    async def _sweep_logs(self) -> None:
        if self._logs is None or self.options.tick is None:
            return
        kept_seconds = max(self.options.tick.completed_retention_seconds, self.options.tick.dead_retention_seconds)
        oldest = datetime.now(UTC) - timedelta(seconds=kept_seconds) - timedelta(days=LOG_MARGIN_DAYS)
        try:
            await self._logs.remove_before(oldest.date())
        except Exception as error:
            LOG.warning("old logs could not be removed: %s", error, extra={"event": "log_retention"})

    def _stop_if_stuck(self, slots: Slots) -> None:
        before, self._stuck = self._stuck, slots.executor.stuck(self.options.grace_seconds)
        # Never at the first look: after this process was stopped for a while, handlers get their chance to return.
        stuck = [one for one in self._stuck if one in before]
        if not self._is_stopping and len(stuck) * 2 >= self.options.concurrency:
            names = ", ".join(sorted({one.handler.name for one in stuck}))
            self._error = WorkerStuck(handlers=names, slots=len(stuck))
            LOG.critical("%s", self._error, extra={"event": "worker_stuck"})
            self.stop()

    # the end

    def stop(self) -> None:
        """Ask it to finish: no more claims, and the grace time for what runs."""
        self._is_stopping = True
        if self._is_running:
            self._begin_to_stop()
        elif not self._is_started:
            self._is_started = True
            self._stopped.set()

    def stop_now(self) -> None:
        """Ask it to end what runs at once."""
        self._hurry.set()
        self.stop()

    async def wait_stopped(self) -> None:
        """Until it has stopped, all of it."""
        await self._stopped.wait()

    def _begin_to_stop(self) -> None:
        if self._ending is None and self._slots is not None:
            self._slots.is_stopping = True
            self._ending = tasks.start(self._drain(self._slots))
            self._ending.add_done_callback(lambda _: self._stopped.set())

    async def _drain(self, slots: Slots) -> None:
        await self._step("claiming", _cancel(self._fetching))
        slots.hand_back_ready()
        await self._step("what runs", self._finish_running(slots))
        await self._step("the last outcomes", self._in_time(slots.settler.flush()))
        await self._step("the last hints", self._in_time(slots.receipts.flush()))
        await self._step("housekeeping", _cancel(self._housekeeping))
        await self._step("the heartbeat", self._pulse.stop())
        await self._step("signing off", self._in_time(self._store.leave(self.id)))
        # Hints that are still held come again, and find their jobs handed back.
        await self._step("the delivery", self._in_time(self._delivery.close()))
        await self._step("handlers", slots.executor.close())
        capture.uninstall()
        LOG.info("worker %s stopped", self.options.worker_name, extra={"event": "worker_stopped"})

    async def _step(self, what: str, step: Coroutine[Any, Any, None]) -> None:
        """One step of the end; if it fails, the next ones are taken all the same (WORKER-3)."""
        try:
            await step
        except Exception as error:
            reason = str(error) or type(error).__name__
            LOG.warning("stopping: %s: %s", what, reason, extra={"event": "stop_failed"})

    async def _in_time(self, words: Coroutine[Any, Any, None]) -> None:
        async with asyncio.timeout(HURRIED_WORDS_SECONDS if self._hurry.is_set() else LAST_WORDS_SECONDS):
            await words

    async def _finish_running(self, slots: Slots) -> None:
        if not slots.unsettled:
            return
        hurry = tasks.start(self._hurry.wait())
        ended = tasks.start(self._all_ended.wait())
        await asyncio.wait([hurry, ended], timeout=self.options.grace_seconds, return_when=asyncio.FIRST_COMPLETED)
        if not self._all_ended.is_set():
            slots.executor.end_all(Ending.SHUTDOWN)
            await asyncio.wait([ended], timeout=STUBBORN_SECONDS + 1)
        await _cancel(hurry, ended)


async def _cancel(*tasks: "asyncio.Future[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
