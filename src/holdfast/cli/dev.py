"""``holdfast dev``: worker, view and, without an app of one's own, a sample app with a load, in one command.

The worker is a child process, so that it can be restarted when code changes and the view stays; what it prints and
logs becomes part of the view.
"""

import argparse
import asyncio
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from holdfast.cli import values, words
from holdfast.cli.changes import Changes
from holdfast.cli.command import Commands, add_command
from holdfast.cli.database import add_json, add_url, checked, patiently
from holdfast.cli.events import Events, said
from holdfast.cli.exits import Exit
from holdfast.cli.output import console, show_fields
from holdfast.cli.screen import Screen, full_screen
from holdfast.cli.snapshot import Snapshot, Watch
from holdfast.cli.streams import is_terminal, write_json
from holdfast.cli.supervisor import Supervisor
from holdfast.cli.view import counts_text, draw
from holdfast.cli.worker import PATIENCE_SECONDS, find_app
from holdfast.core import limits
from holdfast.core.errors import Unavailable
from holdfast.core.states import REPLAYABLE, State
from holdfast.wiring import sqlite_url, without_password

if TYPE_CHECKING:
    from holdfast.app import Holdfast

EXAMPLES: Final = """
holdfast dev                      a sample app, to see what it is like
holdfast dev jobs:app             your own; restarts when you save a .py file
holdfast dev --for 20             ends by itself, with a summary
holdfast dev --rate 50            more load
"""
DESCRIPTION: Final = """Start a worker and watch it: the one command to begin with. Without MODULE:APP a sample app is
run under a sample load, on a database of its own in ./.holdfast. With one it is your app, and the load is yours too."""
SAMPLE: Final = "holdfast.cli.sample:app"
FOLDER: Final = ".holdfast"
LOOK_SECONDS: Final = 0.5
STATUS_SECONDS: Final = 5.0
START_SECONDS: Final = 30.0
KEPT_LINES: Final = 200


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "dev",
        help="start a worker with a live view: begin here",
        description=DESCRIPTION,
        examples=EXAMPLES,
        run=run,
    )
    parser.add_argument("app", nargs="?", metavar="MODULE:APP", help="your app; default: a sample app with a load")
    parser.add_argument("--for", dest="seconds", type=values.seconds, metavar="SECONDS", help="end by itself")
    parser.add_argument(
        "--rate", type=values.positive, default=5, metavar="N", help="sample jobs submitted a second; default: 5"
    )
    parser.add_argument("--no-reload", action="store_true", help="do not restart when a .py file changes")
    add_url(parser, patience_seconds=PATIENCE_SECONDS, default=f"the app's own; the sample's is in ./{FOLDER}")
    add_json(parser, what="the summary as one JSON object, and nothing else")


@dataclass(slots=True, kw_only=True)
class Session:
    """What is under way."""

    app: "Holdfast"
    is_sample: bool
    lines: deque[Text] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    speaking: asyncio.Event = field(default_factory=asyncio.Event)
    """The worker has said something: it is up, or says why not."""
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    code: Exit = Exit.DONE
    started_at: float = field(default_factory=time.monotonic)

    def say(self, line: str) -> None:
        self.lines.append(said(line))

    def hear(self, line: str) -> None:
        self.say(line)
        self.speaking.set()

    async def close_after(self, seconds: float) -> None:
        """Counted from when the worker is up: what a busy machine needs to start it is not the user's time."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.speaking.wait(), START_SECONDS)
        self.started_at = time.monotonic()
        await asyncio.sleep(seconds)
        self.closing.set()

    def interrupt(self) -> None:
        self.code = Exit.INTERRUPTED
        self.closing.set()


def run(arguments: argparse.Namespace) -> int:
    if arguments.app is None:
        arguments.url = arguments.url or _sample_url()
    app = find_app(arguments.app or SAMPLE, arguments.url)
    return asyncio.run(_open_and_run(app, arguments))


async def _open_and_run(app: "Holdfast", arguments: argparse.Namespace) -> int:
    with checked(app.url) as known:
        await patiently(app.open, url=known, timeout_seconds=arguments.connect_timeout)
    try:
        session = Session(app=app, is_sample=arguments.app is None)
        before = await Watch(app.engine).look()
        code = await _run(session, _supervisor(session, arguments), arguments)
        _show_summary(session, before, await Watch(app.engine).look(), is_json=arguments.json)
        return code
    finally:
        await app.close()


def _sample_url() -> str:
    """Never $HOLDFAST_URL: sample jobs have no business in a database that means something."""
    folder = Path(FOLDER)
    folder.mkdir(exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    return sqlite_url(folder / "dev.db")


def _supervisor(session: Session, arguments: argparse.Namespace) -> Supervisor:
    target, place = arguments.app or SAMPLE, ("--url", session.app.url) if arguments.url is not None else ()
    return Supervisor(
        [
            sys.executable,
            "-m",
            "holdfast",
            "worker",
            target,
            *place,
            "--grace",
            f"{limits.SHORT_GRACE_SECONDS:g}s",
            "--name",
            "dev",
        ],
        processes=1,
        say=session.say,
        on_line=session.hear,
        changes=None if arguments.no_reload else Changes(Path.cwd()),
    )


async def _run(session: Session, supervisor: Supervisor, arguments: argparse.Namespace) -> int:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, session.interrupt)
    loop.add_signal_handler(signal.SIGTERM, session.closing.set)
    workers = asyncio.create_task(supervisor.run())
    workers.add_done_callback(lambda _: session.closing.set())
    async with _load(session, arguments.rate), _timer(session, arguments.seconds):
        if arguments.json:
            await session.closing.wait()
        elif is_terminal():
            await _watch_live(session)
        else:
            await _watch_plainly(session)
    supervisor.stop()
    return await workers or session.code


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def _timer(session: Session, seconds: float | None) -> AsyncIterator[None]:
    if seconds is None:
        yield
        return
    async with _beside(session.close_after(seconds)):
        yield


@asynccontextmanager
async def _load(session: Session, per_second: float) -> AsyncIterator[None]:
    if not session.is_sample:
        yield
        return
    from holdfast.cli.sample import submit_load

    async with _beside(submit_load(per_second=per_second)):
        yield


async def _watch_live(session: Session) -> None:
    watch, events = Watch(session.app.engine), Events(session.app.engine)
    snapshot: Snapshot | None = None
    with full_screen(session.closing) as screen:
        while not screen.is_closed:
            try:
                snapshot = await watch.look()
                session.lines.extend(await events.look())
            except Unavailable as error:
                session.lines.append(said(f"{error}; trying again"))
            if snapshot is not None:
                _draw(session, screen, snapshot)
            await screen.wait(LOOK_SECONDS)


def _draw(session: Session, screen: Screen, snapshot: Snapshot) -> None:
    columns, lines = screen.size
    newest = list(session.lines)[-max(3, lines // 3) :]
    for line in newest:
        line.truncate(columns, overflow="ellipsis")
    notes = [Text("Recently", style="bold"), *newest, Text(), Text("q quits", style="dim")]
    place = without_password(session.app.url)
    screen.draw(draw(snapshot, title="dev", place=place, size=screen.size, notes=notes))


async def _watch_plainly(session: Session) -> None:
    """A line for each event, and every few seconds one that sums up."""
    watch, events, screen = Watch(session.app.engine), Events(session.app.engine), console()
    await watch.look()
    next_status = time.monotonic() + STATUS_SECONDS
    while True:
        try:
            session.lines.extend(await events.look())
            if time.monotonic() >= next_status or session.closing.is_set():
                next_status = time.monotonic() + STATUS_SECONDS
                snapshot = await watch.look()
                session.lines.append(said(f"{counts_text(snapshot)} · {words.rate(snapshot.rate)} jobs/s"))
        except Unavailable as error:
            session.lines.append(said(f"{error}; trying again"))
        while session.lines:
            screen.print(session.lines.popleft(), soft_wrap=True)
        screen.file.flush()
        if session.closing.is_set():
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(session.closing.wait(), LOOK_SECONDS)


def _show_summary(session: Session, before: Snapshot, after: Snapshot, *, is_json: bool) -> None:
    seconds = time.monotonic() - session.started_at
    submitted = after.count(*State) - before.count(*State)
    completed = after.count(State.COMPLETED) - before.count(State.COMPLETED)
    failed = after.count(*REPLAYABLE) - before.count(*REPLAYABLE)
    if is_json:
        write_json(
            {
                "seconds": round(seconds, 3),
                "submitted": submitted,
                "completed": completed,
                "failed": failed,
                "per_second": round(completed / seconds, 3),
            }
        )
        return
    print()
    show_fields(
        [
            ("submitted", words.number(submitted)),
            ("completed", words.number(completed)),
            ("failed", f"{words.number(failed)} for good"),
            ("speed", f"{words.rate(completed / seconds)} jobs/s over {words.duration(seconds)}"),
            ("next", f"holdfast jobs --url {without_password(session.app.url)}"),
        ]
    )
