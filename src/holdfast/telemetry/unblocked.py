"""Standard output and error that never make their writer wait.

A pipe whose reader has stopped takes some 64 KiB more; then it blocks whoever writes, a worker's event loop, heartbeat
and shutdown among them. So what is written goes into a bounded buffer, and a thread writes it out.

UNBLOCKED-1. A write never waits and never fails: not for a full pipe, nor for one that nobody has open any more.
UNBLOCKED-2. What finds the buffer full is dropped, and counted. How much that was is logged once the reader reads
    again.
UNBLOCKED-3. ``finish`` waits for what is buffered, but for a bounded time.
UNBLOCKED-4. A forked copy of the process has no such thread: it writes directly.
"""

import atexit
import io
import logging
import os
import select
import sys
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

LOG: Final = logging.getLogger("holdfast.telemetry")
MAX_BUFFERED_BYTES: Final = 1024 * 1024
FINISH_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 0.005

_unblocked: "list[Unblocked]" = []


def unblock_output() -> None:
    """From here on, ``sys.stdout`` and ``sys.stderr`` of this process never make anybody wait."""
    if not _unblocked:
        sys.stdout = _text(sys.stdout)
        sys.stderr = _text(sys.stderr)
        atexit.register(finish_output)


def finish_output(seconds: float = FINISH_SECONDS) -> None:
    """Wait until what was written is out; where nobody reads, only so long."""
    ends_at = time.monotonic() + seconds
    while any(one.is_busy for one in _unblocked) and time.monotonic() < ends_at:
        time.sleep(LOOK_SECONDS)


def _text(real: TextIO) -> TextIO:
    real.flush()
    raw = Unblocked(real.fileno(), real.name)
    _unblocked.append(raw)
    # As the interpreter makes its own with -u: nothing stays in a buffer above ours.
    return io.TextIOWrapper(raw, encoding=real.encoding, errors=real.errors, write_through=True)


class Unblocked(io.RawIOBase):
    def __init__(self, descriptor: int, name: str) -> None:
        self.name = name
        self._descriptor = descriptor
        # Whatever a handler does to the descriptor, nothing is ever written to what has its number then.
        self._out = os.dup(descriptor)
        self._waiting: SimpleQueue[bytes] = SimpleQueue()
        # A finalizer or a signal handler that prints may come while its own thread is inside.
        self._lock = threading.RLock()
        self._buffered = 0
        self._dropped_lines = 0
        self._is_forked = False
        os.register_at_fork(after_in_child=self._note_fork)
        threading.Thread(target=self._write_out, name=f"holdfast-output-{descriptor}", daemon=True).start()

    def write(self, data: "ReadableBuffer", /) -> int:
        written = bytes(data)
        if self._is_forked:
            self._write(written)
            return len(written)
        with self._lock:
            # One that is larger than all room is taken when there is nothing else.
            is_taken = not self._buffered or self._buffered + len(written) <= MAX_BUFFERED_BYTES
            if is_taken:
                self._buffered += len(written)
            else:
                self._dropped_lines += max(1, written.count(b"\n"))
        if is_taken:
            self._waiting.put(written)
        return len(written)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._out)

    def close(self) -> None:
        """Nothing: whoever wraps or drops the stream does not own it."""

    @property
    def is_busy(self) -> bool:
        return not self._is_forked and self._buffered > 0

    def _write_out(self) -> None:
        while True:
            data = self._waiting.get()
            self._write(data)
            with self._lock:
                self._buffered -= len(data)
                dropped, self._dropped_lines = self._dropped_lines, 0
            if dropped:
                LOG.warning(
                    "%d lines of output were dropped: nobody read them", dropped, extra={"event": "output_dropped"}
                )

    def _write(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._out, data) :]
            except BlockingIOError:
                # Somebody who shares the terminal or the pipe has made it so.
                poll = select.poll()
                poll.register(self._out, select.POLLOUT)
                poll.poll()
            except OSError:
                return  # nobody has the other end any more

    def _note_fork(self) -> None:
        self._is_forked = True
