"""``holdfast dead``: jobs that failed for good, and those that do so now."""

import argparse
import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import count
from typing import Final
from uuid import UUID

from holdfast.cli import values, words
from holdfast.cli.command import Commands, add_command, asynchronous
from holdfast.cli.database import add_json, add_url, open_engine
from holdfast.cli.exits import Exit
from holdfast.cli.jobs import read_jobs
from holdfast.cli.output import Cell, console, show_table
from holdfast.cli.streams import note, write_json, write_json_line
from holdfast.core import limits
from holdfast.core.commands import Filter
from holdfast.core.job import Job
from holdfast.core.states import REPLAYABLE
from holdfast.engine.documents import job_data
from holdfast.engine.engine import Engine

EXAMPLES: Final = """
holdfast dead                                   the newest 50
holdfast dead --queue media --since 1d
holdfast dead --follow                          each one as it dies, until Ctrl-C
holdfast dead --follow --json | while read -r job; do …; done
holdfast replay --queue media                   run them again
"""
DESCRIPTION: Final = """List dead letters: FAILED jobs (a permanent failure) and DEAD_LETTER jobs (retries or lifetime
exhausted), newest first."""
POLL_SECONDS: Final = 1.0
RECENT_JOBS: Final = 200
WHOLE_LIST_EVERY: Final = 10
"""Most that die were created lately; a job that was created long ago is found by every so many looks."""


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "dead",
        help="list dead letters; --follow shows them as they come",
        description=DESCRIPTION,
        examples=EXAMPLES,
        run=asynchronous(run),
    )
    parser.add_argument("--follow", "-f", action="store_true", help="go on with each job that dies from now on")
    values.add_filter(parser, which=REPLAYABLE)
    parser.add_argument(
        "--limit", type=values.positive, default=limits.DEFAULT_PAGE_JOBS, metavar="N", help="default: 50"
    )
    add_url(parser)
    add_json(parser, what="one JSON object; with --follow one a line")


async def run(arguments: argparse.Namespace) -> int:
    where = values.filter_of(arguments, states=REPLAYABLE)
    async with open_engine(arguments) as engine:
        if arguments.follow:
            await _follow(engine, where, is_json=arguments.json)
            return Exit.DONE
        page = await read_jobs(engine, where, limit=arguments.limit)
    if arguments.json:
        write_json({"jobs": [job_data(job) for job in page.jobs], "next_cursor": page.next_cursor})
    elif page.jobs:
        now = datetime.now(UTC)
        show_table(("!ID", "Type", "Queue", "!State", ">Died", "Error"), [_row(job, now) for job in page.jobs])
    else:
        note("no dead letters")
    return Exit.DONE


def _row(job: Job, now: datetime) -> list[Cell]:
    return [
        str(job.id),
        words.safe(job.type),
        words.safe(job.queue),
        words.state(job.state),
        words.age(job.completed_at, now),
        words.error(job.failure),
    ]


async def _follow(engine: Engine, where: Filter, *, is_json: bool) -> None:
    since = (await engine.read_cron()).now
    note("waiting for jobs that die; Ctrl-C ends this")
    screen = console()
    async for job in _dying(engine, where, since):
        if is_json:
            write_json_line(job_data(job))
            continue
        died = job.completed_at or job.updated_at
        said = f"{job.id}  {words.safe(job.type)}  {words.safe(job.queue)}  {words.error(job.failure)}"
        screen.print(words.moment(died), words.state(job.state), said, soft_wrap=True)
        screen.file.flush()


async def _dying(engine: Engine, where: Filter, since: datetime) -> AsyncIterator[Job]:
    """Each job that dies from now on. A job that is replayed and dies again comes again."""
    told: dict[UUID, datetime] = {}
    for look in count(1):
        await asyncio.sleep(POLL_SECONDS)
        found = await _dead_since(engine, where, since, is_whole=look % WHOLE_LIST_EVERY == 0)
        for job, died in sorted(found, key=lambda one: one[1]):
            if told.get(job.id) != died:
                told[job.id] = died
                yield job


async def _dead_since(engine: Engine, where: Filter, since: datetime, *, is_whole: bool) -> list[tuple[Job, datetime]]:
    found: list[tuple[Job, datetime]] = []
    cursor = None
    while True:
        page = await engine.read_page(where, limit=RECENT_JOBS, cursor=cursor)
        found += [(job, job.completed_at) for job in page.jobs if job.completed_at and job.completed_at > since]
        cursor = page.next_cursor
        if cursor is None or not is_whole:
            return found
