"""One child process as its worker sees it: started, given runs, watched, ended.

Nothing here waits: the end of a child is looked for a few times a second, because a killed process may take its time,
and the loop has other work.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from multiprocessing import spawn
from typing import Final, Protocol, cast

import msgspec

from holdfast.worker import tasks
from holdfast.worker.guard import Guard
from holdfast.worker.messages import (
    TO_WORKER,
    Begin,
    FailedSo,
    Frames,
    MessageTooLarge,
    OfRun,
    Ready,
    Succeeded,
    ToWorker,
    frame,
)
from holdfast.worker.targets import main_module
from holdfast.worker.wire import EXIT_WIRE_LOST

START_SECONDS: Final = 60.0
"""How long an interpreter may take to start; no code of the user's runs in that time."""
EXIT_SECONDS: Final = 2.0
"""How long a child whose wire has ended may take to end, before it is killed."""
KILL_SECONDS: Final = 5.0
"""How long a killed one may take. What sleeps in the kernel then is given up, and waited for by nobody."""
FIRST_LOOK_SECONDS: Final = 0.001
LONGEST_LOOK_SECONDS: Final = 0.05

# The first line on the wire is the worker's sys.path, because Holdfast itself may only be found by it.
PROGRAM: Final = (
    "import sys, json; wire = int(sys.argv[1]); "
    "sys.path[:] = json.loads(open(wire, 'rb', 0, closefd=False).readline()); "
    "from holdfast.worker.child import main; main(wire)"
)
HINTS: Final = {
    signal.SIGKILL: "perhaps out of memory",
    signal.SIGSEGV: "a crash in native code",
    signal.SIGBUS: "a crash in native code",
    signal.SIGILL: "a crash in native code",
    signal.SIGFPE: "a crash in native code",
    signal.SIGABRT: "native code gave up",
    signal.SIGXCPU: "its limit of processor time",
    signal.SIGXFSZ: "its limit of file size",
}


class Occupant(Protocol):
    """The run that a child is busy with."""

    number: int

    def begin(self, child: "ChildProcess") -> None: ...

    def take(self, message: OfRun) -> None: ...

    def lose(self, message: str) -> None:
        """The child is gone, and why."""
        ...


class Owner(Protocol):
    """Who is told what becomes of a child."""

    def on_ready(self, child: "ChildProcess") -> None: ...

    def on_idle(self, child: "ChildProcess") -> None: ...

    def on_leaving(self, child: "ChildProcess") -> None:
        """It takes no more runs."""
        ...

    def on_gone(self, child: "ChildProcess", message: str) -> None: ...


class ChildProcess(asyncio.Protocol):
    def __init__(self, owner: Owner, guard: Guard) -> None:
        self._owner = owner
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        self._process: subprocess.Popen[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self._frames = Frames()
        self._occupant: Occupant | None = None
        self._burial: asyncio.Task[None] | None = None
        self._start: asyncio.Task[object] | None = None
        self._start_timer: asyncio.TimerHandle | None = None
        self._gone = asyncio.Event()
        self._reason: str | None = None
        """Why it was killed, where the worker did that."""
        self.has_run = False

    @property
    def process_id(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                self._process = _start_process(ours, theirs)
        except OSError as error:
            self._end(f"{type(error).__name__}: {error}")
            return
        self._guard.add(self._process.pid)
        self._start_timer = self._loop.call_later(START_SECONDS, self._end, "it took too long to start")
        self._start = tasks.start(self._loop.create_unix_connection(lambda: self, sock=ours))

    # runs

    def run(self, occupant: Occupant) -> None:
        self.has_run = True
        self._occupant = occupant
        occupant.begin(self)

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def kill(self) -> None:
        self._end("ended by the worker")

    def dismiss(self) -> None:
        """No more runs; one that is under way is killed."""
        if self._occupant is not None or self._transport is None:
            self.kill()
        else:
            self._transport.abort()

    async def wait_ended(self) -> None:
        await self._gone.wait()

    def check(self) -> None:
        if self._process is not None and self._burial is None and _has_exited(self._process):
            self._bury()

    # the wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.send(frame(Begin(list(sys.argv), main_module())))

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._frames.feed(data):
                self._take(TO_WORKER.decode(body))
        except (msgspec.MsgspecError, MessageTooLarge) as error:
            self._end(f"what it said could not be read: {error}")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._bury()

    def _take(self, message: ToWorker) -> None:
        if isinstance(message, Ready):
            if self._start_timer is not None:
                self._start_timer.cancel()
            self._owner.on_ready(self)
            return
        occupant = self._occupant
        if occupant is None or message.number != occupant.number:
            return
        if not isinstance(message, Succeeded | FailedSo):
            occupant.take(message)
            return
        self._occupant = None
        occupant.take(message)
        if message.is_reusable:
            self._owner.on_idle(self)
        else:
            self.dismiss()

    # the end

    def _end(self, reason: str) -> None:
        """Kill it, with everything in its process group."""
        if self._reason is None:
            self._reason = reason
        if self._process is not None and self._process.returncode is None:
            _kill_group(self._process.pid)
        self._bury()

    def _bury(self) -> None:
        if self._burial is None:
            self._owner.on_leaving(self)
            self._burial = tasks.start(self._see_to_the_end())

    async def _see_to_the_end(self) -> None:
        if self._start_timer is not None:
            self._start_timer.cancel()
        message = self._reason or "it was not started"
        if self._process is not None:
            message = await self._see_process_end(self._process)
        if self._transport is not None:
            self._transport.abort()
        occupant, self._occupant = self._occupant, None
        if occupant is not None:
            occupant.lose(message)
        self._gone.set()
        self._owner.on_gone(self, message)

    async def _see_process_end(self, process: subprocess.Popen[bytes]) -> str:
        if self._reason is None and not await self._exits_within(process, EXIT_SECONDS):
            self._reason = "it closed its connection to the worker"
        # Also after an end of its own: what the handler started is still there. The dead leader is not yet waited for,
        # so that the number is still the group's.
        _kill_group(process.pid)
        has_exited = await self._exits_within(process, KILL_SECONDS)
        self._guard.remove(process.pid)
        message = self._reason or _in_words(process.poll())
        if has_exited:
            process.wait()
            return message
        return f"{message} (and does not end, although it was killed)"

    async def _exits_within(self, process: subprocess.Popen[bytes], seconds: float) -> bool:
        deadline = self._loop.time() + seconds
        pause = FIRST_LOOK_SECONDS
        while not _has_exited(process):
            if self._loop.time() >= deadline:
                return False
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_LOOK_SECONDS)
        return True


def _start_process(ours: socket.socket, theirs: socket.socket) -> subprocess.Popen[bytes]:
    try:
        ours.sendall(json.dumps(sys.path).encode("ascii") + b"\n")
        return subprocess.Popen(
            [spawn.get_executable(), *_interpreter_flags(), "-c", PROGRAM, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    except BaseException:
        ours.close()
        raise


def _has_exited(process: subprocess.Popen[bytes]) -> bool:
    """Without waiting for it in the system's sense, where that can be had: its number stays its own."""
    if process.returncode is not None:
        return True
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True  # somebody else waited for it


def _kill_group(group: int) -> None:
    # Nobody is left in it; of a group of dead processes some systems say the second.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _in_words(return_code: int | None) -> str:
    if return_code is None:
        return "nobody knows how"
    if return_code == EXIT_WIRE_LOST:
        return "the handler closed the connection to its worker"
    if return_code >= 0:
        return f"exited with code {return_code} (os._exit or sys.exit)"
    try:
        number = signal.Signals(-return_code)
    except ValueError:
        return f"killed by signal {-return_code}"
    hint = HINTS.get(number)
    return f"killed by {number.name}" + (f", {hint}" if hint is not None else "")


def _interpreter_flags() -> list[str]:
    """As multiprocessing does it: -O, -W, -X and their like hold in children, too."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001
    return flags
