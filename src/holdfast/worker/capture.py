"""What a handler logs and prints, kept with its attempt.

A context variable says which attempt is running here, so that lines of neighbours on one loop, in threads and in child
processes never mix. Logging is met in ``Logger.callHandlers`` and not by a handler on the root logger: that would turn
``logging.basicConfig`` and the handler of last resort off, miss loggers that don't propagate, and be removed by
``dictConfig``. Printing is met by proxies over ``sys.stdout`` and ``sys.stderr``.

C1. Outside attempts nothing changes, and costs a look at the context variable.
C2. Inside one, every line is stored and goes on to where it went before; with ``echo=False`` prints are only stored.
C3. Capturing never fails a handler: not a record that does not format, not a text that is not UTF-8, not a terminal
    that is gone. A handler that closes its stdout closes nothing.
C4. An attempt keeps at most ``limit_bytes``: the beginning, the end, and a line between them that says what is missing.
C5. What a log handler prints while it handles a record is no news: the record itself is stored.
C6. A fork while others print does not hang the child.

A thread that the handler itself starts with ``threading.Thread`` has no part in its context and is not captured;
``asyncio.to_thread`` has.
"""

import contextlib
import io
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable
from contextvars import ContextVar, Token
from typing import Any, Final, TextIO

import msgspec

from holdfast.core.errors import UsageError
from holdfast.worker.context import LOG

LOG_LIMIT_BYTES: Final = 64 * 1024
MIN_LOG_LIMIT_BYTES: Final = 4 * 1024
MAX_LOGGER_CHARACTERS: Final = 100
OMISSION_BYTES: Final = 256
"""Kept free for the line that says what was left out."""


class Line(msgspec.Struct, kw_only=True, gc=False):
    """One line of an execution log, as it is stored."""

    ts_ms: int
    level: str
    stream: str
    """log, stdout or stderr."""
    logger: str
    message: str


class Capture:
    """The log of one attempt, in memory and bounded. Any thread may write and read it."""

    __slots__ = ("_adopted", "_kept", "_limit_bytes", "_partials", "echo", "version")

    def __init__(self, *, limit_bytes: int = LOG_LIMIT_BYTES, echo: bool = True) -> None:
        if limit_bytes < MIN_LOG_LIMIT_BYTES:
            raise UsageError(
                f"an execution log of {limit_bytes} bytes is too small: give at least {MIN_LOG_LIMIT_BYTES}"
            )
        self._limit_bytes = limit_bytes
        self._kept: _Kept | None = None
        self._partials: dict[str, str] | None = None
        self._adopted = b""
        self.echo = echo
        self.version = 0
        """Grows with everything that is written."""

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
            kept = _Kept(self._limit_bytes) if self._kept is None else self._kept
            if self._partials:
                kept = kept.copy()
                for stream, text in self._partials.items():
                    line = _print_line(stream, text)
                    kept.add(line.ts_ms, self._encode(line))
            return kept.data() + self._adopted

    def add(self, line: Line) -> None:
        encoded = self._encode(line)
        with _lock:
            if self._kept is None:
                self._kept = _Kept(self._limit_bytes)
            self._kept.add(line.ts_ms, encoded)
            self.version += 1

    def note(self, message: str, *, level: str = "INFO") -> None:
        """A line of the worker's own: why the attempt was ended, for instance."""
        self.add(Line(ts_ms=_now_ms(), level=level, stream="log", logger="holdfast.worker", message=message))

    def adopt(self, data: bytes) -> None:
        """The whole log, so far, of this attempt in its child process; it stands after what was captured here."""
        with _lock:
            self._adopted = data
            self.version += 1

    def write(self, stream: str, text: str) -> None:
        """Printed text: lines are stored as they end."""
        for line in self._ended_lines(stream, text):
            self.add(_print_line(stream, line))

    def _ended_lines(self, stream: str, text: str) -> list[str]:
        with _lock:
            if self._partials is None:
                self._partials = {}
            *lines, rest = (self._partials.pop(stream, "") + text).split("\n")
            rest = _overwritten(rest)
            if len(rest) > self._line_characters:
                lines.append(rest)
            elif rest:
                self._partials[stream] = rest
            if text:
                self.version += 1
        return lines

    @property
    def _line_characters(self) -> int:
        return self._limit_bytes // 8

    def _encode(self, line: Line) -> bytes:
        line.logger = _shortened(line.logger, MAX_LOGGER_CHARACTERS)
        line.message = _shortened(line.message, self._line_characters)
        encoded = _encoded(line)
        if len(encoded) > self._limit_bytes // 4:
            # Control characters and emoji take up to six bytes each.
            line.message = _shortened(line.message, self._line_characters // 4)
            encoded = _encoded(line)
        return encoded


class _Kept:
    """The first and the last encoded lines of a log; the middle is counted and let go."""

    __slots__ = (
        "head",
        "head_room",
        "limit_bytes",
        "omitted_at_ms",
        "omitted_bytes",
        "omitted_lines",
        "tail",
        "tail_room",
    )

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.head: list[bytes] = []
        self.tail: deque[tuple[int, bytes]] = deque()
        self.head_room = limit_bytes // 2
        self.tail_room = limit_bytes - limit_bytes // 2 - OMISSION_BYTES
        self.omitted_lines = 0
        self.omitted_bytes = 0
        self.omitted_at_ms = 0

    def add(self, ts_ms: int, encoded: bytes) -> None:
        size = len(encoded)
        if not self.tail and size <= self.head_room:
            self.head.append(encoded)
            self.head_room -= size
            return
        self.tail.append((ts_ms, encoded))
        self.tail_room -= size
        while self.tail_room < 0:
            self.omitted_at_ms, omitted = self.tail.popleft()
            self.tail_room += len(omitted)
            self.omitted_lines += 1
            self.omitted_bytes += len(omitted)

    def copy(self) -> "_Kept":
        other = _Kept(self.limit_bytes)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        other.head, other.tail = list(self.head), self.tail.copy()
        return other

    def data(self) -> bytes:
        parts = list(self.head)
        if self.omitted_lines:
            message = f"… {self.omitted_lines} lines ({self.omitted_bytes} bytes) left out …"
            parts.append(
                _encoded(
                    Line(
                        ts_ms=self.omitted_at_ms,
                        level="WARNING",
                        stream="log",
                        logger="holdfast.worker",
                        message=message,
                    )
                )
            )
        parts.extend(encoded for _, encoded in self.tail)
        return b"".join(parts)


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
    return Line(
        ts_ms=int(record.created * 1000),
        level=record.levelname,
        stream="log",
        logger=record.name,
        message=_message(record),
    )


def _message(record: logging.LogRecord) -> str:
    try:
        parts = [record.getMessage()]
        if record.exc_info and record.exc_info[0] is not None:
            parts.append(_FORMATTER.formatException(record.exc_info))
        elif record.exc_text:
            parts.append(record.exc_text)
        if record.stack_info:
            parts.append(record.stack_info)
        return "\n".join(parts)
    except Exception:  # whatever the arguments' own methods raise (C3)
        return _raw_message(record)


def _raw_message(record: logging.LogRecord) -> str:
    try:
        return f"{record.msg} {record.args!r}"
    except Exception:
        return f"a record at {record.pathname}:{record.lineno} that cannot be formatted"


def _print_line(stream: str, text: str) -> Line:
    return Line(ts_ms=_now_ms(), level="INFO", stream=stream, logger="", message=_overwritten(text).rstrip("\r"))


def _overwritten(text: str) -> str:
    """What a terminal would show of a line that was written over and over: progress bars do that."""
    if "\r" not in text:
        return text
    line = text.rstrip("\r")
    return line.rpartition("\r")[2] + text[len(line) :]


def _shortened(text: str, limit_characters: int) -> str:
    if len(text) <= limit_characters:
        return text
    half = limit_characters // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters left out … {text[-half:]}"


def _encoded(line: Line) -> bytes:
    try:
        return _ENCODER.encode(line) + b"\n"
    except UnicodeEncodeError:  # lone surrogates
        line.message = line.message.encode("utf-8", "backslashreplace").decode()
        line.logger = line.logger.encode("utf-8", "backslashreplace").decode()
        line.level = line.level.encode("utf-8", "backslashreplace").decode()
        return _ENCODER.encode(line) + b"\n"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


_current: ContextVar[Capture | None] = ContextVar("holdfast_capture", default=None)
_ENCODER: Final = msgspec.json.Encoder()
_FORMATTER: Final = logging.Formatter()
# One lock for all, held for the length of an append, and of one kind with what a signal handler or a finalizer that
# prints needs: the thread that holds it may come again.
_lock = threading.RLock()
os.register_at_fork(after_in_child=_renew_lock)
_installs = 0
_is_met = False
_is_level_ours = False
_real_call_handlers = logging.Logger.callHandlers
