"""A thread with a connection of its own and a queue of operations, and asyncio on the other side.

Whatever is queued when the thread gets to it is served as one group: it never waits for company. The answers of a group
go back to each event loop in one call.

Going to a thread and back costs more than a small commit on a good disk (two sleeping threads are woken). So operations
that their callers call brief are served in the event loop itself, those of one turn together, if the thread is idle,
nobody else is writing, and the thread's operations have lately taken no longer than ``BRIEF_SECONDS``: a loop is not
held for longer than other work of its own would hold it. On a slow disk, or beside busy neighbours, all goes to the
thread.
"""

import asyncio
import os
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, TypeVar

from holdfast.core.errors import UsageError
from holdfast.stores.sqlite.errors import translate
from holdfast.stores.sqlite.files import OpenFiles
from holdfast.stores.sqlite.threads import ended

Answer = TypeVar("Answer")
Item = TypeVar("Item")

MAX_GROUP: Final = 256
"""Operations that share a transaction."""
BRIEF_SECONDS: Final = 0.002
MEMORY: Final = 0.2
"""How much the newest duration counts."""


@dataclass(slots=True)
class Operation:
    """``work(context)``; or, where there is an ``item``, ``work(context, items)`` for it and its neighbours at once."""

    work: Callable[..., Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    item: Any = None
    may_be_forgotten: bool = False
    """Should the machine lose power, this may never have been; then it need not wait for the disk."""
    answer: Any = None
    error: BaseException | None = None
    asked_at: float = field(default_factory=time.monotonic)


class ConnectionThread(ABC):
    """Subclasses say what serving a group means."""

    def __init__(self, name: str, connection: sqlite3.Connection, files: OpenFiles) -> None:
        self.connection = connection
        self.files = files
        self.cursor = connection.cursor()
        self._queue: SimpleQueue[Operation | None] = SimpleQueue()
        self._process = os.getpid()
        self._is_closed = False
        self._serving = Lock()
        self._turns: dict[asyncio.AbstractEventLoop, list[Operation]] = {}
        self._mean_seconds = 0.0
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    # Not coroutines: a future is cheaper to await, and every call goes through here.

    def run(self, work: Callable[[Any], Answer], *, may_be_forgotten: bool = False) -> asyncio.Future[Answer]:
        """Run ``work`` on the thread, inside a transaction; done when that has ended."""
        future, operation = self._operation(work, None)
        operation.may_be_forgotten = may_be_forgotten
        self._queue.put(operation)
        return future

    def run_together(
        self, work: Callable[[Any, list[Item]], list[Answer]], item: Item, *, is_brief: bool = False
    ) -> asyncio.Future[Answer]:
        """The same, for work that serves the items of several callers in one go, with an answer for each."""
        future, operation = self._operation(work, item)
        if is_brief and self._mean_seconds <= BRIEF_SECONDS:
            self._serve_with_this_turn(operation)
        else:
            self._queue.put(operation)
        return future

    def _serve_with_this_turn(self, operation: Operation) -> None:
        turn = self._turns.get(operation.loop)
        if turn is None:
            turn = self._turns[operation.loop] = []
            operation.loop.call_soon(self._end_turn, operation.loop)
        turn.append(operation)

    def _end_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        group = self._turns.pop(loop, [])
        if self._is_closed:
            fail(group, UsageError("the store is closed"))
            _resolve(group)
        elif len(group) > MAX_GROUP or not self._is_served_here(group):
            for operation in group:
                self._queue.put(operation)

    def _is_served_here(self, group: list[Operation]) -> bool:
        if self.files.is_given_up or not self._queue.empty() or not self._serving.acquire(blocking=False):
            return False
        try:
            started = time.perf_counter()
            if not self.serve_at_once(group):
                return False
            self._require_in_place(group)
            self._note_duration(started)
        finally:
            self._serving.release()
        _resolve(group)
        return True

    def _require_in_place(self, group: list[Operation]) -> None:
        """After the work, before the answers (FILES-1)."""
        if not self.files.are_in_place():
            for operation in group:
                operation.error = self.files.problem()

    def _note_duration(self, started: float) -> None:
        self._mean_seconds += MEMORY * (time.perf_counter() - started - self._mean_seconds)

    def _operation(self, work: Callable[..., Any], item: Any) -> tuple[asyncio.Future[Any], Operation]:
        if self._is_closed:
            raise UsageError("the store is closed")
        if self._process != os.getpid():
            raise UsageError("the store was opened before this process was forked; open one here")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        return future, Operation(work, loop, future, item)

    async def close(self) -> None:
        """What was queued before is served first."""
        if not self._is_closed:
            self._end_turn(asyncio.get_running_loop())
            self._is_closed = True
            self._queue.put(None)
            await ended(self._thread)

    @abstractmethod
    def serve(self, group: list[Operation]) -> None:
        """Give every operation its answer or its error; raises nothing."""

    def serve_at_once(self, group: list[Operation]) -> bool:  # noqa: ARG002
        """The same, or False where it would have to wait for somebody, or cannot be done in one go."""
        return False

    def after_service(self) -> None:  # noqa: B027 - most have nothing to do
        """On the thread, when the callers have their answers."""

    def _run(self) -> None:
        is_open = True
        while is_open:
            group, is_open = self._next_group()
            with self._serving:
                started = time.perf_counter()
                if group:
                    if not self.files.is_given_up:
                        self.serve(group)
                    self._require_in_place(group)
                    self._note_duration(started)
                    _deliver(group)
                if not self.files.is_given_up:
                    self.after_service()
        self.connection.close()

    def _next_group(self) -> tuple[list[Operation], bool]:
        first = self._queue.get()
        if first is None:
            return [], False
        group = [first]
        # Nobody else takes from the queue: what is not empty now has something to give.
        while not self._queue.empty() and len(group) < MAX_GROUP:
            operation = self._queue.get()
            if operation is None:
                return group, False
            group.append(operation)
        return group, True


def fail(group: list[Operation], error: Exception) -> None:
    """An error each: one that several tasks raise would gather all their tracebacks."""
    for operation in group:
        operation.error = error
        if isinstance(error, sqlite3.Error):
            operation.error = translate(error)
            operation.error.__cause__ = error


def _deliver(group: list[Operation]) -> None:
    for loop in {operation.loop for operation in group}:
        operations = group if len(group) == 1 else [one for one in group if one.loop is loop]
        try:
            loop.call_soon_threadsafe(_resolve, operations)
        except RuntimeError:
            # The loop was closed while its operations were under way: nobody is left to be told.
            continue


def _resolve(operations: list[Operation]) -> None:
    for operation in operations:
        if operation.future.done():
            continue
        if operation.error is not None:
            operation.future.set_exception(operation.error)
        else:
            operation.future.set_result(operation.answer)
