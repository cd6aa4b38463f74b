"""``holdfast top``: queues, throughput, workers and failures, live."""

import argparse
import asyncio
from typing import Final

from rich.text import Text

from holdfast.cli import values, words
from holdfast.cli.command import Commands, add_command, asynchronous
from holdfast.cli.database import add_json, add_url, open_engine, url_of
from holdfast.cli.exits import Exit
from holdfast.cli.screen import full_screen
from holdfast.cli.snapshot import Snapshot, Watch, snapshot_data
from holdfast.cli.streams import is_terminal, write_json
from holdfast.cli.view import draw, plain
from holdfast.core.errors import Unavailable
from holdfast.wiring import without_password

EXAMPLES: Final = """
holdfast top                      live; q or Ctrl-C ends it
holdfast top --interval 5s
holdfast top --once               one snapshot as plain text
holdfast top --json | jq '.queues[] | {name, waiting: .counts.SCHEDULED}'
"""


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "top",
        help="watch queues, throughput, workers and failures",
        examples=EXAMPLES,
        run=asynchronous(run),
    )
    parser.add_argument("--once", action="store_true", help="one plain snapshot; so it is where there is no terminal")
    parser.add_argument(
        "--interval", type=values.seconds, default=1.0, metavar="SECONDS", help="refresh interval; default: 1"
    )
    add_url(parser)
    add_json(parser)


async def run(arguments: argparse.Namespace) -> int:
    place = without_password(url_of(arguments))
    async with open_engine(arguments) as engine:
        watch = Watch(engine)
        if is_terminal() and not arguments.once and not arguments.json:
            await _live(watch, place=place, interval_seconds=arguments.interval)
            return Exit.DONE
        # Speed takes two looks.
        await watch.look()
        await asyncio.sleep(arguments.interval)
        snapshot = await watch.look()
    if arguments.json:
        write_json(snapshot_data(snapshot))
    else:
        print("\n".join(plain(snapshot)))
    return Exit.DONE


async def _live(watch: Watch, *, place: str, interval_seconds: float) -> None:
    snapshot: Snapshot | None = None
    keys = Text(f"q quits · every {words.duration(interval_seconds)}", style="dim")
    with full_screen() as screen:
        while not screen.is_closed:
            note = keys
            try:
                snapshot = await watch.look()
            except Unavailable as error:
                note = Text(words.safe(f"{error}; trying again"), style="bold red")
            if snapshot is None:
                screen.draw(note)
            else:
                screen.draw(draw(snapshot, title="top", place=place, size=screen.size, notes=[note]))
            await screen.wait(interval_seconds)
