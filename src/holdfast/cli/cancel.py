"""``holdfast cancel``: end jobs that have not ended."""

import argparse
from typing import Final
from uuid import UUID

from holdfast.cli import values
from holdfast.cli.command import Commands, add_command, asynchronous
from holdfast.cli.database import add_json, add_url, open_engine
from holdfast.cli.exits import Exit
from holdfast.cli.output import show_table
from holdfast.cli.streams import write_json
from holdfast.core.commands import CancelAnswer, CancelOutcome
from holdfast.core.states import State

EXAMPLES: Final = """
holdfast cancel 5f0c5b1e-8d5e-4b52-9f0e-6f1f3a1f7a55
holdfast jobs --state scheduled --type resize --json | jq -r '.jobs[].id' | holdfast cancel -
"""
DESCRIPTION: Final = """Cancel jobs. One that waits is CANCELLED at once; one that runs is told to stop, and its worker
ends it. Repeats are harmless. Exit code 1 where a job is unknown or has ended in another way."""
SAID: Final = {
    CancelOutcome.CANCELLED: "cancelled",
    CancelOutcome.REQUESTED: "running: its worker is told to stop it",
    CancelOutcome.ALREADY_ENDED: "has ended already",
    CancelOutcome.NOT_FOUND: "no such job",
}


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "cancel",
        help="cancel jobs, waiting or running",
        description=DESCRIPTION,
        examples=EXAMPLES,
        run=asynchronous(run),
    )
    values.add_ids(parser, count="+")
    add_url(parser)
    add_json(parser)


async def run(arguments: argparse.Namespace) -> int:
    ids = values.ids_of(arguments)
    async with open_engine(arguments) as engine:
        answers = await engine.cancel(ids)
    if arguments.json:
        write_json({"jobs": [_data(job_id, answer) for job_id, answer in zip(ids, answers, strict=True)]})
    else:
        rows = [
            [str(job_id), answer.state or "", SAID[answer.outcome]] for job_id, answer in zip(ids, answers, strict=True)
        ]
        show_table(("!ID", "State", "Answer"), rows)
    return Exit.DONE if all(_is_done(answer) for answer in answers) else Exit.NOT_DONE


def _data(job_id: UUID, answer: CancelAnswer) -> dict[str, str | None]:
    return {"id": str(job_id), "outcome": answer.outcome, "state": answer.state}


def _is_done(answer: CancelAnswer) -> bool:
    return answer.outcome in (CancelOutcome.CANCELLED, CancelOutcome.REQUESTED) or answer.state is State.CANCELLED
