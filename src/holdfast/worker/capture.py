"""What a handler logs and prints, kept with its attempt.

A context variable says which attempt is running here, so that lines of neighbours on one loop, in threads and in child
processes never mix. Logging is met in ``Logger.callHandlers`` and not by a handler on the root logger: that would turn
``logging.basicConfig`` and the handler of last resort off, miss loggers that don't propagate, and be removed by
``dictConfig``. Printing is met by proxies over ``sys.stdout`` and ``sys.stderr``.

CAPTURE-1. Outside attempts nothing changes, and costs a look at the context variable.
CAPTURE-2. Inside one, every line is stored and goes on to where it went before; with ``echo=False`` prints are only
    stored.
CAPTURE-3. Capturing never fails a handler: not a record that does not format, not a text that is not UTF-8, not a
    terminal that is gone. A handler that closes its stdout closes nothing.
CAPTURE-4. An attempt keeps at most ``limit_bytes``: the beginning, the end, and a line between them that says what is
    missing.
CAPTURE-5. What a log handler prints while it handles a record is no news: the record itself is stored.
CAPTURE-6. A fork while others print does not hang the child.

A thread that the handler itself starts with ``threading.Thread`` has no part in its context and is not captured;
``asyncio.to_thread`` has.
"""

import contextlib
import io
import logging
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any, TextIO
from uuid import UUID

from holdfast.core.errors import UsageError
from holdfast.telemetry.records import message_of, trace_of
from holdfast.worker.context import LOG
from holdfast.worker.log_lines import (
    LOG_LIMIT_BYTES,
    MIN_LOG_LIMIT_BYTES,
    Kept,
    Line,
    encode,
    line_characters,
    overwritten,
    print_line,
    worker_line,
)

__all__ = ["LOG_LIMIT_BYTES", "Capture", "Line", "install", "uninstall"]


class Capture:
    """The log of one attempt, in memory and bounded. Any thread may write and read it."""

    # On the class stands what an attempt that says nothing never changes: most say nothing.
    _kept: Kept | None = None
    _partials: dict[str, str] | None = None
    _adopted = b""
    version = 0
    """Grows with everything that is written."""
    has_tried_to_cancel = False
    """Tasks that are not its own."""
    awaited: tuple[UUID, ...] = ()
    """The jobs whose results its handler waits for just now."""

    def __init__(self, *, limit_bytes: int = LOG_LIMIT_BYTES, echo: bool = True) -> None:
        if limit_bytes < MIN_LOG_LIMIT_BYTES:
            raise UsageError(
                f"an execution log of {limit_bytes} bytes is too small: give at least {MIN_LOG_LIMIT_BYTES}"
            )
        self._limit_bytes = limit_bytes
        self.echo = echo

    def activate(self) -> Token["Capture | None"]:
        """From here on, what this context logs and prints belongs to this attempt."""
        return _current.set(self)

    def deactivate(self, token: Token["Capture | None"]) -> None:
        _current.reset(token)

    @property
    def is_empty(self) -> bool:
        return self.version == 0

    def data(self) -> bytes:
        """JSON Lines, as of now; a line that has no end yet is included."""
        with _lock:
            kept = Kept(self._limit_bytes) if self._kept is None else self._kept
            if self._partials:
                kept = kept.copy()
                for stream, text in self._partials.items():
                    line = print_line(stream, text)
                    kept.add(line.ts_ms, encode(line, limit_bytes=self._limit_bytes))
            return kept.data() + self._adopted

    def add(self, line: Line) -> None:
        encoded = encode(line, limit_bytes=self._limit_bytes)
        with _lock:
            if self._kept is None:
                self._kept = Kept(self._limit_bytes)
            self._kept.add(line.ts_ms, encoded)
            self.version += 1

    def note(self, message: str, *, level: str = "INFO") -> None:
        """A line of the worker's own: why the attempt was ended, for instance."""
        self.add(worker_line(message, level=level))

    def adopt(self, data: bytes) -> None:
        """The whole log, so far, of this attempt in its child process; it stands after what was captured here."""
        with _lock:
            self._adopted = data
            self.version += 1

    def write(self, stream: str, text: str) -> None:
        """Printed text: lines are stored as they end."""
        for line in self._ended_lines(stream, text):
            self.add(print_line(stream, line))

    def _ended_lines(self, stream: str, text: str) -> list[str]:
        with _lock:
            if self._partials is None:
                self._partials = {}
            *lines, rest = (self._partials.pop(stream, "") + text).split("\n")
            rest = overwritten(rest)
            if len(rest) > line_characters(self._limit_bytes):
                lines.append(rest)
            elif rest:
                self._partials[stream] = rest
            if text:
                self.version += 1
        return lines


def current() -> Capture | None:
    """Of the attempt that is running here."""
    return _current.get()


@contextmanager
def waiting_for(job_id: UUID) -> Iterator[None]:
    """Around a wait for a job's result; noted where a handler does it."""
    attempt = current()
    if attempt is None:
        yield
        return
    with _lock:
        attempt.awaited = (*attempt.awaited, job_id)
    try:
        yield
    finally:
        with _lock:
            left = list(attempt.awaited)
            left.remove(job_id)
            attempt.awaited = tuple(left)


def leave() -> None:
    """From here on, this context belongs to no attempt."""
    _current.set(None)


def install() -> None:
    """Meet logging and printing in this process. Counted: as many ``uninstall`` undo it."""
    global _installs
    with _lock:
        _installs += 1
        if _installs > 1:
            return
        _meet_logging()
        sys.stdout = _with_proxy(sys.stdout, "stdout")
        sys.stderr = _with_proxy(sys.stderr, "stderr")


def uninstall() -> None:
    global _installs
    with _lock:
        if _installs == 0:
            return
        _installs -= 1
        if _installs > 0:
            return
        _leave_logging()
        # What somebody put there meanwhile stays; a proxy below it only passes on.
        sys.stdout = _without_proxy(sys.stdout)
        sys.stderr = _without_proxy(sys.stderr)


class _Proxy(io.TextIOBase):
    """Stands where a standard stream stood. ``real`` is None in a process that was started without one."""

    def __init__(self, real: TextIO | None, stream: str) -> None:
        self.real = real
        self._stream = stream

    def write(self, text: str, /) -> int:
        capture = _current.get()
        if capture is None:
            return len(text) if self.real is None else self.real.write(text)
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        capture.write(self._stream, text)
        if capture.echo and self.real is not None:
            _echo(self.real, text)
        return len(text)

    def writelines(self, lines: Iterable[str], /) -> None:  # type: ignore[override]
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if self.real is None:
            return
        try:
            self.real.flush()
        except (OSError, ValueError):
            if _current.get() is None:
                raise

    def close(self) -> None:
        """Nothing: the stream is the worker's, and the next handler's."""

    @property
    def closed(self) -> bool:
        return False

    def fileno(self) -> int:
        return super().fileno() if self.real is None else self.real.fileno()

    def isatty(self) -> bool:
        return self.real is not None and self.real.isatty()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8" if self.real is None else self.real.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return None if self.real is None else self.real.errors

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def _echo(real: TextIO, text: str) -> None:
    try:
        real.write(text)
    except UnicodeEncodeError:
        encoding = real.encoding or "ascii"
        with contextlib.suppress(OSError, ValueError):
            real.write(text.encode(encoding, "backslashreplace").decode(encoding))
    except (OSError, ValueError):
        pass  # the terminal is gone, or somebody closed it below us; the line is stored


def _with_proxy(real: Any, stream: str) -> Any:
    return real if isinstance(real, _Proxy) else _Proxy(real, stream)


def _without_proxy(stream: Any) -> Any:
    return stream.real if isinstance(stream, _Proxy) else stream


def _call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
    capture = _current.get()
    if capture is None:
        _real_call_handlers(logger, record)
        return
    capture.add(_record_line(record))
    token = _current.set(None)
    try:
        _real_call_handlers(logger, record)
    finally:
        _current.reset(token)


def _meet_logging() -> None:
    global _is_level_ours, _is_met, _real_call_handlers
    if not _is_met:
        _real_call_handlers = logging.Logger.callHandlers
        logging.Logger.callHandlers = _call_handlers  # type: ignore[assignment,method-assign]
        _is_met = True
    # The root logger's level is WARNING unless the program says otherwise; a job's own log begins at INFO.
    if LOG.level == logging.NOTSET:
        LOG.setLevel(logging.INFO)
        _is_level_ours = True


def _leave_logging() -> None:
    global _is_level_ours, _is_met
    # Where another library wrapped the method after us, ours stays below it, and only passes on.
    if logging.Logger.callHandlers is _call_handlers:
        logging.Logger.callHandlers = _real_call_handlers  # type: ignore[method-assign]
        _is_met = False
    if _is_level_ours:
        LOG.setLevel(logging.NOTSET)
        _is_level_ours = False


def _record_line(record: logging.LogRecord) -> Line:
    trace = trace_of(record)
    return Line(
        ts_ms=int(record.created * 1000),
        level=record.levelname,
        stream="log",
        logger=record.name,
        message=f"{message_of(record)}\n{trace}" if trace else message_of(record),
    )


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


_current: ContextVar[Capture | None] = ContextVar("holdfast_capture", default=None)
# One lock for all, held for the length of an append, and of one kind with what a signal handler or a finalizer that
# prints needs: the thread that holds it may come again.
_lock = threading.RLock()
os.register_at_fork(after_in_child=_renew_lock)
_installs = 0
_is_met = False
_is_level_ours = False
_real_call_handlers = logging.Logger.callHandlers
