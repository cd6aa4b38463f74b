"""Keeps worker processes running: replaces dead ones, passes signals on, starts all anew when code changes.

Children have a process group of their own, so that Ctrl-C reaches them once, through here. What stops a whole control
group (systemd, containers) reaches them twice; so to a child SIGTERM means drain, however often it comes, and
``AT_ONCE`` means at once. Should this process be killed, a child sees that its parent has changed, and drains
(``child_of``).

V1. A child that dies is replaced; one that dies young is replaced ever more slowly, and after ``MAX_YOUNG_DEATHS`` in a
    row all are stopped: its messages stand above ours.
V2. A child that says its set-up is wrong (exit code 2) is not started again; with reload, not before a file changes.
V3. The first signal lets children drain, the second stops them at once; what runs ``KILL_SECONDS`` later is killed.
"""

import asyncio
import os
import signal
import subprocess
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from holdfast.cli.changes import Changes
from holdfast.cli.exits import Exit

VARIABLE: Final = "HOLDFAST_SUPERVISED"
AT_ONCE: Final = signal.SIGUSR1
YOUNG_SECONDS: Final = 5.0
MAX_YOUNG_DEATHS: Final = 5
FIRST_BACKOFF_SECONDS: Final = 0.2
LONGEST_BACKOFF_SECONDS: Final = 5.0
KILL_SECONDS: Final = 5.0
RELOAD_GRACE_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.5
MAX_LINE_BYTES: Final = 1024 * 1024


def child_of() -> tuple[int, int] | None:
    """(the supervisor's process ID, our number) in a child, once: what we start ourselves is no child of theirs."""
    parent, _, number = os.environ.pop(VARIABLE, "").partition(":")
    return (int(parent), int(number)) if number else None


class Supervisor:
    def __init__(
        self,
        command: Sequence[str],
        *,
        processes: int,
        say: Callable[[str], None],
        changes: Changes | None = None,
        on_line: Callable[[str], None] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``say`` gets our own messages, ``on_line`` what the children write, unless that goes where ours does."""
        self._command = tuple(command)
        self._processes = processes
        self._say = say
        self._changes = changes
        self._on_line = on_line
        self._environment = dict(os.environ if environment is None else environment)
        self._children: dict[int, Process] = {}
        self._stops = 0
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._code: int | None = None

    async def run(self) -> int:
        """Until stopped, or until it makes no sense to go on. The exit code of the whole."""
        helpers = [asyncio.create_task(self._watch())] if self._changes is not None else []
        try:
            codes = await asyncio.gather(*(self._keep(number) for number in range(1, self._processes + 1)))
        finally:
            for helper in helpers:
                helper.cancel()
            self._signal(signal.SIGKILL)
        return self._code if self._code is not None else max(codes, default=0)

    def stop(self) -> None:
        """Drain; called again: at once, and before long by force (V3)."""
        self._stops += 1
        self._stopping.set()
        self._changed.set()
        self._signal(signal.SIGTERM if self._stops == 1 else AT_ONCE)
        if self._stops > 1:
            asyncio.get_running_loop().call_later(KILL_SECONDS, self._signal, signal.SIGKILL)

    @property
    def process_ids(self) -> list[int]:
        return [child.pid for child in self._children.values()]

    async def _keep(self, number: int) -> int:
        """One place: a process in it for as long as we run."""
        young_deaths = 0
        code = 0
        while not self._stopping.is_set():
            started_at = time.monotonic()
            self._changed.clear()
            code = await self._run_child(number)
            if self._stopping.is_set() or self._changed.is_set():
                young_deaths = 0
                continue
            young_deaths = young_deaths + 1 if time.monotonic() - started_at < YOUNG_SECONDS else 0
            await self._after_death(number, code, young_deaths)
        # One that had ended its work, and with it its handling of signals, may meet the second one.
        return Exit.DONE if code in (Exit.DONE, Exit.INTERRUPTED, -signal.SIGTERM, -AT_ONCE) else Exit.NOT_DONE

    async def _after_death(self, number: int, code: int, young_deaths: int) -> None:
        if code == Exit.WRONG or young_deaths > MAX_YOUNG_DEATHS:
            if self._changes is not None:
                self._say(f"worker process {number} {ended(code)}; waiting for a file to change")
                await self._changed.wait()
                return
            if code != Exit.WRONG:
                self._say(f"worker process {number} {ended(code)} at once, {young_deaths} times in a row; giving up")
            self._give_up(Exit.WRONG if code == Exit.WRONG else Exit.NOT_DONE)
            return
        delay = min(FIRST_BACKOFF_SECONDS * 2 ** max(0, young_deaths - 1), LONGEST_BACKOFF_SECONDS)
        self._say(f"worker process {number} {ended(code)}; starting another in {delay:.1f} s")
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), delay)

    def _give_up(self, code: int) -> None:
        self._code = code
        self.stop()

    async def _run_child(self, number: int) -> int:
        child = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if self._on_line is not None else None,
            stderr=subprocess.STDOUT if self._on_line is not None else None,
            process_group=0,
            limit=MAX_LINE_BYTES,
            env={**self._environment, VARIABLE: f"{os.getpid()}:{number}"},
        )
        self._children[number] = child
        if self._stopping.is_set():
            self._signal(signal.SIGTERM)
        try:
            await self._pass_on(child)
            return await child.wait()
        finally:
            if child.returncode is None:
                child.kill()
            del self._children[number]

    async def _pass_on(self, child: Process) -> None:
        if child.stdout is None or self._on_line is None:
            return
        while True:
            try:
                line = await child.stdout.readline()
            except ValueError:
                continue  # longer than any line we keep
            if not line:
                return
            self._on_line(line.decode("utf-8", "replace").rstrip("\n"))

    def _signal(self, number: signal.Signals) -> None:
        for child in list(self._children.values()):
            with suppress(ProcessLookupError):
                child.send_signal(number)

    async def _watch(self) -> None:
        """Restart every child when a file has changed."""
        assert self._changes is not None
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            changed = await asyncio.to_thread(self._changes.changed)
            if changed:
                more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
                self._say(f"{changed[0].name}{more} changed; starting anew")
                self._changed.set()
                await self._restart()

    async def _restart(self) -> None:
        children = list(self._children.values())
        for number in (signal.SIGTERM, AT_ONCE, signal.SIGKILL):
            for child in children:
                with suppress(ProcessLookupError):
                    child.send_signal(number)
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.gather(*(child.wait() for child in children)), RELOAD_GRACE_SECONDS)
                return


def ended(code: int) -> str:
    """How a process ended, from its return code."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
