"""``holdfast workers``: who runs jobs."""

import argparse
from datetime import UTC, datetime
from typing import Final

from rich.text import Text

from holdfast.cli import words
from holdfast.cli.command import Commands, add_command, asynchronous
from holdfast.cli.database import add_json, add_url, open_engine
from holdfast.cli.exits import Exit
from holdfast.cli.output import Cell, show_table
from holdfast.cli.streams import note, write_json
from holdfast.core import limits
from holdfast.core.commands import WorkerInfo
from holdfast.engine.documents import worker_data

EXAMPLES: Final = """
holdfast workers
holdfast workers --json | jq '.workers[] | select(.is_lost | not) | .name'
"""


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands, "workers", help="list workers, alive and lost", examples=EXAMPLES, run=asynchronous(run)
    )
    add_url(parser)
    add_json(parser)


async def run(arguments: argparse.Namespace) -> int:
    async with open_engine(arguments) as engine:
        workers = await engine.read_workers()
    if arguments.json:
        write_json({"workers": [worker_data(worker) for worker in workers]})
    elif workers:
        now = datetime.now(UTC)
        show_table(
            ("Name", "!ID", "!State", ">Seen", ">Running", ">Up", "Queues"), [_row(worker, now) for worker in workers]
        )
    else:
        note("no worker is running; start one: holdfast worker MODULE:APP")
    return Exit.DONE


def _row(worker: WorkerInfo, now: datetime) -> list[Cell]:
    return [
        words.safe(worker.name),
        str(worker.id),
        liveness(worker, now),
        words.age(worker.seen_at, now),
        words.number(worker.running),
        words.age(worker.registered_at, now),
        words.safe(", ".join(worker.queues)) or "any",
    ]


def liveness(worker: WorkerInfo, now: datetime) -> Text:
    if worker.is_lost:
        return Text("lost", style="bold red")
    return Text("alive", style="green") if is_alive(worker, now) else Text("silent", style="yellow")


def is_alive(worker: WorkerInfo, now: datetime) -> bool:
    """Heard of lately. Whether it is lost is for tick to say, and no tick runs where no worker does."""
    return not worker.is_lost and (now - worker.seen_at).total_seconds() <= limits.WORKER_TIMEOUT_SECONDS
