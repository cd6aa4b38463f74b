"""``holdfast cron``: periodic jobs, their last and next slots; run one now."""

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from holdfast.cli import words
from holdfast.cli.command import Commands, add_command
from holdfast.cli.database import add_json, add_url, open_engine
from holdfast.cli.exits import Exit
from holdfast.cli.output import Cell, show_table
from holdfast.cli.streams import note, write_json
from holdfast.cli.worker import find_app
from holdfast.core.commands import CronSlot, CronState, NewJob, Submit
from holdfast.core.errors import UsageError
from holdfast.engine.documents import time_text
from holdfast.wiring import DEFAULT_URL, URL_VARIABLE

if TYPE_CHECKING:
    from holdfast.engine.cron import CronEntry

EXAMPLES: Final = """
holdfast cron                                the slots that have fired, from the database
holdfast cron --app shop.jobs:app            with expressions and next slots, which only the code knows
holdfast cron run nightly --app shop.jobs:app    its job, now; the calendar goes on as it would have
"""
COLUMNS: Final = ("Name", "Expression", "Time zone", "Last slot", ">Fired", "Next slot", ">In")


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "cron",
        help="list periodic jobs; run one now",
        examples=EXAMPLES,
        run=show,
    )
    parser.add_argument("--app", metavar="MODULE:APP", help="where the periodic jobs are defined")
    add_url(parser, default=f"the app's own, else ${URL_VARIABLE}, else {DEFAULT_URL}")
    add_json(parser)
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    action = add_command(
        actions,
        "run",
        help="submit a periodic job now",
        examples="holdfast cron run nightly --app shop.jobs:app",
        run=run_now,
    )
    action.add_argument("name", metavar="NAME", help="of the periodic job")
    action.add_argument("--app", default=argparse.SUPPRESS, metavar="MODULE:APP", help="where it is defined; needed")
    add_url(action, is_nested=True, default="the app's own")
    add_json(action, is_nested=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What the code says of a periodic job, and what the database does; either may know nothing of it."""

    name: str
    entry: "CronEntry | None"
    slot: CronSlot | None
    now: datetime

    @property
    def next_slot(self) -> datetime | None:
        return None if self.entry is None else self.entry.next_after(self.now)


def show(arguments: argparse.Namespace) -> int:
    lines = _lines(_entries(arguments), asyncio.run(_read(arguments)))
    if arguments.json:
        write_json({"cron": [_data(line) for line in lines]})
    elif lines:
        show_table(COLUMNS, [_row(line) for line in lines])
    else:
        note("no periodic job has fired yet; --app MODULE:APP shows those that will")
    return Exit.DONE


async def _read(arguments: argparse.Namespace) -> CronState:
    async with open_engine(arguments) as engine:
        return await engine.read_cron()


def run_now(arguments: argparse.Namespace) -> int:
    if arguments.app is None:
        raise UsageError(f"say where it is defined: holdfast cron run {arguments.name} --app MODULE:APP")
    entries = {entry.name: entry for entry in _entries(arguments)}
    if arguments.name not in entries:
        known = ", ".join(sorted(entries)) or "none"
        raise UsageError(f"{arguments.app} has no periodic job {arguments.name!r}; it has: {known}")
    job_id = asyncio.run(_submit(arguments, entries[arguments.name].make_job()))
    if arguments.json:
        write_json({"id": str(job_id), "name": arguments.name})
    else:
        print(job_id)
    return Exit.DONE


async def _submit(arguments: argparse.Namespace, job: NewJob) -> UUID:
    async with open_engine(arguments, creates=True) as engine:
        (submitted,) = await engine.submit(Submit(jobs=(job,)))
        return submitted.job_id


def _entries(arguments: argparse.Namespace) -> Sequence["CronEntry"]:
    if arguments.app is None:
        return ()
    app = find_app(arguments.app, arguments.url)
    arguments.url = app.url
    return app.crons


def _lines(entries: Sequence["CronEntry"], state: CronState) -> list[Line]:
    by_name = {entry.name: entry for entry in entries}
    slots = {slot.name: slot for slot in state.slots}
    return [
        Line(name=name, entry=by_name.get(name), slot=slots.get(name), now=state.now)
        for name in sorted(by_name.keys() | slots.keys())
    ]


def _row(line: Line) -> list[Cell]:
    entry, slot, upcoming = line.entry, line.slot, line.next_slot
    return [
        words.safe(line.name),
        words.safe(entry.expression) if entry else "?",
        words.safe(entry.timezone) if entry else "?",
        words.moment(slot.slot) if slot else "never",
        words.age(slot.fired_at, line.now) if slot and slot.job_id else "",
        words.moment(upcoming) if upcoming else "?",
        words.duration((upcoming - line.now).total_seconds()) if upcoming else "",
    ]


def _data(line: Line) -> dict[str, Any]:
    entry, slot = line.entry, line.slot
    return {
        "name": line.name,
        "expression": entry.expression if entry else None,
        "timezone": entry.timezone if entry else None,
        "last_slot": time_text(slot.slot) if slot else None,
        "last_job_id": str(slot.job_id) if slot and slot.job_id else None,
        "fired_at": time_text(slot.fired_at) if slot else None,
        "next_slot": time_text(line.next_slot),
    }
