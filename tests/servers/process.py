"""A server process that cannot outlive the tests.

Owns: the unprivileged user servers run as when the tests run as root (PostgreSQL and PgBouncer refuse
root), their scratch directory, a free port, and the guard. What is inside a server is not known here.

How the guard works: beside each server runs a small shell that reads a pipe held open by this process.
A line means that the server was stopped in an orderly way. The end of the pipe without one means that this
process is gone, however it died, so the guard ends the server and removes its directory. ``atexit`` alone
would not do: it does not run after SIGKILL.
"""

import atexit
import contextlib
import fcntl
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

STOP_TIMEOUT_SECONDS = 20.0
POLL_INTERVAL_SECONDS = 0.02
SERVER_PORTS = (15_000, 32_000)
UNPRIVILEGED_USERS = ("postgres", "nobody")

GUARD_SCRIPT = """
read -r line && exit 0
kill -"$2" "$1" 2>/dev/null
for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$1" 2>/dev/null || break; sleep 0.2; done
kill -KILL "$1" 2>/dev/null
rm -rf "$3"
"""


class ServerUnavailable(Exception):
    """A server that the tests need cannot be had; the message says how to get it."""


def unprivileged_user() -> str | None:
    """The user to run servers as, or None where the tests are not run by root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in UNPRIVILEGED_USERS:
        if name in known:
            return name
    raise ServerUnavailable(f"servers refuse to run as root, and none of {UNPRIVILEGED_USERS} exists")


def identity() -> dict[str, Any]:
    """Arguments for ``subprocess`` that drop root's rights."""
    name = unprivileged_user()
    if name is None:
        return {}
    return {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": []}


def make_directory(prefix: str) -> Path:
    """A scratch directory that belongs to the user the servers run as.

    Directly in /tmp where there is one: the path of a socket may not be longer than 107 bytes.
    """
    parent = "/tmp" if os.access("/tmp", os.W_OK) else None
    directory = Path(tempfile.mkdtemp(prefix=f"holdfast-{prefix}-", dir=parent))
    give_away(directory)
    return directory


def give_away(path: Path) -> None:
    name = unprivileged_user()
    if name is not None:
        shutil.chown(path, name, pwd.getpwnam(name).pw_gid)


def free_port() -> int:
    """Below the ports that the system gives to clients: one of those could be taken before the server has it."""
    while True:
        port = random.randrange(*SERVER_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Of all processes that run tests in this environment: two must not install the same thing at once."""
    with (Path(sys.prefix) / f".{name}-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def wait_until(condition: Callable[[], bool], *, timeout_seconds: float) -> bool:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_INTERVAL_SECONDS)
    return True


class GuardedProcess:
    """One run of a server: started by the constructor, ended by ``end`` or with this process."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        directory: Path,
        log: Path,
        end_signal: signal.Signals,
        drops_rights: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``drops_rights=False`` for a server that is Python itself, which may lie where only root can read.

        ``environment`` is added to this process's own.
        """
        self._end_signal = end_signal
        self._owner_pid = os.getpid()
        with log.open("ab") as output:
            # A session of its own: Ctrl-C in the terminal is for pytest, which then ends the server.
            self._process = subprocess.Popen(
                [str(part) for part in command],
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
                **(identity() if drops_rights else {}),
            )
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD_SCRIPT, "guard", str(self.pid), end_signal.name[3:], str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        atexit.register(self.end)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def end(self, end_signal: signal.Signals | None = None) -> None:
        """End the server with the given signal, or with the one for a quick end. Repeats are harmless."""
        if os.getpid() != self._owner_pid:
            return  # a forked child that exits must not take its parent's server along
        if self.is_running:
            self._process.send_signal(end_signal or self._end_signal)
            try:
                self._process.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._dismiss_guard()
        atexit.unregister(self.end)

    def _dismiss_guard(self) -> None:
        pipe: IO[bytes] | None = self._guard.stdin
        if pipe is None or pipe.closed:
            return
        try:
            pipe.write(b"stopped\n")
            pipe.close()
        except BrokenPipeError:
            pass  # somebody ended the guard; there is nothing left for it to do
        self._guard.wait()
