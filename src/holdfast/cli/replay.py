"""``holdfast replay``: run dead jobs again, named one by one or chosen by a filter."""

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from holdfast.cli import values, words
from holdfast.cli.command import Commands, add_command, asynchronous
from holdfast.cli.database import add_json, add_url, open_engine
from holdfast.cli.exits import Exit
from holdfast.cli.output import error_console, show_table
from holdfast.cli.streams import write_json
from holdfast.core.commands import Filter, ReplayAnswer, ReplayOutcome
from holdfast.core.errors import UsageError
from holdfast.core.states import REPLAYABLE
from holdfast.engine.engine import Engine

EXAMPLES: Final = """
holdfast replay 5f0c5b1e-8d5e-4b52-9f0e-6f1f3a1f7a55
holdfast replay --type resize --since 2h --dry-run     how many would that be?
holdfast replay --queue media --state dead_letter
holdfast replay --all
"""
DESCRIPTION: Final = """Run FAILED and DEAD_LETTER jobs again: attempts and lifetime start again, history stays.
Jobs in any other state are left as they are, so a repeat is harmless. Jobs that ended because of a dependency come back
with it."""
PAGE_JOBS: Final = 500


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "replay",
        help="run dead jobs again",
        description=DESCRIPTION,
        examples=EXAMPLES,
        run=asynchronous(run),
    )
    values.add_ids(parser, count="*")
    parser.add_argument("--all", action="store_true", help="every FAILED and DEAD_LETTER job")
    parser.add_argument("--dry-run", action="store_true", help="count the jobs, change nothing")
    values.add_filter(parser, which=REPLAYABLE)
    add_url(parser)
    add_json(parser)


async def run(arguments: argparse.Namespace) -> int:
    ids = values.ids_of(arguments)
    _require_one_choice(arguments, ids)
    async with open_engine(arguments) as engine:
        if ids and arguments.dry_run:
            return await _count_named(engine, ids, is_json=arguments.json)
        if ids:
            return _show_answers(await engine.replay(ids), is_json=arguments.json)
        where = values.filter_of(arguments, states=REPLAYABLE)
        if arguments.dry_run:
            return _show_count(await _count(engine, where), is_json=arguments.json)
        return _show_totals(await _replay_where(engine, where), is_json=arguments.json)


def _require_one_choice(arguments: argparse.Namespace, ids: Sequence[UUID]) -> None:
    chosen = [bool(arguments.ids), values.is_filtered(arguments), arguments.all]
    if sum(chosen) != 1:
        raise UsageError("say which jobs: IDs, or a filter such as --queue media --since 2h, or --all")
    if arguments.ids and not ids:
        raise UsageError("standard input named no job")
    wrong = [state for state in arguments.state or () if not state.is_replayable]
    if wrong:
        raise UsageError(f"--state {wrong[0].lower()}: only failed and dead_letter jobs can be replayed")


async def _count_named(engine: Engine, ids: Sequence[UUID], *, is_json: bool) -> int:
    jobs = await engine.read(ids)
    return _show_count(sum(job is not None and job.state.is_replayable for job in jobs), is_json=is_json)


async def _count(engine: Engine, where: Filter) -> int:
    total, cursor = 0, None
    while True:
        page = await engine.read_page(where, limit=PAGE_JOBS, cursor=cursor)
        total += len(page.jobs)
        cursor = page.next_cursor
        if cursor is None:
            return total


async def _replay_where(engine: Engine, where: Filter) -> Counter[ReplayOutcome]:
    totals: Counter[ReplayOutcome] = Counter()
    cursor = None
    with _progress() as progress:
        task = progress.add_task("replaying", total=await _expected(engine, where))
        while True:
            page = await engine.replay_where(where, limit=PAGE_JOBS, cursor=cursor)
            totals.update(answer.outcome for answer in page.answers)
            progress.advance(task, len(page.answers))
            cursor = page.next_cursor
            if cursor is None:
                _finish(progress, task, totals.total())
                return totals


def _progress() -> Progress:
    console = error_console()
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


async def _expected(engine: Engine, where: Filter) -> int | None:
    """How many there are, where the counts can tell; a filter by anything but queue and state cannot be counted."""
    if where.type or where.tag or where.created_from or where.created_until:
        return None
    return sum(
        queue.counts.get(state, 0)
        for queue in await engine.read_queues()
        if where.queue in (None, queue.name)
        for state in where.states or ()
    )


def _finish(progress: Progress, task: TaskID, total: int) -> None:
    progress.update(task, total=total, completed=total)


def _show_count(count: int, *, is_json: bool) -> int:
    if is_json:
        write_json({"dry_run": True, "matching": count})
    else:
        print(f"{words.count_of(count, 'job')} would be replayed; nothing was changed")
    return Exit.DONE


def _show_totals(totals: Counter[ReplayOutcome], *, is_json: bool) -> int:
    if is_json:
        write_json({outcome.lower(): totals[outcome] for outcome in ReplayOutcome})
        return Exit.DONE
    print(f"{words.count_of(totals[ReplayOutcome.REPLAYED], 'job')} replayed")
    if came_back := totals[ReplayOutcome.ENDED_BY_DEPENDENCY]:
        print(f"{words.count_of(came_back, 'job')} ended because of a dependency: replayed with it, never alone")
    return Exit.DONE


def _show_answers(answers: Sequence[ReplayAnswer], *, is_json: bool) -> int:
    if is_json:
        write_json({"jobs": [_data(answer) for answer in answers]})
    else:
        show_table(
            ("!ID", "State", "Answer"),
            [[str(answer.job_id), answer.state or "", _said(answer)] for answer in answers],
        )
    done = (ReplayOutcome.REPLAYED, ReplayOutcome.UNCHANGED)
    return Exit.DONE if all(answer.outcome in done for answer in answers) else Exit.NOT_DONE


def _data(answer: ReplayAnswer) -> dict[str, str | None]:
    dependency = None if answer.dependency_id is None else str(answer.dependency_id)
    return {
        "id": str(answer.job_id),
        "outcome": answer.outcome,
        "state": answer.state,
        "dependency_id": dependency,
    }


def _said(answer: ReplayAnswer) -> str:
    match answer.outcome:
        case ReplayOutcome.REPLAYED:
            return "replayed"
        case ReplayOutcome.UNCHANGED:
            return "unchanged: only FAILED and DEAD_LETTER jobs are replayed"
        case ReplayOutcome.ENDED_BY_DEPENDENCY:
            return f"ended because of its dependency; run: holdfast replay {answer.dependency_id}"
        case ReplayOutcome.NOT_FOUND:
            return "no such job"
