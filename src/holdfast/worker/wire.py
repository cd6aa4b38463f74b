"""The child's end of the wire to its worker, and the channel that a handler's Context speaks through."""

import asyncio
import fcntl
import os
import resource
import socket
import threading
from collections.abc import Awaitable
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

from holdfast.core.errors import UsageError
from holdfast.core.job import Progress
from holdfast.worker.capture import Capture
from holdfast.worker.messages import (
    CheckpointAnswer,
    CheckpointMade,
    Logged,
    Message,
    ProgressMade,
    frame,
    plain_text,
)

EXIT_WIRE_LOST: Final = 74
"""The exit code of a child that can no longer speak to its worker."""
READ_BYTES: Final = 256 * 1024
PRIVATE_DESCRIPTOR: Final = 512
"""The wire's descriptor is at least this where the limit allows it: handlers that close "all" stop earlier."""


class Wire:
    """The connection to the worker. A copy of this process that a handler forked has no part in it."""

    def __init__(self, descriptor: int) -> None:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        least = PRIVATE_DESCRIPTOR if limit == resource.RLIM_INFINITY else min(PRIVATE_DESCRIPTOR, limit // 2)
        private = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
        os.close(descriptor)
        self._socket = socket.socket(fileno=private)
        self._identity = identity(private)
        self._process_id = os.getpid()
        self._lock = threading.Lock()
        # A copy that kept it open would hide the death of this process from the worker.
        os.register_at_fork(after_in_child=self._let_go)

    @property
    def is_ours(self) -> bool:
        return os.getpid() == self._process_id

    def receive(self) -> bytes:
        """Nothing once the worker is gone."""
        try:
            return self._socket.recv(READ_BYTES)
        except OSError:
            return b""

    def send(self, message: Message) -> None:
        data = frame(message)
        if not self.is_ours:
            return
        try:
            with self._lock:
                # Closed by the handler, its number may be another file's by now.
                if identity(self._socket.fileno()) != self._identity:
                    os._exit(EXIT_WIRE_LOST)
                self._socket.sendall(data)
        except OSError:
            os._exit(EXIT_WIRE_LOST)

    def _let_go(self) -> None:
        with suppress(OSError):
            self._socket.close()


class WireChannel:
    """What the Context of one run speaks through."""

    def __init__(self, wire: Wire, number: int, capture: Capture | None, news: threading.Event) -> None:
        self.number = number
        self._wire = wire
        self._capture = capture
        self._news = news
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._logged_version = 0
        self._checkpoints: dict[int, Future[None]] = {}
        self._checkpoint_number = 0
        self.cancel_requested = False
        self._is_closed = False

    def progress(self, progress: Progress) -> None:
        self._progress = progress
        self._news.set()

    def checkpoint(self, data: bytes) -> Awaitable[None]:
        return asyncio.wrap_future(self._ask(data))

    def checkpoint_sync(self, data: bytes) -> None:
        self._ask(data).result()

    def is_cancelled(self) -> bool:
        return self.cancel_requested

    def _ask(self, data: bytes) -> Future[None]:
        answer: Future[None] = Future()
        with self._lock:
            if self._is_closed or not self._wire.is_ours:
                raise UsageError("this checkpoint comes after the end of its attempt, or from a forked copy of it")
            self._checkpoint_number += 1
            checkpoint = self._checkpoint_number
            self._checkpoints[checkpoint] = answer
        self._wire.send(CheckpointMade(self.number, checkpoint, data))
        return answer

    def take_answer(self, answer: CheckpointAnswer) -> None:
        with self._lock:
            waiting = self._checkpoints.pop(answer.checkpoint, None)
        if waiting is None or not waiting.set_running_or_notify_cancel():
            return
        if answer.error is None:
            waiting.set_result(None)
        else:
            waiting.set_exception(answer.error.error())

    def send_progress(self) -> None:
        with self._lock:
            progress, self._progress = self._progress, None
            if progress is not None and not self._is_closed:
                text = plain_text(progress.message)
                self._wire.send(ProgressMade(self.number, progress.percent, text))

    def send_log(self) -> None:
        with self._lock:
            if self._capture is None or self._capture.version == self._logged_version or self._is_closed:
                return
            self._logged_version = self._capture.version
            self._wire.send(Logged(self.number, self._capture.data()))

    def close(self) -> None:
        """Send what is left; the run is over."""
        self.send_progress()
        self.send_log()
        with self._lock:
            self._is_closed = True
            left, self._checkpoints = self._checkpoints, {}
        for waiting in left.values():
            waiting.cancel()


def identity(descriptor: int) -> tuple[int, int] | None:
    """Which file that is; None where it is closed."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino
