"""Who waits for work, and what wakes them.

How it works: a commit of this process wakes whoever waits for its queues, at once. Commits of other processes write to
the log: the system tells a thread so (``changes``), or else the thread looks at the log's time stamp every few
milliseconds; both only while somebody waits. Neither is trusted alone, so every now and then, and when the log was
written to, ``PRAGMA data_version`` is asked; and when that has changed, one look at the newest places says which queues
got jobs.

A claim that found less than it asked for notes the last place there was. A wait that follows looks at what came after
it: so a job that comes between the claim and the wait is not slept through, and one that this worker cannot claim
(a type it does not know) does not wake it again and again.
"""

import asyncio
import json
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.stores.sqlite.changes import FileChanges
from holdfast.stores.sqlite.files import OpenFiles
from holdfast.stores.sqlite.statements import SQL, bound
from holdfast.stores.sqlite.threads import ended
from holdfast.stores.wakeup import Wakeups

COMMIT_SECONDS: Final = 0.001
"""Between the write to the log, of which the system tells, and the end of its commit. It may take longer: so the first
look comes after this time, and each further one after twice the time, up to the next constant."""
TOLD_POLL_SECONDS: Final = 0.5
"""For what the system does not see: a file on another machine's disk, say."""
POLL_SECONDS: Final = 0.005
CALM_POLL_SECONDS: Final = 0.015
CALM_AFTER_POLLS: Final = 400
"""Two seconds in which nobody wrote: from then on, looking less often costs a third."""
POLLS_A_QUESTION: Final = 10
"""``PRAGMA data_version`` costs as much as ten looks at a time stamp."""
LOOK_QUEUES: Final = 64
"""Where more are waited for, a look does not ask which of them got jobs, and wakes everybody."""
MAX_DRAINED: Final = 1000
"""Sets of queues whose last place is remembered."""


@dataclass(frozen=True, slots=True)
class Look:
    loop: asyncio.AbstractEventLoop
    queues: frozenset[str]
    after: int


class Watch:
    def __init__(self, connection: sqlite3.Connection, files: OpenFiles) -> None:
        self._connection = connection
        self._log = files.log
        self._log_stamp: tuple[int, int] | None = None
        self._polls = 0
        """Since the log changed."""
        self._lock = threading.Condition()
        self._wakeups: dict[asyncio.AbstractEventLoop, Wakeups] = {}
        self._drained: dict[frozenset[str], int] = {}
        self._looks: list[Look] = []
        self._wanted: Counter[str] = Counter()
        self._is_closed = False
        self._last_place: int | None = None
        self._paused: set[str] = set()
        self._next_look_seconds = TOLD_POLL_SECONDS
        self._changes = _changes_of(self._log)
        self._data_version = -1
        self._thread = threading.Thread(target=self._run, name="holdfast-sqlite-watch", daemon=True)
        self._thread.start()

    async def next(self, queues: Sequence[str]) -> None:
        loop = asyncio.get_running_loop()
        wanted = frozenset(queues)
        with self._lock:
            wakeups = self._wakeups.setdefault(loop, Wakeups())
            # The look's answer comes through the loop, so after ``next`` below has taken its place.
            self._looks.append(Look(loop, wanted, self._drained.get(wanted, 0)))
            self._wanted.update(wanted)
            self._lock.notify()
        self._ring()
        try:
            await wakeups.next(queues)
        finally:
            with self._lock:
                self._wanted -= Counter(wanted)
                if not wakeups.is_awaited:
                    self._wakeups.pop(loop, None)

    def note_drained(self, queues: Iterable[str], last_place: int) -> None:
        """A claim has just seen all there was in these queues."""
        if len(self._drained) >= MAX_DRAINED:
            self._drained.clear()
        self._drained[frozenset(queues)] = last_place

    def wake(self, queues: Collection[str] | None) -> None:
        """From any thread. None: everybody."""
        if not self._wakeups:
            return
        with self._lock:
            waiting = list(self._wakeups.items())
        for loop, wakeups in waiting:
            _call(loop, wakeups, queues)

    async def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._lock.notify()
        self._ring()
        self.wake(None)
        await ended(self._thread)
        if self._changes is not None:
            self._changes.close()

    def _ring(self) -> None:
        if self._changes is not None:
            self._changes.ring()

    # on the thread

    def _run(self) -> None:
        while self._sleep():
            try:
                self._poll()
            except sqlite3.Error:
                # A hint that is missed costs a poll interval of the worker's, no more; the next look may succeed.
                continue
        self._connection.close()

    def _sleep(self) -> bool:
        """Until somebody waits, or for a moment while somebody does. False: closed."""
        with self._lock:
            while not self._is_closed and not self._wanted:
                # What happened while nobody waited is no news: the looks of those who come go back far enough.
                self._last_place = None
                self._lock.wait()
        if self._is_closed or self._looks:
            pass
        elif self._changes is not None:
            if self._changes.wait(self._next_look_seconds):
                self._next_look_seconds = COMMIT_SECONDS
                time.sleep(COMMIT_SECONDS)
            else:
                self._next_look_seconds = min(2 * self._next_look_seconds, TOLD_POLL_SECONDS)
        else:
            # Not on the lock: half the price, and who comes meanwhile can wait as long as anybody.
            time.sleep(POLL_SECONDS if self._polls < CALM_AFTER_POLLS else CALM_POLL_SECONDS)
        return not self._is_closed

    def _poll(self) -> None:
        if not self._may_have_changed() and not self._looks:
            return
        with self._lock:
            looks, self._looks = self._looks, []
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version != self._data_version or self._last_place is None:
            self._data_version = version
            self._look_for_news()
        for look in looks:
            self._answer(look)

    def _may_have_changed(self) -> bool:
        if self._changes is not None:
            return True
        try:
            found = os.stat(self._log)  # noqa: PTH116 - 200 times a second
            stamp = (found.st_mtime_ns, found.st_size)
        except OSError:
            stamp = (0, 0)
        self._polls += 1
        if stamp != self._log_stamp:
            self._log_stamp = stamp
            self._polls = 0
        return self._polls % POLLS_A_QUESTION == 0

    def _answer(self, look: Look) -> None:
        found = self._queues_after(look.after, look.queues)
        wakeups = self._wakeups.get(look.loop)
        if found and wakeups is not None:
            _call(look.loop, wakeups, found)

    def _look_for_news(self) -> None:
        paused = {queue for (queue,) in self._connection.execute(SQL["read.paused"])}
        resumed, self._paused = self._paused - paused, paused
        (last_place,) = self._connection.execute(SQL["claim.last_place"]).fetchone()
        after, self._last_place = self._last_place, int(last_place)
        if after is not None and last_place > after:
            with self._lock:
                wanted = set(self._wanted)
            resumed |= self._queues_after(after, wanted)
        if resumed:
            self.wake(resumed)

    def _queues_after(self, place: int, queues: Collection[str]) -> set[str]:
        """Those that may have claimable jobs behind a place."""
        if self._last_place is None or place >= self._last_place:
            return set()
        active = set(queues) - self._paused
        if len(active) > LOOK_QUEUES:
            return active
        sql = SQL["wait.queues_after"]
        rows = self._connection.execute(sql, bound(sql, (place, json.dumps(list(active)))))
        return {queue for (queue,) in rows}


def _changes_of(log: str) -> FileChanges | None:
    try:
        return FileChanges(log)
    except OSError:
        return None


def _call(loop: asyncio.AbstractEventLoop, wakeups: Wakeups, queues: Collection[str] | None) -> None:
    try:
        if queues is None:
            loop.call_soon_threadsafe(wakeups.wake_all)
        else:
            loop.call_soon_threadsafe(wakeups.wake, queues)
    except RuntimeError:
        # The loop is closed: nobody is left to be woken.
        return
