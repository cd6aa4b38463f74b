"""A live view's terminal: the whole screen while it is shown, and the terminal as it was afterwards, however it ends.

``q`` and SIGTERM end a view as well as Ctrl-C does.
"""

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from rich.console import RenderableType
from rich.live import Live

from holdfast.cli.output import console

QUIT_KEYS: Final = frozenset(b"qQ\x1b")


class Screen:
    def __init__(self, live: Live, closing: asyncio.Event) -> None:
        self._live = live
        self._closing = closing

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return self._live.console.width, self._live.console.height

    @property
    def is_closed(self) -> bool:
        return self._closing.is_set()

    def draw(self, what: RenderableType) -> None:
        self._live.update(what, refresh=True)

    async def wait(self, seconds: float) -> None:
        """That long, or until somebody quits."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)


@contextmanager
def full_screen(closing: asyncio.Event | None = None) -> Iterator[Screen]:
    """Inside a running loop, on a terminal. Whoever gives ``closing`` can end it, too."""
    closing = closing or asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, closing.set)
    try:
        with _keys(closing), Live(console=console(), screen=True, auto_refresh=False) as live:
            yield Screen(live, closing)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


@contextmanager
def _keys(closing: asyncio.Event) -> Iterator[None]:
    """Keys come one by one and are not echoed. Where standard input is no terminal there are none."""
    if not sys.stdin.isatty():
        yield
        return
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    loop = asyncio.get_running_loop()

    def pressed() -> None:
        with suppress(OSError):
            if QUIT_KEYS & set(_read(number)):
                closing.set()

    tty.setcbreak(number)
    loop.add_reader(number, pressed)
    try:
        yield
    finally:
        loop.remove_reader(number)
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _read(number: int) -> bytes:
    # An arrow key begins with ESC too: a lone ESC comes alone.
    keys = os.read(number, 64)
    return keys if len(keys) == 1 else keys.replace(b"\x1b", b"")
