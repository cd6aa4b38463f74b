"""What a measure is given: the sizes, a PostgreSQL started when it is first wanted, a way to say how far it is."""

import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.figures import Figure, Missing
from benchmarks.workload import Sizes
from tests.servers import PostgresServer

QUICK_FRACTION: Final = 0.15
"""Of a measure's full time, roughly, that it takes with the quick sizes."""
BAR_CHARACTERS: Final = 20


class Progress:
    """A bar and a line: what is running, how long it has been, and about how long it will still take."""

    def __init__(self, expected_seconds: float) -> None:
        self._left_seconds = expected_seconds
        self._done_seconds = 0.0
        self._started = time.monotonic()
        self._finished = self._started
        self._is_terminal = sys.stderr.isatty()

    def finish(self, expected_seconds: float) -> None:
        """A measure is done that was expected to take so long."""
        self._done_seconds += expected_seconds
        self._left_seconds -= expected_seconds
        self._finished = time.monotonic()

    def say(self, text: str) -> None:
        now = time.monotonic()
        # How this machine compares with the one the estimates are from shows after the first measure.
        pace = (self._finished - self._started) / self._done_seconds if self._done_seconds else 1.0
        elapsed, left = now - self._started, max(0.0, self._left_seconds * pace - (now - self._finished))
        done = bar(elapsed / (elapsed + left) if elapsed + left else 0.0)
        line = f"{done} {clock(elapsed)}, about {clock(left)} left: {text}"
        print(f"\r\x1b[K{line}" if self._is_terminal else line, end="" if self._is_terminal else "\n", file=sys.stderr)
        sys.stderr.flush()

    def clear(self) -> None:
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr)


class Bench:
    def __init__(self, sizes: Sizes, progress: Progress) -> None:
        self.sizes = sizes
        self._progress = progress
        self._server: PostgresServer | None = None

    @property
    def server(self) -> PostgresServer:
        if self._server is None:
            self._server = PostgresServer()
            self._server.start()
        return self._server

    @property
    def has_server(self) -> bool:
        return self._server is not None

    def say(self, text: str) -> None:
        self._progress.say(text)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    name: str
    about: str
    seconds: float
    """What it takes with the full sizes, for the time left."""
    run: Callable[[Bench], Awaitable[Sequence[Figure | Missing]]]


def bar(share: float) -> str:
    full = round(share * BAR_CHARACTERS)
    return f"[{'#' * full}{'.' * (BAR_CHARACTERS - full)}]"


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
