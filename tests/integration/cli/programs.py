"""The command line as a real program: run to its end, in the background, or on a terminal."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

Answer = TypeVar("Answer")
LONG_SECONDS = 60.0
"""Far more than anything here takes."""
COLUMNS, LINES = 100, 30
CLEARED = (
    "HOLDFAST_URL",
    "HOLDFAST_LOGS",
    "HOLDFAST_KEY",
    "NO_COLOR",
    "FORCE_COLOR",
    "COLUMNS",
    "LINES",
    "WORKER_ID",
)
COMMAND = (sys.executable, "-m", "holdfast")
DONE, NOT_DONE, WRONG, INTERRUPTED = 0, 1, 2, 130


def environment(**given: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in CLEARED}
    if "PYTHONPATH" in given and "PYTHONPATH" in kept:
        # Before the one that says where the code under test is.
        given["PYTHONPATH"] += os.pathsep + kept["PYTHONPATH"]
    return {**kept, "PYTHONUNBUFFERED": "1", **given}


def run(
    *arguments: str | Path, url: str | None = None, stdin: str = "", cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """To its end."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments), *(("--url", url) if url is not None else ())],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        cwd=cwd,
        env=environment(**variables),
        check=False,
    )


def run_json(*arguments: str | Path, url: str | None = None, code: int = DONE, **options: Any) -> Any:
    """The one object that it writes."""
    done = run(*arguments, "--json", url=url, **options)
    assert done.returncode == code, done.stderr
    (line,) = done.stdout.splitlines()
    return json.loads(line)


def refused(*arguments: str | Path, code: int = WRONG, **options: Any) -> str:
    """The one line on standard error that a refusal consists of."""
    done = run(*arguments, **options)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("holdfast: ")
    return line.removeprefix("holdfast: ")


def eventually(holds: Callable[[], Answer | None]) -> Answer:
    """What it answers once that is something."""
    deadline = time.monotonic() + LONG_SECONDS
    while not (answer := holds()):
        assert time.monotonic() < deadline, "never happened"
        time.sleep(0.05)
    return answer


def end_session(leader: int) -> None:
    """Whatever a program has left running: its children have process groups of their own, but one session."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(int(entry.name)) == leader:
                os.kill(int(entry.name), signal.SIGKILL)


class Program:
    """In the background, what it writes collected as it comes. Killed at the end of the block, with its children."""

    def __init__(
        self, *arguments: str | Path, cwd: Path | None = None, command: Sequence[str] = COMMAND, **variables: str
    ) -> None:
        self.written = ""
        self._process = subprocess.Popen(
            [*command, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=environment(**variables),
            start_new_session=True,
        )
        self._collect(self._read_pipe)

    def _collect(self, read: Callable[[], bytes]) -> None:
        self._read = read
        self._reader = threading.Thread(target=self._run_reader, daemon=True)
        self._reader.start()

    def _read_pipe(self) -> bytes:
        assert self._process.stdout is not None
        return os.read(self._process.stdout.fileno(), 65536)

    def _run_reader(self) -> None:
        while True:
            try:
                data = self._read()
            except OSError:  # a terminal whose last user is gone
                return
            if not data:
                return
            self.written += data.decode("utf-8", "replace")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def text(self) -> str:
        """What was written, without the terminal's own commands."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][A-Z]|\r", "", self.written)

    def wait_for(self, text: str, *, times: int = 1) -> None:
        deadline = time.monotonic() + LONG_SECONDS
        while self.text.count(text) < times:
            assert time.monotonic() < deadline, f"never wrote {text!r}, but: {self.text}"
            if self._process.poll() is not None:
                self._reader.join(LONG_SECONDS)
                assert self.text.count(text) >= times, f"ended without {text!r}: {self.text}"
            time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def exit_code(self) -> int:
        code = self._process.wait(LONG_SECONDS)
        self._reader.join(LONG_SECONDS)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        end_session(self._process.pid)
        self._reader.join(LONG_SECONDS)
        if self._process.stdout is not None:
            self._process.stdout.close()


class Terminal(Program):
    """The same on a pseudo-terminal of 100 × 30, where it draws."""

    def __init__(self, *arguments: str | Path, cwd: Path | None = None, **variables: str) -> None:
        self.written = ""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.settings_before = termios.tcgetattr(slave)
        self._slave = slave
        self._process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=environment(TERM="xterm-256color", **variables),
            start_new_session=True,
            # So that Ctrl-C on it is a signal.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self._collect(lambda: os.read(self._master, 65536))

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def wait_for_end(self) -> None:
        self._process.wait(LONG_SECONDS)

    @property
    def settings(self) -> list[Any]:
        return termios.tcgetattr(self._slave)

    def exit_code(self) -> int:
        code = self._process.wait(LONG_SECONDS)
        os.close(self._slave)
        self._slave = -1
        self._reader.join(LONG_SECONDS)
        return code

    def __exit__(self, *error: Any) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        end_session(self._process.pid)
        if self._slave >= 0:
            os.close(self._slave)
        self._reader.join(LONG_SECONDS)
        os.close(self._master)
