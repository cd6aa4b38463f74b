"""A process's wall clock that somebody else can move while it runs.

The offset is a number in a file that both sides have mapped. ``time.time`` and ``time.time_ns`` are replaced, which is
what a worker and the SQLite store ask; the monotonic clock stays as it is. (libfaketime cannot be used: under it
``time.sleep`` of Python 3.11 fails.)
"""

import mmap
import os
import struct
import time
from pathlib import Path
from typing import Final

CLOCK_VARIABLE: Final = "CHAOS_CLOCK"
_OFFSET: Final = struct.Struct("<q")


class Clock:
    """The hand on somebody's clock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset_seconds = 0
        path.write_bytes(_OFFSET.pack(0))

    def jump(self, seconds: int) -> None:
        """Further than it is already."""
        self.set(self.offset_seconds + seconds)

    def set(self, seconds: int) -> None:
        self.offset_seconds = seconds
        with self.path.open("r+b") as file:
            file.write(_OFFSET.pack(seconds))


def follow() -> None:
    """From here on, this process's clock is moved by the file that $CHAOS_CLOCK names, if it names one."""
    path = os.environ.get(CLOCK_VARIABLE)
    if path is None:
        return
    with Path(path).open("rb") as file:
        mapped = mmap.mmap(file.fileno(), _OFFSET.size, access=mmap.ACCESS_READ)
    real_time, real_time_ns = time.time, time.time_ns

    def moved_time() -> float:
        return real_time() + int(_OFFSET.unpack_from(mapped)[0])

    def moved_time_ns() -> int:
        return real_time_ns() + int(_OFFSET.unpack_from(mapped)[0]) * 1_000_000_000

    time.time, time.time_ns = moved_time, moved_time_ns
