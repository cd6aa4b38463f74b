"""Where output goes: beside it a note for people, one object for machines, nothing at all into a pipe nobody reads.

Nothing here needs rich, so that a worker, which draws nothing, does not load it.
"""

import json
import os
import sys
from contextlib import suppress
from typing import Any, Final

LAST_STANDARD_DESCRIPTOR: Final = 2


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
    # Where nobody reads it, the exit code says enough.
    with suppress(BrokenPipeError):
        print(f"holdfast: {text}", file=sys.stderr, flush=True)


def finish() -> None:
    """Write out what is buffered; where nobody reads any more, nowhere, so that the interpreter's exit says nothing."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            # `holdfast jobs | head`: the reader has what it wanted.
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except (OSError, ValueError):
            pass  # the interpreter tries again, and says what is wrong


def prepare() -> None:
    """A terminal without Unicode is shown escapes, not a traceback; a pipe is given each line as it is said."""
    _open_missing()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]


def _open_missing() -> None:
    """A program that was started with closed streams (``>&-``) would give their numbers to the files that it opens."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= LAST_STANDARD_DESCRIPTOR:
        os.set_inheritable(opened, True)
    os.close(opened)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
