"""The lines of one attempt's log, encoded, shortened and bounded. Who writes them is ``capture``'s business.

LOGLINE-1. What is kept is whole lines of JSON, never more than ``limit_bytes`` in all, whatever the lines contain.
LOGLINE-2. The first and the last lines stay; of what was between them, the number of lines and bytes.
"""

import time
from collections import deque
from typing import Final

import msgspec

LOG_LIMIT_BYTES: Final = 64 * 1024
MIN_LOG_LIMIT_BYTES: Final = 4 * 1024
MAX_NAME_CHARACTERS: Final = 100
OMISSION_BYTES: Final = 256
"""Kept free for the line that says what was left out."""
WORKER_LOGGER: Final = "holdfast.worker"


class Line(msgspec.Struct, kw_only=True, gc=False):
    """One line of an execution log, as it is stored."""

    ts_ms: int
    level: str
    stream: str
    """log, stdout or stderr."""
    logger: str
    message: str


class Kept:
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

    def copy(self) -> "Kept":
        other = Kept(self.limit_bytes)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        other.head, other.tail = list(self.head), self.tail.copy()
        return other

    def data(self) -> bytes:
        parts = list(self.head)
        if self.omitted_lines:
            message = f"… {self.omitted_lines} lines ({self.omitted_bytes} bytes) left out …"
            parts.append(_encoded(worker_line(message, level="WARNING", ts_ms=self.omitted_at_ms)))
        parts.extend(encoded for _, encoded in self.tail)
        return b"".join(parts)


def print_line(stream: str, text: str) -> Line:
    return Line(ts_ms=_now_ms(), level="INFO", stream=stream, logger="", message=overwritten(text).rstrip("\r"))


def worker_line(message: str, *, level: str, ts_ms: int | None = None) -> Line:
    """A line of the worker's own."""
    at_ms = _now_ms() if ts_ms is None else ts_ms
    return Line(ts_ms=at_ms, level=level, stream="log", logger=WORKER_LOGGER, message=message)


def line_characters(limit_bytes: int) -> int:
    """How long the longest line of a log may be."""
    return limit_bytes // 8


def encode(line: Line, *, limit_bytes: int) -> bytes:
    """One line of JSON, short enough to have a place in a log of that size."""
    longest = line_characters(limit_bytes)
    line.level = _shortened(line.level, MAX_NAME_CHARACTERS)
    line.logger = _shortened(line.logger, MAX_NAME_CHARACTERS)
    line.message = _shortened(line.message, longest)
    encoded = _encoded(line)
    if len(encoded) > limit_bytes // 4:
        # Control characters, emoji and lone surrogates take up to seven bytes each.
        line.message = _shortened(line.message, longest // 4)
        encoded = _encoded(line)
    return encoded


def overwritten(text: str) -> str:
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


_ENCODER: Final = msgspec.json.Encoder()
