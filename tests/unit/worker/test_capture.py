"""What a handler logs and prints is kept with its attempt; cites CAPTURE-1 to CAPTURE-6."""

import asyncio
import contextlib
import contextvars
import functools
import io
import json
import logging
import logging.config
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import UsageError
from holdfast.worker import capture as module
from holdfast.worker.capture import LOG_LIMIT_BYTES, Capture, install, uninstall
from holdfast.worker.log_lines import MIN_LOG_LIMIT_BYTES

LOG = logging.getLogger("tests.capture")


class Unprintable:
    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


@pytest.fixture
def capture() -> Capture:
    return Capture()


@contextlib.contextmanager
def active(capture: Capture) -> Iterator[None]:
    # Installed here and not by a fixture: pytest puts its own streams in place again before each test.
    install()
    token = capture.activate()
    try:
        yield
    finally:
        capture.deactivate(token)
        uninstall()


def captured(test: Callable[..., None]) -> Callable[..., None]:
    """The test's body is the handler."""

    @functools.wraps(test)
    def run(capture: Capture, **rest: Any) -> None:
        with active(capture):
            test(capture=capture, **rest)

    return run


def lines(capture: Capture) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capture.data().splitlines()]


def messages(capture: Capture) -> list[str]:
    return [line["message"] for line in lines(capture)]


@contextlib.contextmanager
def kept_from_the_report() -> Iterator[None]:
    """Lone surrogates in a test's report cannot be sent between pytest's processes."""
    handler = logging.NullHandler()
    LOG.addHandler(handler)
    LOG.propagate = False
    try:
        yield
    finally:
        LOG.propagate = True
        LOG.removeHandler(handler)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


@captured
def test_a_line_says_when_how_grave_where_from_and_what(capture: Capture) -> None:
    LOG.warning("disk %s is full", "sda")
    sys.stdout.write("to the terminal\n")
    sys.stderr.write("to the other one\n")
    logged, printed, complained = lines(capture)
    assert list(logged) == ["ts_ms", "level", "stream", "logger", "message"]
    assert isinstance(logged.pop("ts_ms"), int)
    assert logged == {"level": "WARNING", "stream": "log", "logger": "tests.capture", "message": "disk sda is full"}
    assert (printed["stream"], printed["message"]) == ("stdout", "to the terminal")
    assert (complained["stream"], complained["message"]) == ("stderr", "to the other one")


def test_outside_attempts_nothing_is_kept_and_everything_goes_where_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    capture = Capture()
    install()
    say("before")
    with active(capture):
        say("during")
    say("after")
    uninstall()
    assert messages(capture) == ["during"]
    assert capsys.readouterr().out == "before\nduring\nafter\n"


def test_an_attempt_that_says_nothing_is_empty_and_a_line_is_news() -> None:
    capture = Capture()
    assert capture.is_empty
    assert capture.data() == b""
    with active(capture):
        say("one")
        first = capture.version
        say("two")
    assert (capture.is_empty, capture.version > first > 0) == (False, True)


def test_neighbours_on_one_loop_never_mix() -> None:
    async def handler(name: str) -> Capture:
        capture = Capture()
        with active(capture):
            for turn in range(20):
                say(f"{name} {turn}")
                await asyncio.sleep(0)
                LOG.error("%s %s", name, turn)
                await asyncio.to_thread(say, f"{name} {turn}")
        return capture

    async def both() -> tuple[Capture, Capture]:
        return await asyncio.gather(handler("a"), handler("b"))

    for name, capture in zip("ab", asyncio.run(both()), strict=True):
        assert messages(capture) == [f"{name} {turn}" for turn in range(20) for _ in range(3)]


@captured
def test_a_function_in_a_thread_speaks_for_the_context_it_was_given(capture: Capture) -> None:
    context = contextvars.copy_context()
    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(say, "a stranger's").result()
        pool.submit(context.run, say, "ours").result()
    assert messages(capture) == ["ours"]


def test_many_threads_of_one_attempt_lose_no_line() -> None:
    capture = Capture(limit_bytes=10_000_000)
    start = threading.Barrier(8)

    def work(name: int) -> None:
        start.wait()
        for turn in range(500):
            LOG.error("%s %s", name, turn)

    with active(capture):
        threads = [threading.Thread(target=contextvars.copy_context().run, args=(work, name)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(messages(capture)) == sorted(f"{name} {turn}" for name in range(8) for turn in range(500))


@captured
def test_print_in_several_writes_is_one_line_and_several_lines_in_one_write_are_several(capture: Capture) -> None:
    print("a", 1, sep="-")  # noqa: T201
    sys.stdout.writelines(["b\nc\n", "d"])
    assert messages(capture) == ["a-1", "b", "c", "d"]
    sys.stdout.write("e\n")
    assert messages(capture) == ["a-1", "b", "c", "de"]


@captured
def test_a_progress_bar_is_what_the_terminal_would_show(capture: Capture) -> None:
    for percent in range(0, 101, 10):
        sys.stderr.write(f"\r{percent} %")
    sys.stderr.write("\n")
    for percent in range(0, 101, 10):
        sys.stderr.write(f"{percent} %\r")
    assert messages(capture) == ["100 %", "100 %"]


@captured
def test_a_carriage_return_at_the_end_of_a_line_is_part_of_its_end(capture: Capture) -> None:
    sys.stdout.write("dos\r\n")
    assert messages(capture) == ["dos"]


@captured
def test_what_is_not_utf_8_is_kept_readable(capture: Capture) -> None:
    say("half \ud83d an emoji")
    with kept_from_the_report():
        LOG.error("%s", "\udcff")
    assert messages(capture) == ["half \\ud83d an emoji", "\\udcff"]


def test_a_terminal_that_cannot_show_a_text_shows_its_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    capture = Capture()
    with terminal_of_its_own(monkeypatch, terminal), active(capture):
        say("größer")
        sys.stdout.flush()
    assert messages(capture) == ["größer"]
    assert terminal.buffer.getvalue() == b"gr\\xf6\\xdfer\n"


def test_bytes_for_the_buffer_pass_through(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    capture = Capture()
    with terminal_of_its_own(monkeypatch, terminal), active(capture):
        sys.stdout.buffer.write(b"\x00raw")
    assert terminal.buffer.getvalue() == b"\x00raw"
    assert capture.is_empty


@captured
def test_a_wrong_argument_is_the_callers_error_as_without_capture(capture: Capture) -> None:
    with pytest.raises(TypeError, match="must be str, not bytes"):
        sys.stdout.write(b"bytes")  # type: ignore[arg-type]


@captured
def test_an_exception_is_kept_with_its_trace(capture: Capture) -> None:
    try:
        raise LookupError("the key")
    except LookupError:
        LOG.exception("not found")
    assert messages(capture)[0].startswith("not found\nTraceback (most recent call last):\n")
    assert messages(capture)[0].endswith("LookupError: the key")


@captured
def test_exception_outside_an_except_block_is_a_plain_line(capture: Capture) -> None:
    LOG.error("nothing was raised", exc_info=True)  # noqa: LOG014 - that is the case
    assert messages(capture) == ["nothing was raised"]


@pytest.mark.parametrize("argument", ["no number", Unprintable()])
@captured
def test_a_record_that_does_not_format_fails_nobody(capture: Capture, argument: object) -> None:
    logging.raiseExceptions = False
    try:
        LOG.error("%d of them", argument)
    finally:
        logging.raiseExceptions = True
    assert len(lines(capture)) == 1


@captured
def test_the_jobs_own_log_begins_at_info_whatever_the_root_logger_says(capture: Capture) -> None:
    job_log = logging.getLogger("holdfast.job")
    job_log.info("half way")
    job_log.debug("too fine")
    assert messages(capture) == ["half way"]


@captured
def test_loggers_that_do_not_propagate_are_heard(capture: Capture) -> None:
    logger = logging.getLogger("tests.capture.alone")
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    logger.error("alone")
    assert messages(capture) == ["alone"]


@captured
def test_setting_logging_up_while_a_job_runs_takes_nothing_away(capture: Capture) -> None:
    root = logging.getLogger()
    handlers = list(root.handlers)
    try:
        logging.config.dictConfig({"version": 1, "disable_existing_loggers": False, "root": {"handlers": []}})
        LOG.error("still here")
    finally:
        root.handlers[:] = handlers
    assert messages(capture) == ["still here"]


@captured
def test_what_a_log_handler_prints_is_no_news(capture: Capture) -> None:
    handler = logging.StreamHandler(sys.stderr)  # over our own proxy, as basicConfig within a job would make it
    LOG.addHandler(handler)
    try:
        LOG.error("once")
    finally:
        LOG.removeHandler(handler)
    assert messages(capture) == ["once"]


@pytest.mark.parametrize("way", ["close", "with", "detach"])
def test_a_handler_that_closes_stdout_closes_nothing(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    terminal = io.StringIO()
    capture = Capture()
    with terminal_of_its_own(monkeypatch, terminal), active(capture):
        if way == "close":
            sys.stdout.close()
        elif way == "with":
            with sys.stdout:
                pass
        else:
            with contextlib.suppress(io.UnsupportedOperation):
                sys.stdout.detach()  # type: ignore[union-attr]
        say("alive")
        assert terminal.getvalue() == "alive\n"
    assert messages(capture) == ["alive"]


def test_a_terminal_that_is_gone_fails_no_handler_and_loses_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    terminal.close()
    capture = Capture()
    with terminal_of_its_own(monkeypatch, terminal):
        with active(capture):
            say("into the void")
            sys.stdout.flush()
        with pytest.raises(ValueError, match="closed"):
            say("as without us")
    assert messages(capture) == ["into the void"]


def test_without_echo_prints_are_only_kept_and_logs_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    terminal = io.StringIO()
    capture = Capture(echo=False)
    with terminal_of_its_own(monkeypatch, terminal), active(capture):
        say("quiet")
        LOG.error("heard")
    assert terminal.getvalue() == ""
    assert caplog.messages == ["heard"]
    assert messages(capture) == ["quiet", "heard"]


def test_a_process_without_standard_streams_can_print(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = Capture()
    with terminal_of_its_own(monkeypatch, None):
        with active(capture):
            print("kept", flush=True)  # noqa: T201
        print("as without us", flush=True)  # noqa: T201
        assert not sys.stdout.isatty()
    assert messages(capture) == ["kept"]


@contextlib.contextmanager
def terminal_of_its_own(monkeypatch: pytest.MonkeyPatch, terminal: Any) -> Iterator[None]:
    """stdout is ``terminal``, and met."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        install()
        yield
        uninstall()
        assert sys.stdout is terminal


def test_only_as_many_uninstalls_as_installs_undo_it() -> None:
    real, call_handlers = sys.stdout, logging.Logger.callHandlers
    install()
    proxy = sys.stdout
    assert proxy is not real
    install()
    uninstall()
    assert sys.stdout is proxy
    uninstall()
    assert sys.stdout is real
    assert logging.Logger.callHandlers is call_handlers
    uninstall()  # one too many is harmless
    with active(Capture()):
        assert sys.stdout is not real


def test_a_library_that_wraps_logging_after_us_survives_uninstall_and_install_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install()
    below = logging.Logger.callHandlers
    seen: list[str] = []

    def wrapped(logger: logging.Logger, record: logging.LogRecord) -> None:
        seen.append(record.getMessage())
        below(logger, record)

    capture = Capture()
    with monkeypatch.context() as patch:
        patch.setattr(logging.Logger, "callHandlers", wrapped)
        uninstall()
        with active(capture):
            LOG.error("once")
    install()
    uninstall()
    assert logging.Logger.callHandlers is not below
    assert seen == ["once"]
    assert messages(capture) == ["once"]


@captured
def test_a_forked_child_prints_while_others_hold_the_lock(capture: Capture) -> None:
    with module._lock, ThreadPoolExecutor(max_workers=1) as pool:
        child = pool.submit(contextvars.copy_context().run, _fork_and_print).result()
    assert os.waitpid(child, 0)[1] == 0


def _fork_and_print() -> int:
    child = os.fork()
    if child == 0:
        # The lock is held by a thread that does not exist here. Whoever hangs is ended by the alarm.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        code = 1
        try:
            say("from the child")
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return child


def test_in_a_fresh_process_warnings_still_reach_stderr_once_and_basic_config_still_works() -> None:
    program = """
import logging, sys
from holdfast.worker.capture import Capture, install
install()
capture = Capture()
token = capture.activate()
logging.getLogger("a").warning("the last resort")
capture.deactivate(token)
logging.basicConfig(format="configured %(message)s")
logging.getLogger("a").warning("as asked")
sys.stdout.write(capture.data().decode())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == ["the last resort", "configured as asked"]
    assert [json.loads(line)["message"] for line in done.stdout.splitlines()] == ["the last resort"]


def test_a_long_log_keeps_its_beginning_and_its_end_and_says_what_is_missing() -> None:
    capture = Capture()
    for number in range(100_000):
        capture.write("stdout", f"line {number}\n")
    kept = messages(capture)
    assert len(capture.data()) <= LOG_LIMIT_BYTES
    assert kept[0] == "line 0"
    assert kept[-1] == "line 99999"
    (gap,) = [message for message in kept if "left out" in message]
    assert int(gap.split()[1]) + len(kept) - 1 == 100_000
    before = kept.index(gap)
    assert kept[:before] == [f"line {number}" for number in range(before)]


@captured
def test_a_giant_line_keeps_both_its_ends(capture: Capture) -> None:
    LOG.error("begin%send", "x" * 1_000_000)
    (message,) = messages(capture)
    assert message.startswith("beginx")
    assert message.endswith("xend")
    assert "characters left out" in message


def test_text_without_any_end_of_line_is_bounded_too() -> None:
    capture = Capture()
    for _ in range(10_000):
        capture.write("stdout", "." * 100)
    assert len(capture.data()) <= LOG_LIMIT_BYTES
    assert sum(map(len, (capture._partials or {}).values())) <= LOG_LIMIT_BYTES


@given(texts=st.lists(st.text(st.characters(codec=None), max_size=3000), max_size=30))
def test_whatever_is_written_the_log_is_json_lines_within_its_bound(texts: list[str]) -> None:
    capture = Capture(limit_bytes=MIN_LOG_LIMIT_BYTES)
    for text in texts:
        capture.write("stdout", text)
        record = logging.LogRecord(text[:500], 30, text, 1, text, None, None)
        record.levelname = text
        capture.add(module._record_line(record))
        data = capture.data()
        assert len(data) <= MIN_LOG_LIMIT_BYTES
        assert all(isinstance(json.loads(line), dict) for line in data.split(b"\n")[:-1])


def test_a_log_too_small_to_say_anything_is_refused() -> None:
    with pytest.raises(UsageError, match="give at least 4096"):
        Capture(limit_bytes=100)


def test_the_log_of_a_child_process_stands_after_what_was_said_here() -> None:
    capture = Capture()
    capture.note("sent to a child")
    child = Capture()
    child.write("stdout", "from the child\n")
    before = capture.version
    capture.adopt(child.data())
    assert capture.version > before
    child.write("stdout", "and more\n")
    capture.adopt(child.data())
    assert messages(capture) == ["sent to a child", "from the child", "and more"]
