"""Where output goes: beside it a note for people, one object for machines, nothing at all into a pipe nobody reads.

Nothing here needs rich, so that a worker, which draws nothing, does not load it.
"""

import json
import os
import sys
from contextlib import suppress
from typing import Any


def is_terminal() -> bool:
    """May be drawn on: standard output is a terminal that can move its cursor."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")


def write_json(data: Any) -> None:
    """One object: on one line for a program, indented for a person."""
    print(json.dumps(data, indent=2 if sys.stdout.isatty() else None))


def write_json_line(data: Any) -> None:
    print(json.dumps(data), flush=True)


def note(text: str) -> None:
    """Beside the output, so that what is piped on stays clean."""
    print(f"holdfast: {text}", file=sys.stderr, flush=True)


def finish() -> None:
    """Write out what is buffered, while a broken pipe can still be caught."""
    sys.stdout.flush()
    sys.stderr.flush()


def prepare() -> None:
    """A terminal without Unicode is shown escapes, not a traceback; a pipe is given each line as it is said."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]


def abandon() -> None:
    """Nobody reads any more: what is still buffered goes nowhere, and the interpreter's exit says nothing."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
