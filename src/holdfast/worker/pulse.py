"""What must not depend on the loop that runs handlers: heartbeat, tick and cron, in a thread with a store of its own.

A handler that blocks the worker's loop stops claims and settlements of this process. It does not stop the heartbeat,
so neither its job nor its neighbours' are taken for lost. (A store in memory lives in one loop: there all of this runs
beside the handlers.)

PULSE-1. The worker is alive for the store as long as this process is, whatever its handlers do.
PULSE-2. Without a confirmed heartbeat for ``SILENT_PART`` of the worker timeout, counted from before the last one was
    sent, this worker takes its leases for lost (``on_silence``), and until the next one is confirmed (``on_heard``) it
    starts nothing. A timer says so, whatever the heartbeat hangs in. What is left of the timeout is for handlers to
    stop in. Where the store proves that nobody can write, nobody can take a job over, and handlers carry on. Where the
    proof that its process lives is lost (``Store.absent_since``) that is ``SILENT_PART`` of the time after which others
    take it for dead (``core/presence``).
PULSE-3. Whatever goes wrong with one beat, tick or slot, the next one comes.
PULSE-4. A coroutine that blocks the loop past its execution timeout is settled from here, so its job is not stuck with
    it.
"""

import asyncio
import contextlib
import logging
import random
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Final

from holdfast.core import limits
from holdfast.core.commands import Heartbeat, HeartbeatAnswer, Settlement
from holdfast.core.errors import ConfigError, HoldfastError, Unavailable
from holdfast.core.ports import Standstill, Store
from holdfast.core.presence import GONE_PART
from holdfast.engine import work
from holdfast.worker import tasks
from holdfast.worker.handler import Isolation
from holdfast.worker.leases import Leases
from holdfast.worker.options import WorkerOptions
from holdfast.worker.outcomes import timed_out
from holdfast.worker.patience import Outage, Patience
from holdfast.worker.running import Running

if TYPE_CHECKING:
    from holdfast.engine.cron import CronEntry

LOG: Final = logging.getLogger("holdfast.worker")
MAX_TICKS: Final = 100
"""Ticks in a row while there is more to do; then a pause, so that others come to their turn."""
LONGEST_CRON_SLEEP_SECONDS: Final = 30.0
REST_TICKS: Final = 3.0
"""So many times the usual interval lie between two ticks when nothing is due by then; news end the rest."""
SOONEST_SECONDS: Final = 0.2
"""Where a job is due before the next usual tick, one comes for it; but not more often than this."""
SILENT_PART: Final = 0.8
"""Of the worker timeout: then handlers are told to stop."""
CALL_PART: Final = 0.25
"""Of the worker timeout: how long a heartbeat may take. Then another is sent, on another connection, and has time to be
answered before the worker counts as silent."""
RETRY_PART: Final = 1 / 15
"""Of the worker timeout: how long after a heartbeat that failed the next one is sent."""
LOOK_PART: Final = 1 / 60
"""Of the worker timeout: how often it is looked whether the worker is silent, once that is near."""
BLOCKED_SECONDS: Final = 5.0
"""How far beyond its timeout a coroutine may block the loop before its job is settled without it."""
JOIN_SECONDS: Final = 10.0


class Pulse:
    def __init__(
        self,
        *,
        store: Store,
        create_store: Callable[[], Store] | None,
        leases: Leases,
        options: WorkerOptions,
        types: Sequence[str],
        crons: Sequence["CronEntry"],
        running: Callable[[], list[Running]],
        on_answer: Callable[[HeartbeatAnswer], None],
        on_silence: Callable[[], None],
        on_heard: Callable[[], None],
        on_blocked: Callable[[], None],
        on_failed: Callable[[HoldfastError], None],
        outage: Outage,
        registered_at: float,
    ) -> None:
        self._shared_store = store
        self._create_store = create_store
        self._leases = leases
        self._options = options
        self._types = tuple(types)
        self._crons = crons
        self._running = running
        self._on_answer = on_answer
        self._on_silence = on_silence
        self._on_heard = on_heard
        self._outage = outage
        self._on_blocked = on_blocked
        self._on_failed = on_failed
        self._problem: ConfigError | None = None
        """Why the last heartbeat failed, where to try again may be no use."""
        self._claiming_loop = asyncio.get_running_loop()
        self._claiming_thread = threading.get_ident()
        self._confirmed = registered_at
        """Just before the last confirmed heartbeat was sent."""
        self._is_silent = False
        self._stood_still_at = self._refused_at = -inf
        self._store: Store | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._nudged: asyncio.Event | None = None
        self._is_resting = False
        self._has_news = False
        """Since the last tick began."""
        self._is_stopped = False
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._create_store is None:
            self._task = tasks.start(self._watched(self._beat(self._shared_store)))
        else:
            self._thread = threading.Thread(target=self._run, name="holdfast-pulse", daemon=True)
            self._thread.start()

    async def stop(self) -> None:
        self._is_stopped = True
        if self._loop is not None and self._stopping is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end)
        if self._task is not None:
            await self._task
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, JOIN_SECONDS)

    def _end(self) -> None:
        assert self._stopping is not None
        assert self._nudged is not None
        self._stopping.set()
        self._nudged.set()

    def nudge(self) -> None:
        """From the loop that claims: there may be a job now that is due sooner than was known."""
        # First: whoever goes to rest looks at it once resting is set.
        self._has_news = True
        if self._is_resting and self._loop is not None and self._nudged is not None and not self._loop.is_closed():
            self._is_resting = False
            self._loop.call_soon_threadsafe(self._nudged.set)

    def _run(self) -> None:
        assert self._create_store is not None
        asyncio.run(self._watched(self._with_own_store(self._create_store)))

    async def _with_own_store(self, create_store: Callable[[], Store]) -> None:
        patience = Patience("heartbeat", self._outage)
        while not self._is_stopped:
            try:
                store = create_store()
                await store.open()
            except Exception as error:
                await patience.wait(error)
                continue
            patience.done()
            try:
                await self._beat(store)
            finally:
                await store.close()
            return

    # silence

    async def _watched(self, work: Coroutine[Any, Any, None]) -> None:
        watching = tasks.start(self._watch())
        try:
            await work
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        look_seconds = LOOK_PART * self._timeout_seconds
        is_looked_at = False
        while True:
            left = self._seconds_left()
            if left > look_seconds:
                is_looked_at = False
                await asyncio.sleep(min(left - look_seconds, 2 * look_seconds))
                continue
            # Never at the first look: after this process was stopped for a while, or its loop was blocked where the
            # store shares it, the heartbeat that is due gets its chance.
            if left <= 0 and is_looked_at and not self._is_silent:
                self._fall_silent()
            is_looked_at = True
            await asyncio.sleep(look_seconds)

    def _seconds_left(self) -> float:
        """Until handlers must be told to stop."""
        patience_seconds = SILENT_PART * self._timeout_seconds
        return min(patience_seconds - self._silent_seconds(), GONE_PART * patience_seconds - self._absent_seconds())

    def _absent_seconds(self) -> float:
        """For how long others may have taken this worker's process for dead."""
        since = None if self._store is None else self._store.absent_since
        return 0.0 if since is None else time.monotonic() - since

    def _silent_seconds(self) -> float:
        """For how long others may have taken this worker for dead and acted on it."""
        now = time.monotonic()
        standstill = self._standstill()
        if standstill is not None:
            self._stood_still_at = now
            return standstill.since - self._confirmed
        if now - self._stood_still_at < RETRY_PART * self._timeout_seconds:
            # It is just over: the heartbeat that waited is on its way, and so is everybody else's.
            return 0.0
        return now - self._confirmed

    def _standstill(self) -> Standstill | None:
        standstill = None if self._store is None else self._store.standstill
        if standstill is not None:
            self._refused_at = standstill.seen_at
        return standstill

    def _fall_silent(self) -> None:
        self._is_silent = True
        absent_seconds = self._absent_seconds()
        LOG.warning(
            "%s for %.1f s: running handlers are told to stop, because other workers may take their jobs over",
            "this worker's session at the database was lost" if absent_seconds else "no heartbeat was confirmed",
            absent_seconds or time.monotonic() - self._confirmed,
            extra={"event": "worker_silent"},
        )
        # Where the loop was blocked for so long that heartbeats are confirmed again, there is nothing to tell.
        self._tell(lambda: self._on_silence() if self._is_silent else None)
        self._look_for_problem()

    def _look_for_problem(self) -> None:
        """One that lasts will not go away by itself, and a silent worker claims nothing that would find it out."""
        problem = self._problem
        if problem is not None and self._is_silent:
            self._tell(lambda: self._on_failed(problem))

    def _note_confirmed(self, sent_at: float) -> None:
        # One that was kept waiting came after that.
        self._confirmed = max(sent_at, self._refused_at)
        self._problem = None
        self._outage.note_success("heartbeat")
        if self._is_silent:
            self._is_silent = False
            LOG.info("heartbeats are confirmed again", extra={"event": "worker_heard"})
            self._tell(self._on_heard)

    def _tell(self, what: Callable[[], None]) -> None:
        # RuntimeError: the loop is closed, and nobody is left to be told.
        with contextlib.suppress(RuntimeError):
            self._claiming_loop.call_soon_threadsafe(what)

    async def _beat(self, store: Store) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._nudged = asyncio.Event()
        if self._is_stopped:
            return
        works: list[Awaitable[None]] = [self._heartbeats(store)]
        if self._options.tick is not None:
            works.append(self._ticks(store))
            if self._crons:
                works.append(self._fire_crons(store))
        attending = tasks.start(self._attend(store))
        try:
            await asyncio.gather(*works)
        finally:
            attending.cancel()
            await asyncio.gather(attending, return_exceptions=True)

    async def _attend(self, store: Store) -> None:
        patience = Patience("proof of life", self._outage)
        while True:
            try:
                await store.attend(
                    self._leases.worker_id,
                    worker_timeout_seconds=self._timeout_seconds,
                    tick=self._options.tick,
                )
            except Exception as error:
                await patience.wait(error)
            else:
                return

    async def _pause(self, seconds: float) -> bool:
        """False when it is time to stop."""
        assert self._stopping is not None
        if self._stopping.is_set():
            return False
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return True
        return False

    # heartbeat

    async def _heartbeats(self, store: Store) -> None:
        # The first at once, while there is nothing to do yet: it is the slowest, and claims wait for it.
        is_going_on = True
        while is_going_on:
            is_confirmed = await self._heartbeat(store)
            await self._settle_blocked(store)
            seconds = self._options.heartbeat_seconds
            is_going_on = await self._pause(
                seconds if is_confirmed else min(seconds, RETRY_PART * self._timeout_seconds)
            )

    async def _heartbeat(self, store: Store) -> bool:
        """Whether it was confirmed."""
        heartbeat = self._leases.begin_heartbeat()
        sent_at = time.monotonic()
        try:
            answer = await self._answered(self._say_alive(store, heartbeat))
        except Exception as error:
            self._problem = error if isinstance(error, ConfigError) else None
            self._look_for_problem()
            self._outage.note_failure("heartbeat", error)
            return False
        finally:
            self._leases.end_heartbeat(self._claiming_loop)
        if answer.lost or answer.cancel_requested:
            self._tell(lambda: self._on_answer(answer))
        self._note_confirmed(sent_at)
        return True

    async def _say_alive(self, store: Store, heartbeat: Heartbeat) -> HeartbeatAnswer:
        answer = await store.heartbeat(heartbeat)
        if not answer.is_known:
            LOG.warning("this worker was given up for lost; it registers again", extra={"event": "worker_lost"})
            await self._register(store)
        return answer

    async def _answered(self, call: Coroutine[Any, Any, HeartbeatAnswer]) -> HeartbeatAnswer:
        """Claims wait for it: rather none than one that takes too long, unless nobody can write anyway."""
        assert self._stopping is not None
        task = tasks.start(call)
        stopping = tasks.start(self._stopping.wait())
        try:
            while True:
                wanted = (task,) if self._stopping.is_set() else (task, stopping)
                await asyncio.wait(
                    wanted, timeout=CALL_PART * self._timeout_seconds, return_when=asyncio.FIRST_COMPLETED
                )
                if task.done():
                    return task.result()
                if self._stopping.is_set() and wanted != (task,):
                    continue
                standstill = self._standstill()
                if standstill is None or self._stopping.is_set():
                    raise TimeoutError
                self._outage.note_failure("heartbeat", Unavailable(_carry_on(standstill)))
        finally:
            task.cancel()
            stopping.cancel()
            await asyncio.gather(task, stopping, return_exceptions=True)

    async def _register(self, store: Store) -> None:
        await work.register(
            store,
            self._leases.worker_id,
            name=self._options.worker_name,
            queues=self._options.queue_names,
            types=self._types,
        )

    @property
    def _timeout_seconds(self) -> float:
        tick = self._options.tick
        return limits.WORKER_TIMEOUT_SECONDS if tick is None else tick.worker_timeout_seconds

    async def _settle_blocked(self, store: Store) -> None:
        now = self._claiming_loop.time()
        blocked = [
            one
            for one in self._running()
            if one.handler.isolation is Isolation.LOOP
            and not one.is_settled
            and one.ending is None
            and now > one.deadline + BLOCKED_SECONDS
        ]
        if not blocked:
            return
        names = ", ".join(sorted({one.handler.name for one in blocked}))
        LOG.critical("the event loop is blocked by %s:\n%s", names, self._where(), extra={"event": "loop_blocked"})
        settlements = [
            Settlement(lease=one.job.lease, outcome=timed_out(one.handler, one.job, one.execution_seconds))
            for one in blocked
        ]
        try:
            # The next heartbeat waits for it, and tries it again (PULSE-1, PULSE-3).
            async with asyncio.timeout(self._timeout_seconds / 2):
                answers = await work.settle(store, settlements)
        except Exception as error:
            self._outage.note_failure("settle", error)
            return
        for one, answer in zip(blocked, answers, strict=True):
            # One that somebody's transaction holds is tried again with the next heartbeat.
            if not isinstance(answer, Unavailable):
                one.is_settled = True
                self._leases.end(one.job.lease.token)
        self._on_blocked()

    def _where(self) -> str:
        frame = sys._current_frames().get(self._claiming_thread)  # noqa: SLF001 - the documented way to see a thread's stack
        return "".join(traceback.format_stack(frame)) if frame is not None else ""

    # time

    async def _ticks(self, store: Store) -> None:
        assert self._options.tick is not None
        patience = Patience("tick", self._outage)
        while True:
            quiet_seconds = 0.0
            try:
                for _ in range(MAX_TICKS):
                    self._has_news = False
                    report = await work.tick(store, self._options.tick)
                    quiet_seconds = report.quiet_seconds
                    if not report.has_more:
                        break
                patience.done()
            except Exception as error:
                await patience.wait(error)
            if not await self._rest(quiet_seconds):
                return

    async def _rest(self, quiet_seconds: float) -> bool:
        """Until the next tick. False when it is time to stop."""
        usual = self._options.tick_seconds
        seconds = usual
        if quiet_seconds > 0:
            seconds = min(max(quiet_seconds, min(SOONEST_SECONDS, usual)), REST_TICKS * usual)
        # Spread, so that many workers do not tick at the same moment.
        seconds *= random.uniform(1.0, 1.2)
        if seconds <= 1.2 * usual:
            return await self._pause(seconds)
        assert self._nudged is not None
        assert self._stopping is not None
        self._nudged.clear()
        self._is_resting = not self._stopping.is_set()
        if self._is_resting and not self._has_news:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._nudged.wait()
        self._is_resting = False
        # The news are most often of a job that is claimed this very moment: a tick would be in its way.
        return await self._pause(min(SOONEST_SECONDS, usual) if self._has_news else 0.0)

    async def _fire_crons(self, store: Store) -> None:
        from holdfast.engine.cron import CronScheduler  # most workers have no periodic job

        scheduler = CronScheduler(store, self._crons)
        patience = Patience("cron", self._outage)
        seconds = 0.0
        while await self._pause(min(seconds, LONGEST_CRON_SLEEP_SECONDS)):
            try:
                seconds = await scheduler.fire_due()
                patience.done()
            except Exception as error:
                await patience.wait(error)


def _carry_on(standstill: Standstill) -> str:
    return f"nobody can write, so handlers carry on: nobody can take their jobs over. {standstill.reason}"
