"""``holdfast doctor``: every rule that a live database must keep, asked of it; and repairs."""

import argparse
from typing import Any, Final

from holdfast.cli import values, words
from holdfast.cli.command import Commands, add_command, asynchronous
from holdfast.cli.database import add_json, add_url, open_engine
from holdfast.cli.exits import Exit
from holdfast.cli.streams import note, write_json
from holdfast.core import limits
from holdfast.core.errors import SchemaMismatch, SchemaMissing
from holdfast.core.examination import Code, Examination, Finding, Found, Severity, finding_of
from holdfast.core.liveness import LATE_SECONDS
from holdfast.engine.doctor import Diagnosis

EXAMPLES: Final = """
holdfast doctor                   what is wrong, and what to do about it
holdfast doctor --repair          put right what can be put right beside running workers
holdfast doctor --deep            all jobs, also those that have ended
holdfast doctor --json | jq -r '.findings[].code'
"""
DESCRIPTION: Final = f"""Ask a live database whether it keeps every rule that it must keep: where jobs stand, counts,
dependencies, marks, leases, times, privileges, versions, clocks. It reads one snapshot, changes nothing and may run
beside workers. Cheap at any number of jobs: what is overdue, leases, marks, the server. In proportion to the jobs that
have not ended: counts. Of each table the newest {limits.EXAMINED_JOBS:,} rows are walked over; --deep walks over all.
Exit code 1 where anything is wrong; warnings do not count."""


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "doctor",
        help="check a live database, and repair it",
        description=DESCRIPTION,
        examples=EXAMPLES,
        run=asynchronous(run),
    )
    parser.add_argument(
        "--repair", action="store_true", help="put right what is safe to put right beside running workers"
    )
    parser.add_argument(
        "--deep",
        action="store_true",
        help="walk over all jobs; takes seconds a million, and holds nobody up but vacuum",
    )
    parser.add_argument(
        "--patience",
        type=values.seconds,
        default=LATE_SECONDS,
        metavar="SECONDS",
        help="look so long at jobs past their time before they are called overdue: they may have been committed late; "
        f"default: {LATE_SECONDS:.0f}",
    )
    add_url(parser)
    add_json(parser)


async def run(arguments: argparse.Namespace) -> int:
    diagnosis = await _diagnose(arguments)
    if arguments.json:
        write_json({"findings": [_data(finding) for finding in diagnosis.findings], "checked": list(diagnosis.checked)})
    else:
        _show(diagnosis)
    return Exit.DONE if diagnosis.is_healthy else Exit.NOT_DONE


async def _diagnose(arguments: argparse.Namespace) -> Diagnosis:
    try:
        async with open_engine(arguments, migrates=False) as engine:
            doctor = engine.doctor(Examination(is_deep=arguments.deep), patience_seconds=arguments.patience, say=note)
            return await (doctor.repair if arguments.repair else doctor.examine)()
    except (SchemaMissing, SchemaMismatch) as error:
        # Of tables of another version nothing else can be said.
        finding = finding_of(Found(Code.MIGRATIONS_PENDING, 1, (), str(error)))
        return Diagnosis((finding,), (Code.MIGRATIONS_PENDING,))


def _data(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.severity,
        "count": finding.count,
        "what": finding.what,
        "advice": finding.advice,
        "examples": list(finding.examples),
        "repaired": finding.repaired,
    }


def _show(diagnosis: Diagnosis) -> None:
    for finding in diagnosis.findings:
        print(f"{_label(finding)}  {finding.code}  {words.number(finding.count)}  {words.safe(finding.what)}")
        for example in finding.examples:
            print(f"          {words.safe(example)}")
        if finding.repaired < finding.count:
            print(f"          → {words.safe(finding.advice)}")
    wrong = sum(finding.is_wrong for finding in diagnosis.findings)
    said = f"{words.count_of(wrong, 'thing')} wrong" if wrong else "nothing wrong"
    print(f"{words.count_of(len(diagnosis.checked), 'check')}: {said}")


def _label(finding: Finding) -> str:
    if finding.repaired == finding.count:
        return "repaired"
    return {Severity.WRONG: "wrong   ", Severity.WARNING: "warning "}[finding.severity]
