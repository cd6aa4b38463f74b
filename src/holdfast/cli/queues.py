"""``holdfast queues``: what stands in each queue; pause and resume one."""

import argparse
from datetime import UTC, datetime
from typing import Final

from holdfast.cli import words
from holdfast.cli.command import Commands, add_command, asynchronous
from holdfast.cli.database import add_json, add_url, open_engine
from holdfast.cli.exits import Exit
from holdfast.cli.output import Cell, show_table
from holdfast.cli.streams import note, write_json
from holdfast.core.commands import QueueStats
from holdfast.core.states import State
from holdfast.engine.documents import queue_data

EXAMPLES: Final = """
holdfast queues
holdfast queues pause media       nothing of it is started until it is resumed
holdfast queues resume media
holdfast queues --json
"""
SHOWN: Final = {
    "Waiting": (State.SCHEDULED,),
    "Later": (State.PENDING, State.DELAYED),
    "Retrying": (State.RETRYING,),
    "Running": (State.RUNNING,),
    "Completed": (State.COMPLETED,),
    "Dead": (State.FAILED, State.DEAD_LETTER),
    "Cancelled": (State.CANCELLED,),
}
"""The nine states as seven columns."""


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands, "queues", help="list queues; pause and resume them", examples=EXAMPLES, run=asynchronous(show)
    )
    add_url(parser)
    add_json(parser)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    pausing = "start no more jobs of a queue; those that run go on"
    for name, help_text in (("pause", pausing), ("resume", "start jobs of a queue again")):
        action = add_command(
            actions, name, help=help_text, examples=f"holdfast queues {name} media", run=asynchronous(change)
        )
        action.add_argument("name", metavar="NAME", help="of the queue")
        add_url(action, is_nested=True)
        add_json(action, is_nested=True)
        action.set_defaults(action=name)


async def show(arguments: argparse.Namespace) -> int:
    async with open_engine(arguments) as engine:
        queues = await engine.read_queues()
    if arguments.json:
        write_json({"queues": [queue_data(queue) for queue in queues]})
    elif queues:
        now = datetime.now(UTC)
        columns = ("Queue", *(f">{title}" for title in SHOWN), ">Oldest", "")
        show_table(columns, [_row(queue, now) for queue in queues])
    else:
        note("no queue has had a job yet")
    return Exit.DONE


async def change(arguments: argparse.Namespace) -> int:
    async with open_engine(arguments) as engine:
        await (engine.pause if arguments.action == "pause" else engine.resume)(arguments.name)
    is_paused = arguments.action == "pause"
    if arguments.json:
        write_json({"name": arguments.name, "is_paused": is_paused})
    else:
        print(f"queue {words.safe(arguments.name)} is {'paused' if is_paused else 'open'}")
    return Exit.DONE


def _row(queue: QueueStats, now: datetime) -> list[Cell]:
    counts = [sum(queue.counts.get(state, 0) for state in states) for states in SHOWN.values()]
    return [
        words.safe(queue.name),
        *(words.number(count) if count else "·" for count in counts),
        words.age(queue.oldest_scheduled_at, now),
        "paused" if queue.is_paused else "",
    ]
