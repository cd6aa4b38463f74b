"""Processes that a command starts and stops: how they are started, and what such a child knows of its parent."""

import asyncio
import os
import signal
import subprocess
from asyncio.subprocess import Process
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

VARIABLE: Final = "HOLDFAST_SUPERVISED"
AT_ONCE: Final = signal.SIGUSR1
MAX_LINE_BYTES: Final = 1024 * 1024
SERVING: Final = b"."
HOPELESS: Final = b"!"
"""What it was told to serve is not there any more, or not as it must be: another process would fare no better."""


class Supervised(NamedTuple):
    """What a child knows of its supervisor."""

    parent: int
    number: int
    sign: int | None = None
    """The pipe on which to say that it serves, where somebody listens."""

    def say(self, word: bytes) -> None:
        """``SERVING``, or why it ends."""
        if self.sign is not None:
            # Where the supervisor is gone, that is noticed elsewhere.
            with suppress(OSError):
                os.write(self.sign, word)


def child_of() -> Supervised | None:
    """In a child, once: what we start ourselves is not the supervisor's child."""
    given = os.environ.pop(VARIABLE, "")
    if not given:
        return None
    child = Supervised(*map(int, given.split(":")))
    if child.sign is not None:
        os.set_inheritable(child.sign, False)
    return child


async def start_child(
    command: Sequence[str],
    *,
    number: int,
    sign: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Process:
    """In a process group of its own: Ctrl-C is for us, and we stop it. It finds us with ``child_of``."""
    known = (os.getpid(), number) if sign is None else (os.getpid(), number, sign)
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        process_group=0,
        pass_fds=() if sign is None else (sign,),
        limit=MAX_LINE_BYTES,
        env={**environment, VARIABLE: ":".join(map(str, known))},
    )


def signal_all(processes: Iterable[Process], number: signal.Signals) -> None:
    for process in list(processes):
        with suppress(ProcessLookupError):
            process.send_signal(number)


def ended(code: int) -> str:
    """How a process ended, from its return code."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
