"""What the tests of child processes run there.

A handler is found by its module and name, so these stand at the top of a module that a child can import.
"""

import asyncio
import ctypes
import io
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from holdfast.core.commands import NewJob
from holdfast.core.dependencies import Dependency, DependencyKind
from holdfast.core.failures import Category, PermanentError, TemporaryError
from holdfast.core.job import Timeouts
from holdfast.core.payload import Payload
from holdfast.core.priority import Priority
from holdfast.core.retry import Jitter, Retry, Strategy
from holdfast.worker.context import Context
from holdfast.worker.handler import Registry
from tests.unit.worker.bench import IsolatedJob, isolated


@isolated()
def double(number: int) -> int:
    return 2 * number


@isolated()
async def double_later(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


@isolated()
def process_id() -> int:
    return os.getpid()


@isolated()
def everything_about(ctx: Context) -> dict[str, Any]:
    return {
        "job_id": ctx.job_id,
        "type": ctx.type,
        "queue": ctx.queue,
        "attempt": ctx.attempt,
        "max_attempts": ctx.max_attempts,
        "attempt_id": ctx.attempt_id,
        "previous_attempt_id": ctx.previous_attempt_id,
        "correlation_id": ctx.correlation_id,
        "tags": dict(ctx.tags),
        "checkpoint": ctx.last_checkpoint,
        "results": ctx.results,
        "states": [one.state for one in ctx.upstream],
    }


@isolated()
def surroundings() -> dict[str, Any]:
    return {
        "directory": str(Path.cwd()),
        "path": sys.path,
        "argv": sys.argv,
        "stdin": sys.stdin.read(),
        "is_leader": os.getpgrp() == os.getpid() == os.getsid(0),
    }


class Unpicklable(Exception):
    def __init__(self, message: str, *, needed: Any) -> None:
        super().__init__(message)
        self.held = threading.Lock()

    def __reduce__(self) -> Any:
        raise TypeError("never")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@isolated()
def raise_unpicklable() -> None:
    raise Unpicklable("cannot be pickled", needed=1)


@isolated()
def raise_unspeakable() -> None:
    raise Unspeakable


@isolated()
def raise_unwritable() -> None:
    raise RuntimeError("half a pair \ud800 and a \0")


@isolated()
def raise_temporary() -> None:
    raise TemporaryError("come back", retry_after=12.5)


@isolated()
def raise_permanent() -> None:
    raise PermanentError("never", code="gone")


@isolated(permanent=(LookupError,))
def raise_key_error() -> None:
    raise KeyError("no such customer")


@isolated()
def call_sys_exit(code: int) -> None:
    sys.exit(code)


@isolated()
async def call_sys_exit_in_a_coroutine() -> None:
    sys.exit(3)


@isolated()
def call_os_exit(code: int) -> None:
    os._exit(code)


@isolated()
def crash() -> None:
    ctypes.string_at(0)


@isolated(result_limit_bytes=100)
def return_text(length: int) -> str:
    return "x" * length


@isolated()
def return_a_lock() -> Any:
    return threading.Lock()


@isolated()
def fill_memory(limit_bytes: int) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + limit_bytes, hard))
    chain: Any = None
    # To the last byte: a failure must still be told. (From Python 3.13 on the interpreter itself may crash there.)
    sizes_bytes = (1024 * 1024, 1024, 1) if sys.version_info < (3, 13) else (1024 * 1024,)
    for size_bytes in sizes_bytes:
        try:
            while True:
                chain = (chain, bytearray(size_bytes))
        except MemoryError:
            if size_bytes == sizes_bytes[-1]:
                raise


@isolated()
def loop_for_ever(ctx: Context) -> None:
    ctx.progress(1)
    while True:
        pass


@isolated()
def hold_the_interpreter(ctx: Context) -> None:
    """No other thread of the process gets to run any more, and a program that it started goes on."""
    ctx.checkpoint_sync([os.getpid(), subprocess.Popen(["sleep", "600"]).pid])
    ctypes.PyDLL(None).sleep(600)


@isolated()
def start_a_program(ctx: Context) -> None:
    program = subprocess.Popen(["sleep", "600"])
    ctx.checkpoint_sync([os.getpid(), program.pid])
    program.wait()


@isolated()
def start_a_program_and_crash(ctx: Context) -> None:
    ctx.checkpoint_sync([os.getpid(), subprocess.Popen(["sleep", "600"]).pid])
    ctypes.string_at(0)


@isolated()
def leave_a_program_behind() -> int:
    return subprocess.Popen(["sleep", "600"]).pid


@isolated()
def fork_and_return(how: str) -> str:
    """Both the original and the copy come to the end; only one may answer."""
    copy = os.fork()
    if copy == 0:
        if how == "raise":
            raise RuntimeError("from the copy")
        if how == "exit":
            sys.exit(9)
        return "from the copy"
    _, status = os.waitpid(copy, 0)
    return f"from the original: {os.waitstatus_to_exitcode(status)}"


@isolated()
def fork_and_speak(ctx: Context) -> str:
    copy = os.fork()
    if copy == 0:
        ctx.progress(99, "from the copy")
        try:
            ctx.checkpoint_sync("from the copy")
        except Exception:
            os._exit(7)
        os._exit(0)
    _, status = os.waitpid(copy, 0)
    return str(os.waitstatus_to_exitcode(status))


@isolated()
def fork_and_die() -> None:
    """The copy lives on, with copies of all descriptors, when the original is gone."""
    if os.fork() == 0:
        time.sleep(600)
    os._exit(5)


@isolated()
def terminate_a_fork() -> int:
    copy = os.fork()
    if copy == 0:
        time.sleep(600)
    os.kill(copy, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])


@isolated()
def close_standard_descriptors() -> str:
    for number in range(3):
        os.close(number)
    return "closed"


@isolated()
def close_standard_streams() -> str:
    sys.stdout.close()
    sys.stderr.close()
    sys.stdin.close()
    return "closed"


@isolated()
def close_all_descriptors() -> str:
    os.closerange(0, 4096)
    # Sockets of its own take the numbers that were closed, the wire's too.
    KEPT.extend(socket.socketpair() for _ in range(400))
    return "closed"


KEPT: list[Any] = []


@isolated()
def leave_a_thread_that_reports(ctx: Context) -> None:
    def report() -> None:
        while True:
            ctx.progress(66, "from before")
            time.sleep(0.001)

    threading.Thread(target=report, daemon=True).start()


@isolated()
def change_directory(path: str) -> int:
    os.chdir(path)
    return os.getpid()


@isolated()
def leave_an_alarm() -> int:
    signal.alarm(600)
    return os.getpid()


@isolated()
def redirect_stdout() -> int:
    sys.stdout = io.StringIO()
    return os.getpid()


@isolated()
def lower_a_limit() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    return os.getpid()


@isolated()
def print_lines(count: int) -> None:
    for number in range(count):
        print(f"line {number}")  # noqa: T201


@isolated()
def print_and_wait(ctx: Context) -> None:
    print("before the end")  # noqa: T201
    while not ctx.cancelled:
        time.sleep(0.01)


@isolated()
def log_a_line(ctx: Context) -> None:
    ctx.log.info("logged %s", "so")


@isolated()
def report_often(ctx: Context, count: int) -> None:
    for number in range(count):
        ctx.progress(100 * (number + 1) / count, f"{number + 1} of {count}")


@isolated()
def report_half_a_pair(ctx: Context) -> None:
    ctx.progress(50, "\ud800")


@isolated()
def check_in(ctx: Context, value: Any) -> Any:
    ctx.checkpoint_sync(value)
    return ctx.last_checkpoint


@isolated()
async def check_in_later(ctx: Context, value: Any) -> Any:
    await ctx.checkpoint(value)
    return ctx.last_checkpoint


@isolated()
def wait_for_cancel(ctx: Context) -> str:
    ctx.progress(1, "waiting")
    while not ctx.cancelled:
        time.sleep(0.01)
    return "stopped"


@isolated()
def meet(directory: str, name: str, other: str) -> int:
    """Returns when the other one runs at the same time."""
    Path(directory, name).touch()
    while not Path(directory, other).exists():
        time.sleep(0.01)
    return os.getpid()


LOOPS: list[Any] = []


@isolated()
async def remember_the_loop() -> bool:
    """Whether it is the loop of the run before."""
    LOOPS.append(asyncio.get_running_loop())
    return LOOPS[0] is LOOPS[-1] and len(LOOPS) > 1


class Spawned:
    def __init__(self, job: Any) -> None:
        self._job = job

    def new_job(self) -> Any:
        return self._job


FULL = NewJob(
    id=UUID("12345678-1234-4678-9234-567812345678"),
    type="resize",
    queue="media",
    payload=Payload.of_bytes(b"\x00\xff"),
    priority=Priority.HIGH,
    delay_seconds=1.5,
    run_at=datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    timeouts=Timeouts(execution=1.0, visibility=2.0, lifetime=3.0),
    retry=Retry(
        max_attempts=7,
        strategy=Strategy.LINEAR,
        initial_delay=0.25,
        max_delay=8.0,
        multiplier=3.0,
        jitter=Jitter.FULL,
        on=frozenset({Category.TIMEOUT}),
    ),
    key="order-7",
    key_window_seconds=60.0,
    dependencies=(Dependency(UUID(int=1), DependencyKind.AFTER_ANY), Dependency(UUID(int=2))),
    tags={"customer": "zoë"},
    correlation_id="trace-1",
    callback_url="https://example.org/done",
)
PLAIN = NewJob(id=UUID(int=3), type="plain")
CUSTOM = NewJob(id=UUID(int=4), type="custom", retry=Retry(strategy=Strategy.CUSTOM, custom=lambda *_: 1.0))


@isolated()
def spawn_children(ctx: Context) -> str:
    for job in (FULL, PLAIN, CUSTOM):
        ctx.spawn(Spawned(job))
    return "spawned"


@isolated()
def spawn_and_fail(ctx: Context) -> None:
    ctx.spawn(Spawned(PLAIN))
    raise RuntimeError("too late")


@isolated()
def spawn_nonsense(ctx: Context) -> None:
    ctx.spawn(Spawned(NewJob(id=UUID(int=5), type="x", tags={"n": object()})))  # type: ignore[dict-item]


# a handler that has another name in its module, and one that only the app knows


def _hidden(number: int) -> int:
    return number + 1


other_name = IsolatedJob(_hidden, name="other")


class App:
    def __init__(self) -> None:
        self.registry = Registry()


def _registered(number: int) -> int:
    return number + 2


app = App()
app.registry.add(IsolatedJob(_registered, name="registered").handler)
