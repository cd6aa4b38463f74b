"""Writes what running handlers say: progress, checkpoints, and their logs so far.

REPORTER-1. Progress returns at once; the newest value is written within a second, or with the settlement.
REPORTER-2. A checkpoint returns after its commit.
REPORTER-3. A log is written before its attempt is settled, and every few seconds while it runs; a log store that fails
    is warned about and never fails a job.
REPORTER-4. Once an attempt is settled here, its handler, where it goes on, changes nothing more: also before the store
    has answered, while the lease is still good.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from holdfast.core.commands import Report
from holdfast.core.errors import HoldfastError, StaleLease, Unavailable
from holdfast.core.ports import LogStore, Store
from holdfast.engine import work
from holdfast.worker import tasks
from holdfast.worker.patience import Outage, Patience
from holdfast.worker.running import Running

LOG: Final = logging.getLogger("holdfast.worker")
PROGRESS_SECONDS: Final = 0.5
LOG_WRITE_SECONDS: Final = 10.0
"""How long a log may keep its job from being settled."""


class Reporter:
    """``on_stale`` is told of an attempt whose lease is gone."""

    def __init__(
        self,
        store: Store,
        logs: LogStore | None,
        *,
        loop: asyncio.AbstractEventLoop,
        on_stale: Callable[[Running], None],
        outage: Outage,
    ) -> None:
        self.loop = loop
        self._on_stale = on_stale
        self.outage = outage
        self._store = store
        self._logs = logs
        self._news: set[Running] = set()
        self._is_awake = False
        self._tasks: set[asyncio.Task[None]] = set()

    def note(self, running: Running) -> None:
        """It has progress to write. From any thread."""
        self._news.add(running)
        if not self._is_awake:
            self._is_awake = True
            self.loop.call_soon_threadsafe(self._schedule)

    def _schedule(self) -> None:
        self.loop.call_later(PROGRESS_SECONDS, self._begin)

    def _begin(self) -> None:
        task = tasks.start(self._write_progress())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write_progress(self) -> None:
        self._is_awake = False
        # One by one out of the same set: a thread may add to it at any moment.
        news = [self._news.pop() for _ in range(len(self._news))]
        said = [(one, one.unreported) for one in news if one.unreported is not None and not one.is_settled]
        if not said:
            return
        try:
            answers = await work.report(
                self._store, [Report(lease=one.job.lease, progress=value) for one, value in said]
            )
        except Unavailable as error:
            # It is written with what comes next, or with the settlement.
            self.outage.note_failure("progress", error)
            return
        except HoldfastError as error:
            LOG.warning("progress could not be written: %s", error, extra={"event": "progress_lost"})
            return
        self.outage.note_success("progress")
        for (one, value), answer in zip(said, answers, strict=True):
            if isinstance(answer, Unavailable):
                # Somebody's transaction holds the job: this value with the next ones, or with the settlement.
                self.note(one)
                continue
            if one.unreported is value:
                one.unreported = None
            if answer is not None:
                self._on_stale(one)

    async def checkpoint(self, running: Running, data: bytes) -> None:
        patience = Patience("checkpoint", self.outage)
        lease = running.job.lease
        while True:
            if running.is_settled:
                raise StaleLease(job_id=lease.job_id, held_version=lease.version, current_version=None)
            try:
                (answer,) = await work.report(self._store, [Report(lease=lease, checkpoint=data)])
                if isinstance(answer, Unavailable):
                    raise answer
            except Unavailable as error:
                await patience.wait(error)
                continue
            patience.done()
            if answer is not None:
                raise answer
            return

    async def write_log(self, running: Running) -> None:
        if self._logs is None or running.capture.version == running.logged_version:
            return
        version = running.capture.version
        try:
            async with asyncio.timeout(LOG_WRITE_SECONDS):
                await self._logs.write(running.log_key, running.capture.data())
            running.logged_version = version
        except Exception as error:
            LOG.warning(
                "the log of an attempt could not be written: %s",
                str(error) or type(error).__name__,
                extra={"event": "log_lost", "job_id": str(running.job.id)},
            )

    async def write_logs(self, all_running: Iterable[Running]) -> None:
        await asyncio.gather(*(self.write_log(one) for one in all_running))
