"""A timer of the event loop that is exact: the loop's own ones tick in milliseconds, which is as long as some waits.

Linux's timerfd, by ctypes: Python itself has it from 3.13 on.
"""

import asyncio
import ctypes
import os
import struct
from typing import Final, Self

CLOCK_MONOTONIC: Final = 1
TFD_TIMER_ABSTIME: Final = 1
FLAGS: Final = os.O_NONBLOCK | os.O_CLOEXEC
MICROSECONDS: Final = 1_000_000
_libc: Final = ctypes.CDLL(None, use_errno=True)


class Timer:
    """Use as a context manager, inside a loop."""

    def __init__(self) -> None:
        self._file = _libc.timerfd_create(CLOCK_MONOTONIC, FLAGS)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._loop = asyncio.get_running_loop()
        self._rung: asyncio.Future[None] | None = None

    def __enter__(self) -> Self:
        self._loop.add_reader(self._file, self._ring)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.remove_reader(self._file)
        os.close(self._file)

    async def wait_until(self, microseconds: int) -> None:
        """Of CLOCK_MONOTONIC. A time that is past rings at once."""
        self._rung = self._loop.create_future()
        seconds, rest = divmod(max(1, microseconds), MICROSECONDS)
        setting = struct.pack("@qqqq", 0, 0, seconds, rest * 1000)
        if _libc.timerfd_settime(self._file, TFD_TIMER_ABSTIME, setting, None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")
        await self._rung

    def _ring(self) -> None:
        os.read(self._file, 8)
        if self._rung is not None and not self._rung.done():
            self._rung.set_result(None)
