"""The slots of a worker: claimed jobs go into free ones, outcomes to the settler.

SLOT-1. A job whose lease was lost, or that was cancelled, while it waited for a slot is not started.
    Neither is one whose worker is silent: it goes back, and no more are claimed until a heartbeat is confirmed.
SLOT-2. A job whose options this version cannot read is handed back, due in 30 s: a newer one may have written them. So
    is one of an unknown type, should a store give out what the claim did not name.
SLOT-3. Jobs claimed ahead that long ones keep from starting are handed back for other workers.
SLOT-4. Once the worker is stopping, nothing is started.
SLOT-5. A reclaimed job may be one that kills its worker. So the last attempt of a job that was ever reclaimed never
    runs beside another that was, until its outcome is stored: it is handed back for a moment. So one that kills its
    worker makes no dead letters of others that run with it. (It still does where it kills the process in the
    milliseconds between the claim of such a job and its hand-back.)
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.core import limits
from holdfast.core.commands import HandedBack, HeartbeatAnswer, Outcome, Settlement, Stopped
from holdfast.core.job import ClaimedJob
from holdfast.core.ports import Delivery, LogStore, Store
from holdfast.worker.claimer import Claimer
from holdfast.worker.executor import Executor
from holdfast.worker.fetcher import Fetcher
from holdfast.worker.handler import Registry
from holdfast.worker.leases import Leases
from holdfast.worker.middleware import Middleware
from holdfast.worker.options import WorkerOptions
from holdfast.worker.patience import Outage
from holdfast.worker.receipts import Receipts
from holdfast.worker.reporter import Reporter
from holdfast.worker.running import Ending, Running
from holdfast.worker.settler import Settler

LOG: Final = logging.getLogger("holdfast.worker")
APART_SECONDS: Final = 1.0
"""How long a reclaimed job waits that must not run beside another one."""
HOARD_SECONDS: Final = 1.0
"""Jobs claimed ahead go back when none of them could be started for so long: others may have free slots."""


class Slots:
    """``on_all_ended`` is called when, while stopping, nothing is left that has not ended.

    ``on_later`` is called when there may be a job that becomes due at a time not known before.
    """

    def __init__(
        self,
        store: Store,
        delivery: Delivery,
        leases: Leases,
        options: WorkerOptions,
        *,
        registry: Registry,
        logs: LogStore | None,
        middleware: Sequence[Middleware],
        on_all_ended: Callable[[], None],
        on_later: Callable[[], None],
        outage: Outage,
    ) -> None:
        self._options = options
        self._registry = registry
        self._leases = leases
        self._on_all_ended = on_all_ended
        self._loop = asyncio.get_running_loop()
        self.is_stopping = False
        self._is_silent = False
        self._is_fill_due = False
        self._reclaimed: list[ClaimedJob] = []
        """Those that were started, and whose lease is still held."""
        self._unreadable: set[str] = set()
        """Types of which it was said that there is a job that cannot be started."""
        self.reporter = Reporter(store, logs, loop=self._loop, on_stale=self._end_stale, outage=outage)
        self.settler = Settler(
            store, leases, is_idle=self._is_idle, on_room=self.fill, on_postponed=on_later, outage=outage
        )
        self.executor = Executor(
            store,
            registry=registry,
            reporter=self.reporter,
            middleware=middleware,
            concurrency=options.concurrency,
            on_settlement=self._settle,
            on_free=self._free,
        )
        self.receipts = Receipts(delivery, leases)
        self.fetcher = Fetcher(
            Claimer(store, leases, registry=registry, outage=outage),
            delivery,
            self.receipts,
            leases=leases,
            options=options,
            executor=self.executor,
            may_start=lambda: self.settler.room > 0 and not self._is_silent,
            on_jobs=self.fill,
            on_woken=on_later,
            outage=outage,
        )

    def fill(self) -> None:
        """Start what is ready in the slots that are free."""
        self._is_fill_due = False
        if self.is_stopping:
            return
        if self._is_silent:
            self.hand_back_ready()
            return
        ready = self.fetcher.ready
        free = min(self._options.concurrency - len(self.executor.running), self.settler.room)
        while ready and free > 0:
            job = ready.popleft()
            handler = self._registry.find(job.type)
            if handler is None:
                self._hand_back_unknown(job)
                continue
            if job.was_reclaimed and not self._may_start_reclaimed(job):
                self.fetcher.note_ended(job.queue)
                self._settle_unstarted(job, HandedBack(APART_SECONDS))
                continue
            try:
                self.executor.start(job, handler)
                free -= 1
            except Exception as error:
                self._hand_back_unreadable(job, error)
        if len(ready) <= self.fetcher.low_water:
            self.fetcher.note_room()

    def _may_start_reclaimed(self, job: ClaimedJob) -> bool:
        # Until the store has their outcomes: what has merely ended would be lost with this process, too.
        self._reclaimed = [other for other in self._reclaimed if other.lease.token in self._leases]
        others = self._reclaimed
        if others if job.is_last_chance else any(other.is_last_chance for other in others):
            return False
        others.append(job)
        return True

    @property
    def unsettled(self) -> list[Running]:
        """What has not ended yet. A handler that does not return although its job is settled is not waited for."""
        return [one for one in self.executor.running.values() if not one.is_settled]

    def heed(self, answer: HeartbeatAnswer) -> None:
        """What the store said of our leases."""
        for tokens, ending in ((answer.lost, Ending.STALE), (answer.cancel_requested, Ending.CANCELLED)):
            for token in tokens:
                running = self.executor.running.get(token)
                if running is not None:
                    self.executor.end(running, ending)
        for job in self.fetcher.drop(answer.lost):
            self._leases.end(job.lease.token)
        for job in self.fetcher.drop(answer.cancel_requested):
            self._settle_unstarted(job, Stopped())

    def give_up(self) -> None:
        """The store was silent for so long that our leases may be somebody else's."""
        self._is_silent = True
        self.executor.end_all(Ending.UNCONFIRMED)
        self.hand_back_ready()

    def go_on(self) -> None:
        """The store answers again. What was told to stop stays so."""
        self._is_silent = False
        self.fill()

    def share_what_waits(self) -> None:
        self.fill()
        if self.fetcher.ready and self._loop.time() - self.executor.last_start > HOARD_SECONDS:
            self.fetcher.claim_no_more_ahead()
            self.hand_back_ready()

    def hand_back_ready(self) -> None:
        while self.fetcher.ready:
            job = self.fetcher.ready.popleft()
            self.fetcher.note_ended(job.queue)
            self._settle_unstarted(job, HandedBack())

    def _hand_back_unknown(self, job: ClaimedJob) -> None:
        LOG.warning(
            "no handler for job type %r here: the job is handed back for a worker that has one",
            job.type,
            extra={"event": "unknown_type", "job_id": str(job.id)},
        )
        self._hand_back_for_others(job)

    def _hand_back_unreadable(self, job: ClaimedJob, error: Exception) -> None:
        if job.type not in self._unreadable:
            self._unreadable.add(job.type)
            LOG.error(
                "a job of type %r cannot be started and is handed back; are all workers of the newest version?",
                job.type,
                exc_info=error,
                extra={"event": "unreadable_job", "job_id": str(job.id)},
            )
        self._hand_back_for_others(job)

    def _hand_back_for_others(self, job: ClaimedJob) -> None:
        self.fetcher.note_ended(job.queue)
        self._settle_unstarted(job, HandedBack(limits.UNKNOWN_TYPE_DELAY_SECONDS))

    def _settle_unstarted(self, job: ClaimedJob, outcome: Outcome) -> None:
        self.settler.settle(Settlement(lease=job.lease, outcome=outcome))

    def _end_stale(self, running: Running) -> None:
        self.executor.end(running, Ending.STALE)

    def _is_idle(self) -> bool:
        return not self.executor.running and not self.fetcher.ready

    def _free(self, running: Running) -> None:
        if self._options.limits:
            self.fetcher.note_ended(running.job.queue)
        if not self._is_fill_due:
            # Once for all that end in this turn of the loop.
            self._is_fill_due = True
            self._loop.call_soon(self.fill)
        if self.is_stopping:
            self._look_whether_all_ended()

    def _settle(self, settlement: Settlement) -> None:
        self.settler.settle(settlement)
        if self.is_stopping:
            self._look_whether_all_ended()

    def _look_whether_all_ended(self) -> None:
        if not self.unsettled:
            self._on_all_ended()
