"""Ends what is left of a worker's child processes when the worker itself is gone, however it went.

A child sees the end of its worker by itself, but what its handler started does not, and a child may be busy with code
that lets nothing else run. So each worker with children has one small process beside it that knows their process
groups and reads a pipe; the end of the pipe is the end of the worker.
"""

import subprocess
from contextlib import suppress
from multiprocessing import spawn
from typing import Final

END_SECONDS: Final = 2.0

PROGRAM: Final = """
import os, signal, sys
for name in ("SIGINT", "SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""


class Guard:
    """Any number of ``add`` and ``remove``. Where it cannot be started or has died, its work is only not done."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError):
            self._process = subprocess.Popen(
                [spawn.get_executable(), "-I", "-S", "-c", PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def add(self, group: int) -> None:
        self._tell(b"+%d\n" % group)

    def remove(self, group: int) -> None:
        """Before the group's leader is waited for: until then its number cannot be another's."""
        self._tell(b"-%d\n" % group)

    def close(self) -> None:
        if self._process is None or self._process.stdin is None:
            return
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tell(self, line: bytes) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.write(line)
                self._process.stdin.flush()
