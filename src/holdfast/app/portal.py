"""The way from programs without an event loop to the engine: one background thread with a loop and a store of its own.

PORTAL-1. It starts with the first call and ends with the program; what it was asked before is finished first.
PORTAL-2. A fork finds it closed: parent and child each start a new one when they need it. Otherwise a child would
    inherit connections that are not its own, and locks that SQLite believes are held.
PORTAL-3. Called on a thread whose loop is running, it would stand in that loop's way: that is refused, with the remedy.
"""

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401 - first: what is registered last at exit is called first
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar
from weakref import WeakSet

from holdfast.app.client import Client
from holdfast.core.errors import UsageError

T = TypeVar("T")
Work = Callable[[Client], Coroutine[Any, Any, T]]
Connect = Callable[[], Coroutine[Any, Any, Client]]

CLOSE_SECONDS: Final = 10.0
"""How long the end of a program waits for the thread."""
FORK_SECONDS: Final = 1.0


class Portal:
    """A running thread. Made by ``Portals``, which says when."""

    def __init__(self, connect: Connect) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="holdfast-portal", daemon=True)
        self._thread.start()
        try:
            self.client = self._call(connect())
        except BaseException:
            self._end()
            raise

    def call(self, work: Work[T]) -> T:
        return self._call(work(self.client))

    def close(self) -> None:
        # What is broken off from here on, as a connection that is just being made, has nobody left to ask how it ended.
        self._loop.call_soon_threadsafe(self._loop.set_exception_handler, lambda _loop, _context: None)
        try:
            self._call(self.client.engine.close(), timeout_seconds=CLOSE_SECONDS)
        finally:
            self._end()

    @property
    def is_here(self) -> bool:
        """The caller is the portal's own thread."""
        return threading.current_thread() is self._thread

    def _call(self, coroutine: Coroutine[Any, Any, T], *, timeout_seconds: float | None = None) -> T:
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(timeout_seconds)
        except BaseException:
            # Ctrl-C while waiting: nobody is left to take the answer. One that is done is not touched by this.
            future.cancel()
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(_cancel_tasks())
            # At the end of the program no thread can be started, as this does; those of the executor then end alone.
            with contextlib.suppress(RuntimeError):
                self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)


class Portals:
    """At most one portal at a time, in this process."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._portal: Portal | None = None
        self._calls = 0
        _ALL.add(self)

    def call(self, work: Work[T]) -> T:
        portal = self._enter()
        try:
            return portal.call(work)
        finally:
            self._leave()

    def call_here(self, work: Work[T]) -> T:
        """On the caller's own thread, for work on a connection that only this thread may use."""
        portal = self._enter()
        try:
            return run_here(work(portal.client))
        finally:
            self._leave()

    def close(self) -> None:
        with self._lock:
            portal, self._portal = self._portal, None
        if portal is not None:
            portal.close()

    def _enter(self) -> Portal:
        with self._lock:
            if self._portal is None:
                self._portal = Portal(self._connect)
            self._calls += 1
            return self._portal

    def _leave(self) -> None:
        with self._lock:
            self._calls -= 1

    # fork

    def before_fork(self) -> bool:
        """Whether it is closed, and stays so until ``after_fork``: nobody can start a portal in between."""
        # A portal that is being opened by this very fork's caller would never come to its end.
        if not self._lock.acquire(timeout=FORK_SECONDS):
            return False
        if self._portal is not None and not self._calls and not self._portal.is_here:
            portal, self._portal = self._portal, None
            portal.close()
        return True

    def after_fork_in_parent(self) -> None:
        self._lock.release()

    def after_fork_in_child(self) -> None:
        self._lock = threading.Lock()
        self._calls = 0
        if self._portal is not None:
            # A call was under way. Neither used nor closed here: it is the parent's.
            _ABANDONED.append(self._portal)
            self._portal = None


def run_here(coroutine: Coroutine[Any, Any, T]) -> T:
    """Like ``asyncio.run``, and leaves no trace in the thread: legacy code may count on its event loop."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


def require_no_loop(name: str, instead: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(f"{name} would block the event loop that runs here; write: {instead}")


async def _cancel_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


_ALL: Final[WeakSet[Portals]] = WeakSet()
_ABANDONED: Final[list[Portal]] = []


_HELD: Final[list[Portals]] = []


def _before_fork() -> None:
    _HELD[:] = [portals for portals in list(_ALL) if portals.before_fork()]


def _after_fork_in_parent() -> None:
    for portals in _HELD:
        portals.after_fork_in_parent()
    _HELD.clear()


def _after_fork_in_child() -> None:
    for portals in list(_ALL):
        portals.after_fork_in_child()
    _HELD.clear()


def _close_all() -> None:
    for portals in list(_ALL):
        portals.close()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
# Before threads can no longer be started, which closing a store may need; atexit would come after that.
getattr(threading, "_register_atexit", atexit.register)(_close_all)
