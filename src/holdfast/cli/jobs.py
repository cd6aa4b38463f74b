"""``holdfast jobs``: jobs, newest first."""

import argparse
from datetime import UTC, datetime
from typing import Final

from holdfast.cli import values, words
from holdfast.cli.command import Commands, add_command, asynchronous
from holdfast.cli.database import add_json, add_url, open_engine
from holdfast.cli.exits import Exit
from holdfast.cli.output import Cell, show_table
from holdfast.cli.streams import note, write_json
from holdfast.core import limits
from holdfast.core.commands import Filter, Page
from holdfast.core.job import Job
from holdfast.core.states import State
from holdfast.engine.documents import job_data
from holdfast.engine.engine import Engine

EXAMPLES: Final = """
holdfast jobs                                   the newest 50
holdfast jobs --state failed,dead_letter --since 1h
holdfast jobs --queue media --tag customer=7 --limit 500
holdfast jobs --state scheduled --json | jq -r '.jobs[].id'
"""
COLUMNS: Final = ("!ID", "Type", "Queue", "!State", ">Try", ">Age", "Note")


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "jobs", help="list jobs, newest first", examples=EXAMPLES, run=asynchronous(run))
    values.add_filter(parser, which=tuple(State))
    parser.add_argument(
        "--limit", type=values.positive, default=limits.DEFAULT_PAGE_JOBS, metavar="N", help="default: 50"
    )
    parser.add_argument("--cursor", type=int, metavar="N", help="go on from an earlier list's next_cursor")
    add_url(parser)
    add_json(parser)


async def run(arguments: argparse.Namespace) -> int:
    async with open_engine(arguments) as engine:
        page = await read_jobs(engine, values.filter_of(arguments), limit=arguments.limit, cursor=arguments.cursor)
    if arguments.json:
        write_json({"jobs": [job_data(job) for job in page.jobs], "next_cursor": page.next_cursor})
        return Exit.DONE
    if not page.jobs:
        note("no jobs match")
        return Exit.DONE
    now = datetime.now(UTC)
    show_table(COLUMNS, [_row(job, now) for job in page.jobs])
    if page.next_cursor is not None:
        note(f"there are more: --cursor {page.next_cursor} goes on from here, --limit shows more")
    return Exit.DONE


async def read_jobs(engine: Engine, where: Filter, *, limit: int, cursor: int | None = None) -> Page:
    """``limit`` jobs where there are as many, over as many pages as that takes."""
    found: list[Job] = []
    while len(found) < limit:
        size = min(limit - len(found), limits.MAX_PAGE_JOBS)
        page = await engine.read_page(where, limit=size, cursor=cursor)
        found += page.jobs
        cursor = page.next_cursor
        if cursor is None:
            break
    return Page(tuple(found), cursor)


def _row(job: Job, now: datetime) -> list[Cell]:
    return [
        str(job.id),
        words.safe(job.type),
        words.safe(job.queue),
        words.state(job.state),
        f"{job.attempt}/{job.retry.max_attempts}",
        words.age(job.created_at, now),
        _note(job, now),
    ]


def _note(job: Job, now: datetime) -> str:
    """What is worth knowing of a job in its state."""
    if job.state is State.RUNNING and job.progress is not None:
        return f"{job.progress.percent:.0f} % {words.safe(job.progress.message)}".rstrip()
    if job.state in (State.DELAYED, State.RETRYING) and job.due_at is not None:
        due = f"due {words.ago(job.due_at, now)}" if job.due_at > now else "due now"
        return " · ".join(part for part in (due, words.error(job.failure)) if part)
    if job.state is State.PENDING:
        return f"waits for {words.count_of(len(job.dependencies), 'job')}"
    if job.state is State.COMPLETED and job.started_at is not None and job.completed_at is not None:
        return f"took {words.duration((job.completed_at - job.started_at).total_seconds())}"
    return words.error(job.failure)
