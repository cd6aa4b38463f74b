"""What time it is, for timestamps; given to the parts so that a test can give its own."""

from collections.abc import Callable
from time import time_ns

WallClock = Callable[[], int]
"""Milliseconds since 1970, UTC."""
Stopwatch = Callable[[], float]
"""Seconds that only ever grow: what a timeout is measured with."""


def now_ms() -> int:
    return time_ns() // 1_000_000
