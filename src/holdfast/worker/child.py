"""The child process: runs handlers, one job at a time, and tells its worker how each ended.

Three threads: the main one runs the handlers, so that signals and event loops work in them as in any program; one reads
the wire; one sends progress and log lines, the newest at most ten times a second. The worker's side is ``processes``;
the numbered invariants are in this folder's README.
"""

import asyncio
import contextvars
import ctypes
import faulthandler
import os
import resource
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, NoReturn

from holdfast.core.failures import Category, Failure, TemporaryError
from holdfast.core.payload import Payload
from holdfast.worker import capture as capturing
from holdfast.worker import messages
from holdfast.worker.capture import Capture
from holdfast.worker.context import Context
from holdfast.worker.handler import Handler
from holdfast.worker.messages import (
    Begin,
    CancelRequested,
    CheckpointAnswer,
    FailedSo,
    FailureData,
    Load,
    MainModule,
    Ready,
    Run,
    Succeeded,
)
from holdfast.worker.outcomes import failure_of, require_storable, text_of
from holdfast.worker.targets import find
from holdfast.worker.threads import leave_forked_copy
from holdfast.worker.wire import EXIT_WIRE_LOST, Wire, WireChannel, identity

PROGRESS_SECONDS: Final = 0.1
LOG_SECONDS: Final = 1.0
EXIT_SECONDS: Final = 5.0
"""How long a child without work may take to end when its worker is gone: what it does ``atexit`` is the user's."""
RESERVE_BYTES: Final = 4 * 1024 * 1024
"""Address space, not memory: given back when a handler has used up all there is, for the telling of it."""
PR_SET_PDEATHSIG: Final = 1
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
LIMITS: Final = (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE)


def main(descriptor: int) -> None:
    """Serve the worker at the other end of this descriptor until it goes."""
    _die_with_worker()
    _ignore_signals()
    with suppress(ValueError, OSError, AttributeError):
        faulthandler.enable(all_threads=False)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    capturing.install()
    Child(Wire(descriptor)).serve()


class Child:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._process_id = os.getpid()
        self._inbox: SimpleQueue[Begin | Load | Run | None] = SimpleQueue()
        self._news = threading.Event()
        self._channel: WireChannel | None = None
        self._cancelled_number: int | None = None
        self._received_runs = 0
        self._ended_runs = 0
        self._main = MainModule()
        self._handlers: dict[messages.Target, Handler] = {}
        self._runner: asyncio.Runner | None = None
        self._reserve: bytearray | None = None

    def serve(self) -> None:
        threading.Thread(target=self._read, name="holdfast-wire", daemon=True).start()
        threading.Thread(target=self._report, name="holdfast-report", daemon=True).start()
        surroundings = _surroundings()
        while (message := self._inbox.get()) is not None:
            match message:
                case Begin():
                    sys.argv[:] = message.argv
                    self._main = message.main
                    self._wire.send(Ready())
                case Load():
                    # Its errors are told by the first job that needs it.
                    with suppress(BaseException):
                        self._find(message.target)
                case Run():
                    answer = self._run(message)
                    answer.is_reusable = _surroundings() == surroundings
                    self._answer(answer)

    # the wire

    def _answer(self, answer: Succeeded | FailedSo) -> None:
        try:
            self._wire.send(answer)
        except messages.MessageTooLarge as error:
            failure = failure_of(error, permanent=(messages.MessageTooLarge,))
            self._wire.send(FailedSo(answer.number, FailureData.of(failure), None, answer.is_reusable))
        self._ended_runs += 1

    def _read(self) -> None:
        frames = messages.Frames()
        try:
            while data := self._wire.receive():
                for body in frames.feed(data):
                    self._take(messages.TO_CHILD.decode(body))
        finally:
            self._end()

    def _take(self, message: messages.ToChild) -> None:
        channel = self._channel
        match message:
            case CancelRequested():
                self._cancelled_number = message.number
                if channel is not None and channel.number == message.number:
                    channel.cancel_requested = True
            case CheckpointAnswer():
                if channel is not None and channel.number == message.number:
                    channel.take_answer(message)
            case Run():
                self._received_runs += 1
                self._inbox.put(message)
            case Begin() | Load():
                self._inbox.put(message)

    def _end(self) -> NoReturn:
        """The worker is gone, or wants this child no more."""
        if self._received_runs == self._ended_runs:
            self._inbox.put(None)
            time.sleep(EXIT_SECONDS)
            os._exit(0)
        # What the handler started goes with it.
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpid(), signal.SIGKILL)
        os._exit(EXIT_WIRE_LOST)

    def _report(self) -> None:
        while True:
            self._news.wait(None if self._channel is None else LOG_SECONDS)
            self._news.clear()
            channel = self._channel
            if channel is not None:
                channel.send_progress()
                channel.send_log()
            time.sleep(PROGRESS_SECONDS)

    # a run

    def _run(self, run: Run) -> Succeeded | FailedSo:
        capture = Capture(echo=run.is_echoed) if run.is_captured else None
        channel = WireChannel(self._wire, run.number, capture, self._news)
        self._channel = channel
        if self._cancelled_number == run.number:
            channel.cancel_requested = True
        self._news.set()
        if self._reserve is None:
            self._reserve = bytearray(RESERVE_BYTES)
        try:
            answer = contextvars.copy_context().run(self._attempt, run, channel, capture)
        except BaseException as error:
            self._reserve = None
            self._leave_if_forked(error)
            answer = _failed(run, error, self._handlers.get(run.target))
        self._leave_if_forked(None)
        channel.close()
        self._channel = None
        return answer

    def _leave_if_forked(self, error: BaseException | None) -> None:
        if os.getpid() != self._process_id:
            leave_forked_copy(error)

    def _attempt(self, run: Run, channel: WireChannel, capture: Capture | None) -> Succeeded | FailedSo:
        if capture is not None:
            capture.activate()
        try:
            handler = self._find(run.target)
        except BaseException as error:
            return _not_found(run, error)
        context = _context(run, channel)
        arguments = handler.signature.decode(Payload(run.job.payload, is_json=run.job.is_json))
        returned = handler.function(*((context,) if handler.signature.wants_context else ()), **arguments)
        value = self._await(returned) if handler.is_async else returned
        result = handler.signature.encode_result(value)
        require_storable(result, handler.result_limit_bytes)
        spawned = [messages.new_job_data(job) for job in context.spawned]
        return Succeeded(run.number, result, spawned, is_reusable=True)

    def _find(self, target: messages.Target) -> Handler:
        handler = self._handlers.get(target)
        if handler is None:
            handler = self._handlers[target] = find(target, self._main)
        return handler

    def _await(self, coroutine: Any) -> Any:
        # One loop for all runs, as on the worker: what a module keeps open (a client, a pool) belongs to a loop.
        if self._runner is None or self._runner.get_loop().is_closed():
            self._runner = asyncio.Runner()
        return self._runner.run(coroutine, context=contextvars.copy_context())


def _context(run: Run, channel: WireChannel) -> Context:
    job = run.job
    return Context(
        channel=channel,
        job_id=job.id,
        type=job.type,
        queue=job.queue,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        attempt_id=job.attempt_id,
        previous_attempt_id=job.previous_attempt_id,
        correlation_id=job.correlation_id,
        tags=job.tags,
        checkpoint=job.checkpoint,
        upstream=tuple(one.upstream_result() for one in run.upstream),
    )


def _failed(run: Run, error: BaseException, handler: Handler | None) -> FailedSo:
    if isinstance(error, MemoryError):
        # Its frames still hold what filled the memory.
        traceback.clear_frames(error.__traceback__)
    failure = failure_of(error, permanent=handler.permanent if handler is not None else ())
    retry_after = error.retry_after if isinstance(error, TemporaryError) else None
    return FailedSo(run.number, FailureData.of(failure), retry_after, is_reusable=True)


def _not_found(run: Run, error: BaseException) -> FailedSo:
    failure = Failure(
        category=Category.SYSTEM,
        message=f"the child process could not import {run.target.module}: {type(error).__name__}: {text_of(error)}",
        error_type=failure_of(error).error_type,
        code="handler_not_found",
        trace=failure_of(error).trace,
    )
    return FailedSo(run.number, FailureData.of(failure.bounded()), None, is_reusable=True)


def _surroundings() -> tuple[Any, ...]:
    """What the next handler counts on and a handler can change for the whole process."""
    try:
        directory = os.getcwd()  # noqa: PTH109 - as it is, not resolved
    except OSError:
        directory = None
    has_alarm = signal.getitimer(signal.ITIMER_REAL)[0] > 0
    descriptors = [identity(number) for number in range(3)]
    limits = [resource.getrlimit(limit) for limit in LIMITS]
    return directory, has_alarm, sys.stdout, sys.stderr, *descriptors, *limits


def _ignore_signals() -> None:
    """The worker decides when a child ends, also where a supervisor signals every process of a group."""
    for number in SIGNALS:
        signal.signal(number, _do_nothing)
    # What a handler forks is ended by them again: multiprocessing's terminate() is a SIGTERM. It may come before the
    # copy has run a line, so that the two wait until it knows what to do with them.
    masks = threading.local()

    def before() -> None:
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)

    def after_in_parent() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def after_in_child() -> None:
        if signal.getsignal(signal.SIGINT) is _do_nothing:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if signal.getsignal(signal.SIGTERM) is _do_nothing:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    os.register_at_fork(before=before, after_in_parent=after_in_parent, after_in_child=after_in_child)


def _do_nothing(*_: object) -> None:
    """Not SIG_IGN, which programs that a handler starts would inherit."""


def _die_with_worker() -> None:
    """Where the system can see to it, it does not even need this process to run Python."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
