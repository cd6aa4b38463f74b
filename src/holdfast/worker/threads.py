"""Runs plain functions for the worker's loop, in threads.

A call goes to a thread through one queue, and comes back through another that is emptied on the loop. Waking the loop
costs more than a short function does, so it is woken once for all calls that end close together; that is what makes
this several times as fast as ``loop.run_in_executor``, which wakes it, and makes two futures, for each.

THREAD-1. ``done`` is called on the loop, once a call, whatever the call raises: SystemExit too.
THREAD-2. A call runs in a copy of its submitter's context.
THREAD-3. A thread that never returns holds nobody up: neither its neighbours nor ``close``, nor the end of the program.
THREAD-4. A copy of the process that a call forked ends where the call ends, and never comes back into the worker.
"""

import asyncio
import contextvars
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, NoReturn

EXIT_FORKED: Final = 70
"""The exit code of a copy that came to the end of its call."""

Done = Callable[[Any | None, BaseException | None], None]
_Waiting = tuple[contextvars.Context, Callable[[], Any], Done]


class ThreadPool:
    """Up to ``size`` threads, started as they are needed. All methods are called on one loop's thread."""

    def __init__(self, size: int, *, name: str = "holdfast-handler") -> None:
        self._size = size
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: list[threading.Thread] = []
        self._waiting: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._finished: deque[tuple[Done, Any, BaseException | None]] = deque()
        self._is_waking = False
        self._open_calls = 0

    def submit(self, call: Callable[[], Any], done: Done) -> None:
        """Run ``call`` in a thread; then, on the loop, ``done(result, error)``."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._open_calls += 1
        self._waiting.put((contextvars.copy_context(), call, done))
        if self._open_calls > len(self._threads) and len(self._threads) < self._size:
            self._start_thread(self._loop)

    def close(self, timeout: float = 0.0) -> int:
        """No more calls. Waits up to ``timeout`` seconds; the number of threads that have not returned by then."""
        for _ in self._threads:
            self._waiting.put(None)
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return sum(thread.is_alive() for thread in self._threads)

    def _start_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        name = f"{self._name}-{len(self._threads) + 1}"
        thread = threading.Thread(target=self._serve, args=(loop,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        process_id = os.getpid()
        while (waiting := self._waiting.get()) is not None:
            done, result, error = _run(*waiting)
            if os.getpid() != process_id:
                leave_forked_copy(error)
            self._finished.append((done, result, error))
            # Nothing of a call outlives it in an idle thread: not its payload, nor the frames of its error.
            waiting = done = result = error = None  # type: ignore[assignment]
            # Read after the append, and unset before the queue is emptied: no call is left behind. Two threads that
            # both see it unset wake the loop twice, which does no harm.
            if not self._is_waking:
                self._is_waking = True
                self._wake(loop)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        # RuntimeError: the loop is closed, and nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        self._is_waking = False
        # Only what is there now: what ends meanwhile wakes the loop again, and the loop gets to its other work.
        for _ in range(len(self._finished)):
            done, result, error = self._finished.popleft()
            self._open_calls -= 1
            try:
                done(result, error)
            except Exception as problem:
                self._report(problem)

    def _report(self, problem: Exception) -> None:
        assert self._loop is not None
        self._loop.call_exception_handler({"message": "the end of a call was not taken", "exception": problem})


def _run(
    context: contextvars.Context, call: Callable[[], Any], done: Done
) -> tuple[Done, Any | None, BaseException | None]:
    try:
        return done, context.run(call), None
    except BaseException as error:
        return done, None, error


def leave_forked_copy(error: BaseException | None) -> NoReturn:
    """End this process, which a handler forked: with the code it gave to ``sys.exit``, if it did."""
    code = error.code if isinstance(error, SystemExit) else EXIT_FORKED
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)
