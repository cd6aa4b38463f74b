"""Keeps worker processes running: replaces dead ones, passes signals on, starts all again when code changes.

Children have a process group of their own, so that Ctrl-C reaches them once, through here. What stops a whole control
group (systemd, containers) reaches them twice; so to a child SIGTERM means drain, however often it comes, and
``AT_ONCE`` means at once. Should this process be killed, a child sees that its parent has changed, and drains
(``child_of``).

A child says when it serves, by a byte on a pipe: so a process that cannot start is told from one that a job has killed,
whatever its exit code.

SUPERVISOR-1. A child that dies is replaced, and nobody but its place notices; where children die young, ever more
    slowly, up to ``LONGEST_BACKOFF_SECONDS``.
SUPERVISOR-2. All are given up only while none has ever served: when one says that its set-up is wrong (exit code 2), or
    when every place has failed ``MAX_FAILED_STARTS`` times in a row. Their messages stand above ours. With reload, a
    place whose child cannot start waits for a file to change. The exception: a child that served and says that its
    database is gone; another one would make an empty one in its place.
SUPERVISOR-3. The first signal lets children drain, the second stops them at once; what runs ``KILL_SECONDS`` later is
    killed.
"""

import asyncio
import os
import signal
import subprocess
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from holdfast.cli.changes import Changes
from holdfast.cli.children import AT_ONCE, HOPELESS, SERVING, ended, signal_all, start_child
from holdfast.cli.exits import Exit
from holdfast.core.limits import SHORT_GRACE_SECONDS

YOUNG_SECONDS: Final = 5.0
MAX_FAILED_STARTS: Final = 6
FIRST_BACKOFF_SECONDS: Final = 0.2
LONGEST_BACKOFF_SECONDS: Final = 5.0
"""Short enough for a service in which job after job kills its worker: good jobs run in between."""
KILL_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.5


@dataclass(slots=True)
class Child:
    process: Process
    sign: int
    """The pipe on which it says that it serves."""
    has_served: bool = False
    is_hopeless: bool = False

    def look(self) -> bool:
        """Whether it serves, or has served."""
        with suppress(BlockingIOError):
            words = os.read(self.sign, 64)
            self.has_served = self.has_served or SERVING in words
            self.is_hopeless = self.is_hopeless or HOPELESS in words
        return self.has_served


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
        self._children: dict[int, Child] = {}
        self._has_served = False
        """Any child, ever."""
        self._failed_starts: dict[int, int] = {}
        """In a row, by place."""
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
        """Drain; called again: at once, and before long by force (SUPERVISOR-3)."""
        self._stops += 1
        self._stopping.set()
        self._changed.set()
        self._signal(signal.SIGTERM if self._stops == 1 else AT_ONCE)
        if self._stops > 1:
            asyncio.get_running_loop().call_later(KILL_SECONDS, self._signal, signal.SIGKILL)

    @property
    def process_ids(self) -> list[int]:
        return [child.process.pid for child in self._children.values()]

    async def _keep(self, number: int) -> int:
        """One place: a process in it for as long as we run."""
        young_deaths = 0
        while not self._stopping.is_set():
            started_at = time.monotonic()
            self._changed.clear()
            code, child = await self._run_child(number)
            if self._stopping.is_set():
                # One that had ended its work, and with it its handling of signals, may meet the second one.
                return Exit.DONE if code in (Exit.DONE, Exit.INTERRUPTED, -signal.SIGTERM, -AT_ONCE) else Exit.NOT_DONE
            if self._changed.is_set():
                young_deaths = 0
                continue
            young_deaths = young_deaths + 1 if time.monotonic() - started_at < YOUNG_SECONDS else 0
            if child.has_served and child.is_hopeless and self._changes is None:
                self._give_up(Exit.WRONG)
            elif child.has_served:
                await self._back_off(number, code, young_deaths)
            else:
                await self._after_failed_start(number, code, young_deaths)
        return Exit.DONE

    async def _after_failed_start(self, number: int, code: int, young_deaths: int) -> None:
        failed = self._failed_starts[number] = self._failed_starts.get(number, 0) + 1
        is_hopeless = code == Exit.WRONG or failed >= MAX_FAILED_STARTS
        if is_hopeless and self._changes is not None:
            self._say(f"worker process {number} {ended(code)}; waiting for a file to change")
            await self._changed.wait()
            self._failed_starts.clear()
        elif code == Exit.WRONG and not self._has_any_served():
            self._give_up(Exit.WRONG)
        elif self._has_every_place_failed() and not self._has_any_served():
            self._say(f"worker process {number} {ended(code)} at its start, {failed} times in a row; giving up")
            self._give_up(Exit.NOT_DONE)
        else:
            await self._back_off(number, code, young_deaths)

    def _has_every_place_failed(self) -> bool:
        places = range(1, self._processes + 1)
        return all(self._failed_starts.get(number, 0) >= MAX_FAILED_STARTS for number in places)

    def _has_any_served(self) -> bool:
        self._has_served = self._has_served or any(child.look() for child in self._children.values())
        return self._has_served

    async def _back_off(self, number: int, code: int, young_deaths: int) -> None:
        delay = min(FIRST_BACKOFF_SECONDS * 2 ** max(0, young_deaths - 1), LONGEST_BACKOFF_SECONDS)
        self._say(f"worker process {number} {ended(code)}; starting another in {delay:.1f} s")
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), delay)

    def _give_up(self, code: int) -> None:
        self._code = code
        self.stop()

    async def _run_child(self, number: int) -> tuple[int, Child]:
        """Until it ends: its exit code, and what it has said."""
        sign, theirs = os.pipe()
        os.set_blocking(sign, False)
        try:
            child = Child(await self._start_process(number, theirs), sign)
        except BaseException:
            os.close(sign)
            raise
        finally:
            os.close(theirs)
        self._children[number] = child
        if self._stopping.is_set():
            self._signal(signal.SIGTERM)
        try:
            await self._pass_on(child.process)
            code = await child.process.wait()
            if child.look():
                self._has_served = True
                self._failed_starts.pop(number, None)
            return code, child
        finally:
            if child.process.returncode is None:
                child.process.kill()
            del self._children[number]
            os.close(sign)

    async def _start_process(self, number: int, sign: int) -> Process:
        is_heard = self._on_line is not None
        return await start_child(
            self._command,
            number=number,
            sign=sign,
            stdout=subprocess.PIPE if is_heard else None,
            stderr=subprocess.STDOUT if is_heard else None,
            environment=self._environment,
        )

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
        signal_all([child.process for child in self._children.values()], number)

    async def _watch(self) -> None:
        """Restart every child when a file has changed."""
        assert self._changes is not None
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            changed = await asyncio.to_thread(self._changes.changed)
            if changed:
                more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
                self._say(f"{changed[0].name}{more} changed; starting again")
                self._changed.set()
                await self._restart()

    async def _restart(self) -> None:
        children = [child.process for child in self._children.values()]
        for number in (signal.SIGTERM, AT_ONCE, signal.SIGKILL):
            signal_all(children, number)
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.gather(*(child.wait() for child in children)), SHORT_GRACE_SECONDS)
                return
