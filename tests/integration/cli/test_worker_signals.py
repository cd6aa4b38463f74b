"""``holdfast worker`` and what could make it deaf: a blocked loop, output that nobody reads, cancelled tasks."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.states import State
from tests.integration.cli.programs import (
    COMMAND,
    DONE,
    INTERRUPTED,
    LONG_SECONDS,
    NOT_DONE,
    Program,
    environment,
    eventually,
    run,
    run_json,
)
from tests.integration.cli.test_worker import job_of, start_sleeping, submit
from tests.servers.postgres import children_of

SHOP = """
import asyncio, ctypes, logging, os, subprocess, sys, threading, time
from pathlib import Path
from holdfast import Context, Holdfast

app = Holdfast()
C = ctypes.CDLL(None)


@app.job
async def greet(name: str = "") -> str:
    return f"Hello, {name}"


@app.job(queue="slow")
async def sleep(ctx: Context, seconds: float) -> int:
    ctx.progress(1, "asleep")
    await asyncio.sleep(seconds)
    return os.getpid()


@app.job(queue="slow")
async def block(in_native_code: bool = False) -> None:
    Path("blocked").touch()
    if in_native_code:
        # As a library does it that waits again when a signal interrupts it.
        for _ in range(3600):
            C.usleep(1_000_000)
    else:
        time.sleep(3600)


@app.job(queue="slow", isolation="process")
def child() -> None:
    Path("child").write_text(str(os.getpid()))
    time.sleep(3600)


@app.job
async def talk(lines: int) -> int:
    for number in range(lines):
        print("x" * 100, number)
        logging.getLogger("talk").warning("y" * 100)
    return lines


@app.job(queue="slow")
async def wait_for_a_file() -> None:
    Path("waiting").touch()
    while not Path("go").exists():
        await asyncio.sleep(0.01)


@app.job(queue="slow")
async def cancel_all() -> int:
    return sum(task.cancel() for task in asyncio.all_tasks() - {asyncio.current_task()})


@app.job(queue="slow")
async def cancel_all_from_a_thread() -> None:
    # Without a context: as nobody's.
    loop, tasks = asyncio.get_running_loop(), asyncio.all_tasks() - {asyncio.current_task()}

    def cancel() -> None:
        for task in tasks:
            loop.call_soon_threadsafe(task.cancel)

    threading.Thread(target=cancel).start()
    await asyncio.sleep(0.2)


@app.job(queue="slow")
async def leave() -> None:
    asyncio.get_running_loop().call_soon(sys.exit, 0)
    await asyncio.sleep(3600)


@app.job
async def shout(characters: int) -> None:
    print("z" * characters)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "shop.py").write_text(SHOP)
    return folder


@pytest.fixture(params=["asyncio", "uvloop"])
def loop_path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """For PYTHONPATH: where there is no uvloop, asyncio's own loop runs."""
    folder = tmp_path / "modules"
    folder.mkdir()
    if request.param == "asyncio":
        (folder / "uvloop.py").write_text("raise ImportError")
    return str(folder)


# a loop that is blocked


@pytest.mark.parametrize("where", ["python", "native code"])
def test_a_second_signal_ends_a_worker_whose_loop_is_blocked(url: str, shop: Path, loop_path: str, where: str) -> None:
    with Program("worker", "shop:app", "--url", url, cwd=shop, PYTHONPATH=loop_path) as worker:
        worker.wait_for("serves")
        payload = '{"in_native_code": true}' if where == "native code" else "{}"
        job_id = submit(url, "block", payload, "--queue", "slow")
        eventually((shop / "blocked").exists)
        worker.signal(signal.SIGTERM)
        worker.wait_for("a handler blocks the event loop; once more stops at once")
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == NOT_DONE
    assert "stopped by force" in worker.text
    assert job_of(url, job_id).state is State.RUNNING, "left to others, which reclaim it"


def test_ctrl_c_twice_ends_a_worker_whose_loop_is_blocked_and_its_children(url: str, shop: Path) -> None:
    with Program("worker", "shop:app", "--url", url, cwd=shop) as worker:
        submit(url, "child", "{}", "--queue", "slow")
        eventually(lambda: (shop / "child").exists() and (shop / "child").read_text())
        child = int((shop / "child").read_text())
        submit(url, "block", "{}", "--queue", "slow")
        eventually((shop / "blocked").exists)
        worker.signal(signal.SIGINT)
        worker.wait_for("once more")
        worker.signal(signal.SIGINT)
        assert worker.exit_code() == INTERRUPTED
        eventually(lambda: not Path(f"/proc/{child}").exists())


def test_several_processes_with_blocked_loops_end_with_the_second_signal(url: str, shop: Path) -> None:
    with Program("worker", "shop:app", "--processes", "2", "--concurrency", "1", "--url", url, cwd=shop) as worker:
        worker.wait_for("serves", times=2)
        children = children_of(worker.pid)
        submit(url, "block", "{}", "--queue", "slow")
        eventually((shop / "blocked").exists)
        worker.signal(signal.SIGTERM)
        worker.wait_for("once more")
        worker.signal(signal.SIGTERM)
        worker.exit_code()
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    assert "stopped by force" in worker.text


# SIGHUP


@pytest.fixture
def hangups_are_heard() -> Iterator[None]:
    """The tests may have been started by ``nohup``, and then programs that they start ignore it, too."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangups_are_heard")
@pytest.mark.parametrize("options", [[], ["--processes", "2"]], ids=["alone", "supervised"])
def test_a_hangup_lets_running_jobs_finish(url: str, shop: Path, options: list[str]) -> None:
    with Program("worker", "shop:app", *options, "--url", url, cwd=shop) as worker:
        job_id = start_sleeping(url, 2)
        worker.signal(signal.SIGHUP)
        worker.wait_for("running jobs may finish")
        assert worker.exit_code() == DONE
    assert job_of(url, job_id).state is State.COMPLETED


def test_a_hangup_that_is_ignored_stays_ignored(url: str, shop: Path) -> None:
    """As ``nohup`` starts it."""
    program = ("/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh", *COMMAND)
    with Program("worker", "shop:app", "--url", url, cwd=shop, command=program) as worker:
        worker.wait_for("serves")
        worker.signal(signal.SIGHUP)
        assert run("submit", "greet", "--wait", url=url).returncode == DONE
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == DONE


# output that nobody reads


class Unread:
    """A worker whose output goes into a pipe that nobody reads."""

    def __init__(self, url: str, folder: Path, *options: str) -> None:
        self.read_end, write_end = os.pipe()
        self.process = subprocess.Popen(
            [*COMMAND, "worker", "shop:app", "--url", url, *options],
            stdin=subprocess.DEVNULL,
            stdout=write_end,
            stderr=write_end,
            cwd=folder,
            env=environment(),
        )
        os.close(write_end)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.read_end)


@pytest.fixture
def unread(url: str, shop: Path) -> Iterator[Unread]:
    worker = Unread(url, shop)
    yield worker
    worker.close()


def test_output_that_nobody_reads_keeps_nothing_from_its_work(url: str, unread: Unread) -> None:
    """Far more than a pipe and our buffer take together."""
    done = run("submit", "talk", "--payload", '{"lines": 10000}', "--wait", url=url)
    assert done.stdout == "10000\n"
    assert run("submit", "greet", "--wait", url=url).returncode == DONE
    unread.process.send_signal(signal.SIGTERM)
    assert unread.process.wait(LONG_SECONDS) == DONE


def test_a_reader_that_comes_back_is_told_how_much_it_has_missed(url: str, unread: Unread) -> None:
    assert run("submit", "talk", "--payload", '{"lines": 10000}', "--wait", url=url).returncode == DONE
    read = b""
    while b"lines of output were dropped" not in read:
        read += os.read(unread.read_end, 65536)
    assert len(read) < 3_000_000
    unread.process.send_signal(signal.SIGTERM)
    assert unread.process.wait(LONG_SECONDS) == DONE


def test_one_line_may_be_longer_than_all_that_is_kept_for_a_slow_reader(url: str, shop: Path) -> None:
    with Program("worker", "shop:app", "--url", url, cwd=shop) as worker:
        worker.wait_for("serves")
        submit(url, "shout", '{"characters": 2000000}', "--wait")
        eventually(lambda: worker.written.count("z") == 2_000_000)
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == DONE


def test_all_that_is_said_before_a_normal_end_is_written(url: str, shop: Path) -> None:
    with Program("worker", "shop:app", "--url", url, cwd=shop) as worker:
        assert run("submit", "talk", "--payload", '{"lines": 500}', "--wait", url=url).returncode == DONE
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == DONE
    assert worker.text.count("x" * 100) == worker.text.count("y" * 100) == 500
    assert worker.text.rstrip().endswith("stopped")


def test_readers_that_are_gone_do_not_end_a_worker(url: str, shop: Path) -> None:
    worker = Unread(url, shop)
    os.close(worker.read_end)
    worker.read_end = os.open(os.devnull, os.O_RDONLY)
    try:
        assert run("submit", "talk", "--payload", '{"lines": 100}', "--wait", url=url).stdout == "100\n"
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(LONG_SECONDS) == DONE
    finally:
        worker.close()


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_worker_works_without_standard_streams(url: str, shop: Path, closed: str) -> None:
    command = ("/bin/sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND)
    with Program("worker", "shop:app", "--url", url, cwd=shop, command=command) as worker:
        assert run("submit", "talk", "--payload", '{"lines": 10}', "--wait", url=url).stdout == "10\n"
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == DONE
    assert "Traceback" not in worker.text


@pytest.mark.parametrize("command", ["jobs", "--help", "workers", "jobs --state NONE", "job 0"])
def test_a_command_whose_reader_is_gone_ends_quietly(url: str, shop: Path, command: str) -> None:
    submit(url, "greet")
    whole = run(*command.split(), *(() if command == "--help" else ("--url", url)))
    for stream in ("stdout", "stderr"):
        read_end, write_end = os.pipe()
        os.close(read_end)
        other = "stderr" if stream == "stdout" else "stdout"
        done = subprocess.run(
            [*COMMAND, *command.split(), *(() if command == "--help" else ("--url", url))],
            stdin=subprocess.DEVNULL,
            text=True,
            # Buffered, as usual: what cannot be written is still there when the interpreter ends.
            env=environment(PYTHONUNBUFFERED=""),
            timeout=LONG_SECONDS,
            check=False,
            **{stream: write_end, other: subprocess.PIPE},  # type: ignore[call-overload]
        )
        os.close(write_end)
        assert done.returncode == whole.returncode
        # The age of a job may have changed meanwhile.
        assert getattr(done, other)[:100] == getattr(whole, other)[:100]


# tasks that handlers cancel


def test_a_handler_cannot_cancel_the_workers_tasks_or_its_neighbours(url: str, shop: Path, loop_path: str) -> None:
    with Program("worker", "shop:app", "--url", url, cwd=shop, PYTHONPATH=loop_path) as worker:
        neighbour = submit(url, "wait_for_a_file", "{}", "--queue", "slow")
        eventually((shop / "waiting").exists)
        hostile = submit(url, "cancel_all", "{}", "--queue", "slow", "--wait")
        assert run_json("job", hostile, url=url)["state"] == "COMPLETED"
        worker.wait_for("a handler tried to cancel tasks of the worker, which go on")
        assert run("submit", "greet", "--wait", url=url).returncode == DONE
        (shop / "go").touch()
        eventually(lambda: job_of(url, neighbour).state is State.COMPLETED)
        assert job_of(url, neighbour).attempt == 1
        worker.signal(signal.SIGTERM)
        assert worker.exit_code() == DONE


def test_a_worker_whose_tasks_are_cancelled_all_the_same_says_so_and_fails(url: str, shop: Path) -> None:
    """By a thread of a handler's, say, whose context is nobody's."""
    with Program("worker", "shop:app", "--url", url, cwd=shop) as worker:
        worker.wait_for("serves")
        job_id = submit(url, "cancel_all_from_a_thread", "{}", "--queue", "slow")
        assert worker.exit_code() == NOT_DONE
    assert "was cancelled, and not by" in worker.text
    assert job_of(url, job_id).state in (State.COMPLETED, State.SCHEDULED, State.RUNNING, State.RETRYING)


def test_a_handler_that_ends_the_program_through_the_loop_fails_it(url: str, shop: Path, loop_path: str) -> None:
    with Program("worker", "shop:app", "--url", url, cwd=shop, PYTHONPATH=loop_path) as worker:
        worker.wait_for("serves")
        submit(url, "leave", "{}", "--queue", "slow")
        assert worker.exit_code() == NOT_DONE
    assert "a handler has ended the program: sys.exit(0)" in worker.text


# Ctrl-C at once


@pytest.mark.parametrize(
    "command",
    [COMMAND, (sys.executable, "-c", "import sys; from holdfast.__main__ import main; sys.exit(main())")],
    ids=["module", "script"],
)
def test_ctrl_c_while_everything_is_still_imported_ends_it_quietly(tmp_path: Path, command: tuple[str, ...]) -> None:
    # One of the first modules that the command line imports, with time to interrupt it.
    (tmp_path / "difflib.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(3600)")
    with Program("jobs", command=command, PYTHONPATH=str(tmp_path)) as program:
        program.wait_for("importing")
        program.signal(signal.SIGINT)
        assert program.exit_code() == INTERRUPTED
    assert program.text == "importing\n"


def test_the_script_and_the_module_are_one_program() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert 'holdfast = "holdfast.__main__:main"' in text
