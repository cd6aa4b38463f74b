"""``make soak``: a queue under steady load for half an hour, and whether anything grew, slowed down or was lost.

Shows how far it is, and a table at the end. Exit code 1 where a figure of the last ten minutes is not within 10 % of
the ten before, or where a job was lost or left.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Final

from benchmarks.bench import bar, clock
from soak.report import WHOLE_JOBS, WHOLE_SECONDS, Report
from soak.run import Settings, run

STORES: Final = ("postgres", "sqlite")
DEFAULT_MINUTES: Final = WHOLE_SECONDS / 60
SPARE: Final = 1.01
"""How much faster than the number of jobs needs: the first and the last moments of a run are slower."""
QUIET_SECONDS: Final = 30.0
"""How often a line is written where nobody watches."""


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    report = Report(command=" ".join(("python -m soak", *arguments)))
    for store in STORES if options.store == "both" else (options.store,):
        seconds = options.minutes * 60
        jobs = options.jobs if options.jobs is not None else WHOLE_JOBS * seconds / WHOLE_SECONDS
        settings = Settings(store=store, seconds=seconds, jobs_a_second=SPARE * jobs / seconds)
        progress = Progress(store, seconds)
        report.outcomes.append(asyncio.run(run(settings, progress)))
        progress.clear()
    print(f"{report.text()}\n\nwritten to {report.write()}")
    return 0 if report.holds else 1


class Progress:
    """A bar that moves on a terminal; elsewhere a line now and then."""

    def __init__(self, store: str, seconds: float) -> None:
        self._store = store
        self._seconds = seconds
        self._said_at = -QUIET_SECONDS
        self._is_terminal = sys.stderr.isatty()

    def __call__(self, share: float, text: str) -> None:
        now = time.monotonic()
        if not self._is_terminal and share < 1 and now - self._said_at < QUIET_SECONDS:
            return
        self._said_at = now
        line = f"{self._store} {bar(share)} {clock(share * self._seconds)} of {clock(self._seconds)}: {text}"
        print(f"\r\x1b[K{line}" if self._is_terminal else line, end="" if self._is_terminal else "\n", file=sys.stderr)
        sys.stderr.flush()

    def clear(self) -> None:
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m soak", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=DEFAULT_MINUTES, help=f"default: {DEFAULT_MINUTES:g}")
    parser.add_argument("--store", choices=(*STORES, "both"), default="postgres")
    parser.add_argument(
        "--jobs", type=int, help=f"default: {WHOLE_JOBS:,} in {DEFAULT_MINUTES:g} minutes, else in proportion"
    )
    options = parser.parse_args(arguments)
    if options.minutes <= 0 or (options.jobs is not None and options.jobs <= 0):
        parser.error("--minutes and --jobs must be more than 0")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
