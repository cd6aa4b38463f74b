"""``holdfast job ID``: everything there is to know of one job."""

import argparse
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rich.text import Text

from holdfast.cli import values, words
from holdfast.cli.command import Commands, add_command, asynchronous
from holdfast.cli.database import add_json, add_url, open_engine, url_of
from holdfast.cli.exits import Exit
from holdfast.cli.logs import log_data, read_logs, show_logs
from holdfast.cli.output import Cell, show_fields, show_section, show_table
from holdfast.cli.streams import write_json
from holdfast.core.job import LABELS, Attempt, Job
from holdfast.core.states import State
from holdfast.engine.documents import job_data, payload_value, result_value
from holdfast.engine.engine import Engine

EXAMPLES: Final = """
holdfast job 5f0c5b1e-8d5e-4b52-9f0e-6f1f3a1f7a55
holdfast job 5f0c5b1e-8d5e-4b52-9f0e-6f1f3a1f7a55 --why    why is it not running?
holdfast job 5f0c5b1e-8d5e-4b52-9f0e-6f1f3a1f7a55 --logs   what its handler logged and printed
holdfast job 5f0c5b1e-8d5e-4b52-9f0e-6f1f3a1f7a55 --json | jq .result
"""


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "job",
        help="show one job: state, payload, result, attempts",
        examples=EXAMPLES,
        run=asynchronous(run),
    )
    parser.add_argument("id", type=values.job_id, metavar="ID", help="of the job")
    parser.add_argument("--why", action="store_true", help="say in one sentence why it is not running")
    parser.add_argument("--logs", action="store_true", help="show what its attempts logged and printed")
    parser.add_argument(
        "--log-url",
        metavar="URL",
        help="where its logs are kept; default: $HOLDFAST_LOGS, else where a worker puts them by itself",
    )
    add_url(parser)
    add_json(parser)


async def run(arguments: argparse.Namespace) -> int:
    async with open_engine(arguments) as engine:
        job = await engine.get(arguments.id)
        if arguments.json:
            write_json(await _data(engine, job, arguments))
        elif arguments.why:
            print(words.safe(await engine.why(job.id)))
        elif arguments.logs:
            show_logs(await read_logs(job, store_url=url_of(arguments), log_url=arguments.log_url))
        else:
            _show(job, await engine.read_attempts(job.id), why_not=await _why(engine, job))
    return Exit.DONE


async def _data(engine: Engine, job: Job, arguments: argparse.Namespace) -> dict[str, Any]:
    data = job_data(job, attempts=await engine.read_attempts(job.id))
    if arguments.why:
        data["why"] = await engine.why(job.id)
    if arguments.logs:
        logs = await read_logs(job, store_url=url_of(arguments), log_url=arguments.log_url)
        data["logs"] = [log_data(log) for log in logs]
    return data


async def _why(engine: Engine, job: Job) -> str:
    """For a job that waits, the reason is what its reader wants most."""
    waits = not job.state.is_terminal and job.state is not State.RUNNING
    return await engine.why(job.id) if waits else ""


def _show(job: Job, attempts: Sequence[Attempt], *, why_not: str) -> None:
    now = datetime.now(UTC)
    show_fields([(name, value) for name, value in _fields(job, now, why_not) if value])
    show_section("payload", _json(payload_value(job.payload)))
    if job.checkpoint is not None:
        show_section("checkpoint", _json(result_value(job.checkpoint)))
    if job.state is State.COMPLETED:
        show_section("result", _json(result_value(job.result)))
    if attempts:
        show_section("failed attempts", "")
        show_table((">Try", "Started", ">Took", "Category", "Error"), [_row(attempt) for attempt in attempts])
    if job.failure is not None and job.failure.trace:
        show_section("trace of the last failure", words.safe_lines(job.failure.trace))


def _fields(job: Job, now: datetime, why_not: str) -> list[tuple[str, Cell]]:
    tags = ", ".join(f"{name}={value}" for name, value in job.tags.items())
    waits_for = ", ".join(f"{one.job_id} ({one.kind})" for one in job.dependencies)
    return [
        ("job", Text(str(job.id), style="bold")),
        ("type", words.safe(job.type)),
        ("state", _state(job)),
        ("why", words.safe(why_not)),
        ("error", words.error(job.failure)),
        ("ended by", f"the end of its dependency {job.ended_by}" if job.ended_by else ""),
        ("progress", _progress(job)),
        ("queue", f"{words.safe(job.queue)}, priority {job.priority.name}"),
        ("attempt", _attempt(job)),
        ("created", _when(job.created_at, now)),
        ("due", _when(job.due_at, now) if job.state in (State.DELAYED, State.RETRYING) else ""),
        ("started", _when(job.started_at, now)),
        ("ended", _when(job.completed_at, now) + _took(job)),
        ("worker", f"{job.lease.owner}, lease until {words.moment(job.lease.expires_at)}" if job.lease else ""),
        *((name.partition("_")[0], words.safe(getattr(job, name) or "")) for name in LABELS),
        ("tags", words.safe(tags)),
        ("waits for", waits_for),
        ("spawned by", str(job.spawned_by or "")),
    ]


def _state(job: Job) -> Text:
    said = words.state(job.state)
    if job.cancel_requested and not job.state.is_terminal:
        said.append(" (cancel requested)", style="dim")
    return said


def _attempt(job: Job) -> str:
    replays = f", replayed {words.count_of(job.replays, 'time')}" if job.replays else ""
    return f"{job.attempt} of {job.retry.max_attempts}{replays}"


def _progress(job: Job) -> str:
    if job.progress is None:
        return ""
    return f"{job.progress.percent:.0f} % {words.safe(job.progress.message)}".rstrip()


def _when(time: datetime | None, now: datetime) -> str:
    return "" if time is None else f"{words.moment(time)} ({words.ago(time, now)})"


def _took(job: Job) -> str:
    if job.completed_at is None or job.started_at is None:
        return ""
    return f", took {words.duration((job.completed_at - job.started_at).total_seconds())}"


def _row(attempt: Attempt) -> list[Cell]:
    return [
        str(attempt.number),
        words.moment(attempt.started_at),
        words.duration((attempt.ended_at - attempt.started_at).total_seconds()),
        attempt.failure.category,
        words.error(attempt.failure),
    ]


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return words.safe_lines(text if len(text) <= 80 else json.dumps(value, ensure_ascii=False, indent=2))
