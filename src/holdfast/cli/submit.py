"""``holdfast submit``: a job from the shell, and its result where that is waited for."""

import argparse
import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID, uuid4

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from holdfast.cli import values, words
from holdfast.cli.command import Commands, add_command, asynchronous
from holdfast.cli.database import add_json, add_url, open_engine
from holdfast.cli.exits import Exit
from holdfast.cli.output import error_console
from holdfast.cli.streams import note, write_json
from holdfast.core import limits
from holdfast.core.commands import NewJob, Submit
from holdfast.core.dependencies import Dependency
from holdfast.core.job import Job
from holdfast.core.payload import Payload
from holdfast.core.priority import Priority
from holdfast.core.states import State
from holdfast.engine.documents import job_data, result_value
from holdfast.engine.engine import Engine

EXAMPLES: Final = """
holdfast submit resize --payload '{"path": "a.png", "width": 300}'
holdfast submit resize --payload - < parameters.json
holdfast submit report --delay 10m --key report-2026-01 --tag customer=7
holdfast submit resize --payload '{"path": "a.png"}' --wait --timeout 30s
"""
DESCRIPTION: Final = """Submit a job. Its ID is printed once the job is durable. The payload is one JSON object of the
handler's parameters; whether they fit is seen by the worker. With --wait: the result, and exit code 1 where the job
ends in any other way than COMPLETED."""


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "submit",
        help="submit a job",
        description=DESCRIPTION,
        examples=EXAMPLES,
        run=asynchronous(run),
    )
    parser.add_argument("type", metavar="TYPE", help="the job type: the name of its handler")
    parser.add_argument(
        "--payload", type=values.payload, default={}, metavar="JSON", help="one object; - reads standard input"
    )
    parser.add_argument("--queue", default=limits.DEFAULT_QUEUE, help=f"default: {limits.DEFAULT_QUEUE}")
    parser.add_argument(
        "--priority",
        type=values.priority,
        default=Priority.NORMAL,
        help=f"{', '.join(one.name.lower() for one in Priority)}; default: normal",
    )
    parser.add_argument("--delay", type=values.seconds, default=0.0, metavar="SECONDS", help="start no sooner: 90, 5m")
    parser.add_argument("--key", help="idempotency key: a repeat answers with the first job")
    parser.add_argument("--tag", type=values.tag, action="append", default=[], metavar="NAME=VALUE", help="repeatable")
    parser.add_argument("--group", metavar="NAME", help="what it belongs to, for limits and lists: a customer, say")
    parser.add_argument(
        "--after", type=values.job_id, action="append", default=[], metavar="ID", help="wait for this job; repeatable"
    )
    parser.add_argument("--wait", action="store_true", help="wait until the job has ended, and print its result")
    parser.add_argument("--timeout", type=values.seconds, metavar="SECONDS", help="with --wait: give up waiting")
    add_url(parser)
    add_json(parser)


async def run(arguments: argparse.Namespace) -> int:
    async with open_engine(arguments, creates=True) as engine:
        (submitted,) = await engine.submit(Submit(jobs=(_new_job(arguments),)))
        if not arguments.wait:
            _show_submitted(submitted.job_id, is_duplicate=submitted.is_duplicate, is_json=arguments.json)
            return Exit.DONE
        job = await _wait(engine, submitted.job_id, timeout_seconds=arguments.timeout)
    return _show_ended(job, is_duplicate=submitted.is_duplicate, is_json=arguments.json)


def _new_job(arguments: argparse.Namespace) -> NewJob:
    return NewJob(
        id=uuid4(),
        type=arguments.type,
        queue=arguments.queue,
        payload=Payload.of(arguments.payload),
        priority=arguments.priority,
        delay_seconds=arguments.delay,
        key=arguments.key,
        tags=dict(arguments.tag),
        group=arguments.group,
        dependencies=tuple(Dependency(job_id) for job_id in dict.fromkeys(arguments.after)),
    )


def _show_submitted(job_id: UUID, *, is_duplicate: bool, is_json: bool) -> None:
    if is_json:
        write_json({"id": str(job_id), "is_duplicate": is_duplicate})
        return
    print(job_id)
    if is_duplicate:
        note("the key belongs to this job already; nothing was submitted")


async def _wait(engine: Engine, job_id: UUID, *, timeout_seconds: float | None) -> Job:
    """The job once it has ended, or as it is when the time is over."""
    with _bar(job_id) as show:
        async for job in engine.follow(job_id, timeout_seconds=timeout_seconds):
            show(job)
    return job


class _Shown:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=100.0)

    def __call__(self, job: Job) -> None:
        percent = job.progress.percent if job.progress is not None else 0.0
        message = words.safe(job.progress.message) if job.progress is not None else ""
        said = f"{job.type} {job.state} {message}".rstrip()
        self._progress.update(self._task, description=words.safe(said), completed=percent)


@contextmanager
def _bar(job_id: UUID) -> Iterator[_Shown]:
    screen = error_console()
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=screen, disable=not screen.is_terminal, transient=True) as progress:
            yield _Shown(progress)
    except asyncio.CancelledError:
        note(f"the job goes on; see: holdfast job {job_id}")
        raise


def _show_ended(job: Job, *, is_duplicate: bool, is_json: bool) -> int:
    if is_json:
        write_json({**job_data(job), "is_duplicate": is_duplicate})
    elif job.state is State.COMPLETED:
        print(words.safe_lines(json.dumps(result_value(job.result), ensure_ascii=False, indent=2)))
    if job.state is State.COMPLETED:
        return Exit.DONE
    if not job.state.is_terminal:
        note(f"the job is still {job.state} and goes on; see: holdfast job {job.id} --why")
    else:
        said = words.error(job.failure)
        note(f"the job ended {job.state}{f' ({said})' if said else ''}; see: holdfast job {job.id}")
    return Exit.NOT_DONE
