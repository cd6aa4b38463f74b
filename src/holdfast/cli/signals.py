"""What SIGTERM, SIGINT and SIGHUP do to a worker, whatever its event loop does.

The first lets the worker finish, the second ends it at once, the third ends the process. That is the loop's affair,
and a loop that a handler blocks hears nothing. So a thread counts with it: the interpreter writes each signal to a
descriptor at the moment it arrives (``signal.set_wakeup_fd``), the thread reads it there and hands it on to the loop.

SIGNAL-1. The second signal ends the process: through the loop, or without it where the loop has not taken it within
    ``DEAF_SECONDS`` or has not ended within ``LAST_SECONDS``. What ran is then reclaimed by other workers; children are
    ended by their guard.
SIGNAL-2. Under a supervisor SIGTERM may come twice for one wish: there a signal of its own says "at once"
    (``AT_ONCE``).
SIGNAL-3. SIGHUP is SIGTERM, except where the process was told to ignore it (``nohup``).

Native code that never lets go of the interpreter keeps the thread from running, too: then only SIGKILL is left, which a
supervisor, systemd and containers send by themselves.
"""

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn

from holdfast.cli.children import AT_ONCE
from holdfast.cli.exits import Exit
from holdfast.telemetry.unblocked import finish_output

if TYPE_CHECKING:
    from holdfast.worker.worker import Worker

LOG: Final = logging.getLogger("holdfast.cli")
DEAF_SECONDS: Final = 1.0
LAST_SECONDS: Final = 3.0
WORDS_SECONDS: Final = 0.5
"""For last words, by a thread that may not get to say them."""


def stop_signals() -> dict[signal.Signals, Exit]:
    """Which signals stop a program, and its exit code then."""
    codes = {signal.SIGTERM: Exit.DONE, signal.SIGINT: Exit.INTERRUPTED}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        codes[signal.SIGHUP] = Exit.DONE
    return codes


class Signals:
    """Made on the running loop, in the main thread. ``starting`` is cancelled by a signal while there is no worker."""

    def __init__(self, *, is_supervised: bool) -> None:
        self.code = Exit.DONE
        self.count = 0
        """As far as the loop has come."""
        self.worker: Worker | None = None
        self.starting: asyncio.Task[int] | None = None
        self._codes = stop_signals()
        self._drains = frozenset({signal.SIGTERM, signal.SIGHUP} if is_supervised else ())
        """Those that mean "finish", however often they come."""
        if is_supervised:
            self._codes[AT_ONCE] = Exit.DONE
        loop = asyncio.get_running_loop()
        for number in self._codes:
            loop.add_signal_handler(number, self._received, number)
        # After the loop has set up its own.
        Listener(self)

    def counts(self, number: int, heard: int) -> bool:
        """Whether this signal says more than the ones before it."""
        return number in self._codes and not (heard and number in self._drains)

    def forced_code(self, number: int) -> Exit:
        """Of a process that leaves its work to others."""
        return Exit.INTERRUPTED if self._codes[signal.Signals(number)] is Exit.INTERRUPTED else Exit.NOT_DONE

    def _received(self, number: signal.Signals) -> None:
        if not self.counts(number, self.count):
            return
        self.count += 1
        self.code = self._codes[number]
        if self.count > 2:
            os._exit(self.forced_code(number))
        if self.worker is None:
            if self.starting is not None:
                self.starting.cancel()
        elif self.count == 1:
            LOG.info("stopping: running jobs may finish; once more stops at once")
            self.worker.stop()
        else:
            LOG.warning("stopping at once")
            self.worker.stop_now()


class Listener:
    """The thread. It lives as long as the process."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._heard = 0
        self._last = 0
        self._deaf_at: float | None = None
        self._last_at: float | None = None
        self._ours, self._interpreters = socket.socketpair()
        self._interpreters.setblocking(False)
        previous = signal.set_wakeup_fd(self._interpreters.fileno(), warn_on_full_buffer=False)
        # A copy: the loop closes its own, and the number may be another's then.
        self._loops = socket.socket(fileno=os.dup(previous)) if previous >= 0 else None
        threading.Thread(target=self._listen, name="holdfast-signals", daemon=True).start()

    def _listen(self) -> None:
        while True:
            moments = [moment for moment in (self._deaf_at, self._last_at) if moment is not None]
            self._ours.settimeout(max(0.01, min(moments) - time.monotonic()) if moments else None)
            try:
                numbers = self._ours.recv(64)
            except TimeoutError:
                self._look()
                continue
            if not numbers:
                return
            if self._loops is not None:
                with suppress(OSError):
                    self._loops.send(numbers)
            for number in numbers:
                self._hear(number)

    def _hear(self, number: int) -> None:
        if not self._signals.counts(number, self._heard):
            return
        self._heard += 1
        self._last = number
        now = time.monotonic()
        self._deaf_at = now + DEAF_SECONDS
        if self._heard == 2:
            self._last_at = now + LAST_SECONDS
        elif self._heard > 2:
            self._end()

    def _look(self) -> None:
        now = time.monotonic()
        if self._last_at is not None and now >= self._last_at:
            self._end()
        if self._deaf_at is not None and now >= self._deaf_at:
            self._deaf_at = None
            if self._signals.count < self._heard:
                if self._heard > 1:
                    self._end()
                _say(logging.WARNING, "told to stop, but a handler blocks the event loop; once more stops at once")

    def _end(self) -> NoReturn:
        _say(logging.CRITICAL, "stopped by force: what ran here is left to other workers")
        finish_output(WORDS_SECONDS)
        os._exit(self._signals.forced_code(self._last))


def _say(level: int, words: str) -> None:
    """Not in this thread: whoever blocks the loop may hold the lock of a log handler."""
    speaker = threading.Thread(target=LOG.log, args=(level, words), daemon=True)
    speaker.start()
    speaker.join(WORDS_SECONDS)
