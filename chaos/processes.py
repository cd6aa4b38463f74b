"""The real programs of a run: workers and a submitter, restarted whenever they end, until the run does.

PROCESS-1. A process that ends though nobody ended it is a finding, unless it was refused at its start: by a schema that
    was there when it was started, even if it has gone again since.
PROCESS-2. Nothing outlives the run: the system kills a process whose parent is gone.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from holdfast.cli.exits import Exit

ROOT: Final = Path(__file__).parents[1]
RESTART_SECONDS: Final = 0.2
STOP_SECONDS: Final = 60.0
TAIL_CHARACTERS: Final = 600
PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None)


def die_with_parent() -> None:
    """In the child, before it is another program; where the system has no such thing, nothing."""
    if sys.platform == "linux":
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Program:
    """One place in the run: a command, and the process that runs it now."""

    def __init__(
        self,
        name: str,
        command: Callable[[int], Sequence[str]],
        *,
        environment: Mapping[str, str],
        log: Path,
        may_be_refused: Callable[[], bool] = lambda: False,
    ) -> None:
        """``command`` is given how often the program was started before."""
        self.name = name
        self.starts = 0
        self.deaths: list[str] = []
        """How it ended when nobody had ended it."""
        self._command = command
        self._environment = {**os.environ, **environment}
        self._log = log
        self._may_be_refused = may_be_refused
        self._process: asyncio.subprocess.Process | None = None
        self._is_ended_by_us = False
        self._is_stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_running(), name=self.name)

    @property
    def pid(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    def signal(self, number: signal.Signals) -> bool:
        """False where no process was there to get it."""
        if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1):
            self._is_ended_by_us = True
        process = self._process
        if process is None or process.returncode is not None:
            return False
        process.send_signal(number)
        return True

    async def wait_ended(self) -> None:
        """Until the process that runs now has ended."""
        if self._process is not None:
            await self._process.wait()

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL where that takes too long, which is a finding."""
        self._is_stopping = True
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        if self._task is None:
            return
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await asyncio.shield(self._task)
        except TimeoutError:
            self.deaths.append(f"{self.name} did not stop within {STOP_SECONDS:.0f} s")
            self.kill()
            await self._task

    def kill(self) -> None:
        self._is_stopping = True
        self.signal(signal.SIGKILL)

    async def _keep_running(self) -> None:
        while not self._is_stopping:
            await self._run_once()
            if not self._is_stopping:
                await asyncio.sleep(RESTART_SECONDS)

    async def _run_once(self) -> None:
        self._is_ended_by_us = False
        with self._log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *self._command(self.starts),
                cwd=ROOT,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent,
            )
        self.starts += 1
        may_be_refused = self._may_be_refused()
        if self._is_stopping:
            self._process.kill()
        code = await self._process.wait()
        is_refused = code == Exit.WRONG and (may_be_refused or self._may_be_refused())
        if not (self._is_ended_by_us or self._is_stopping or is_refused):
            self.deaths.append(f"{self.name} ended by itself with {code}: {self._tail()}")

    def _tail(self) -> str:
        with contextlib.suppress(OSError):
            return self._log.read_text(encoding="utf-8", errors="replace")[-TAIL_CHARACTERS:].strip()
        return ""


def children_of(pid: int) -> list[int]:
    """The processes that run handlers for a worker, where the system tells."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return [child for child in found if _runs_handlers(child)]


def _runs_handlers(pid: int) -> bool:
    try:
        return b"holdfast.worker.child" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
