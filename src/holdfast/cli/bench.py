"""``holdfast bench``: how fast this machine and this database submit and run jobs that do nothing."""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from holdfast.cli import values, words
from holdfast.cli.command import Commands, add_command, asynchronous
from holdfast.cli.database import add_json, add_url, checked, patiently
from holdfast.cli.exits import Exit
from holdfast.cli.output import error_console, show_table
from holdfast.cli.streams import write_json
from holdfast.core import limits
from holdfast.core.states import State
from holdfast.wiring import sqlite_url, without_password

if TYPE_CHECKING:
    from holdfast.app import Holdfast, JobType

EXAMPLES: Final = """
holdfast bench                                       10,000 jobs on a temporary SQLite file
holdfast bench --jobs 100000 --concurrency 100
holdfast bench --url postgresql://localhost/app      in a queue of its own; its jobs stay until retention
holdfast bench --json | jq .drain.per_second
"""
DESCRIPTION: Final = """Submit jobs that do nothing, then run them with one worker in this process, and say how long
each took. Figures of different machines, or of one that is busy with something else, cannot be compared."""
LOOK_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    name: str
    jobs: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.jobs / self.seconds


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "bench",
        help="measure how fast jobs that do nothing are submitted and run",
        description=DESCRIPTION,
        examples=EXAMPLES,
        run=asynchronous(run),
    )
    parser.add_argument("--jobs", type=values.positive, default=10_000, metavar="N", help="default: 10000")
    parser.add_argument("--batch", type=values.positive, default=1000, metavar="N", help="a submit; default: 1000")
    parser.add_argument(
        "--concurrency",
        type=values.positive,
        default=limits.DEFAULT_CONCURRENCY,
        metavar="N",
        help=f"default: {limits.DEFAULT_CONCURRENCY}",
    )
    add_url(parser, default="a temporary file")
    add_json(parser)


async def run(arguments: argparse.Namespace) -> int:
    with _place(arguments.url) as url:
        from holdfast.app import Holdfast

        app = Holdfast(url, logs="off")
        with checked(url):
            await patiently(app.open, url=url, timeout_seconds=arguments.connect_timeout)
        try:
            phases = await _measure(app, arguments)
        finally:
            await app.close()
        _show(phases, "a temporary file" if arguments.url is None else without_password(url), is_json=arguments.json)
    return Exit.DONE


@contextmanager
def _place(url: str | None) -> Iterator[str]:
    """What was asked for; else a file that is gone afterwards. $HOLDFAST_URL is not asked: nobody said to load it."""
    if url is not None:
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        yield sqlite_url(Path(folder) / "bench.db")


async def _measure(app: "Holdfast", arguments: argparse.Namespace) -> list[Phase]:
    queue = f"bench-{uuid4().hex[:8]}"

    @app.job(name="holdfast.bench", queue=queue)
    async def nothing() -> None:
        pass

    screen = error_console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TaskProgressColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=screen, disable=not screen.is_terminal, transient=True
    ) as progress:
        submitted = await _submit(app, nothing, arguments, progress)
        drained = await _drain(app, queue, arguments, progress)
    return [submitted, drained]


async def _submit(
    app: "Holdfast", nothing: "JobType[[], None]", arguments: argparse.Namespace, progress: Progress
) -> Phase:
    task = progress.add_task("submit", total=arguments.jobs)
    started = time.perf_counter()
    left = arguments.jobs
    while left:
        size = min(left, arguments.batch)
        await app.submit_many([nothing.call() for _ in range(size)])
        left -= size
        progress.advance(task, size)
    return Phase(name="submit", jobs=arguments.jobs, seconds=time.perf_counter() - started)


async def _drain(app: "Holdfast", queue: str, arguments: argparse.Namespace, progress: Progress) -> Phase:
    task = progress.add_task("drain", total=arguments.jobs)
    started = time.perf_counter()
    async with app.worker(concurrency=arguments.concurrency, queues=[queue]):
        while True:
            completed = await _completed(app, queue)
            progress.update(task, completed=completed)
            if completed >= arguments.jobs:
                return Phase(name="drain", jobs=arguments.jobs, seconds=time.perf_counter() - started)
            await asyncio.sleep(LOOK_SECONDS)


async def _completed(app: "Holdfast", queue: str) -> int:
    return sum(one.counts.get(State.COMPLETED, 0) for one in await app.queues() if one.name == queue)


def _show(phases: list[Phase], place: str, *, is_json: bool) -> None:
    if is_json:
        data = {
            phase.name: {"jobs": phase.jobs, "seconds": phase.seconds, "per_second": phase.per_second}
            for phase in phases
        }
        write_json({"place": place, **data})
        return
    rows = [
        [phase.name, words.number(phase.jobs), words.duration(phase.seconds), words.rate(phase.per_second)]
        for phase in phases
    ]
    show_table(("Phase", ">Jobs", ">Took", ">Jobs/s"), rows)
