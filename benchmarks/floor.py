"""``make bench``: measure Holdfast against raw SQL and say whether what is required holds.

Runs the measures one after the other, prints the table, writes it to ``results/bench/``. Exit code 1 where a
requirement does not hold or could not be measured.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from benchmarks import report
from benchmarks.bench import QUICK_FRACTION, Bench, Measure, Progress
from benchmarks.figures import Missing
from benchmarks.postgres import databases, growth, singles, throughput, wal
from benchmarks.profile_drain import profile
from benchmarks.sqlite import measures as sqlite
from benchmarks.workload import FULL, QUICK

MEASURES: Final = (
    Measure(
        name="throughput",
        about="PostgreSQL: claim + settle, submit, batch against single inserts",
        seconds=60,
        run=throughput.measure_throughput,
    ),
    Measure(name="wal", about="PostgreSQL: bytes of write-ahead log a job", seconds=60, run=wal.measure_wal),
    Measure(
        name="singles",
        about="PostgreSQL: single submits by ten tasks, by one, by hand",
        seconds=30,
        run=singles.measure_singles,
    ),
    Measure(name="backlog", about="PostgreSQL: behind a million waiting jobs", seconds=60, run=growth.measure_backlog),
    Measure(name="queues", about="PostgreSQL: many queues", seconds=60, run=growth.measure_queues),
    Measure(name="types", about="PostgreSQL: behind jobs of other types", seconds=40, run=growth.measure_types),
    Measure(
        name="snapshot",
        about="PostgreSQL: while somebody holds a transaction open, reading or writing",
        seconds=200,
        run=growth.measure_snapshot,
    ),
    Measure(name="history", about="PostgreSQL: with five million ended jobs", seconds=200, run=growth.measure_history),
    Measure(name="sqlite", about="SQLite: claim + settle", seconds=20, run=sqlite.measure_drain),
    Measure(
        name="sqlite-singles",
        about="SQLite: single submits by ten tasks, by one, by hand",
        seconds=30,
        run=sqlite.measure_singles,
    ),
)


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    if options.list:
        print("\n".join(f"{measure.name:15} {measure.about}" for measure in MEASURES))
        return 0
    if options.profile:
        asyncio.run(profile())
        return 0
    chosen = [measure for measure in MEASURES if not options.only or measure.name in options.only]
    return asyncio.run(_run(chosen, options, " ".join(("python -m benchmarks.floor", *arguments))))


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.floor", description=(__doc__ or "").split("\n")[0])
    names = [measure.name for measure in MEASURES]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="some of the measures; see --list")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try a change out")
    parser.add_argument("--pinned-jobs", type=int, metavar="N", help="jobs of the measure snapshot; one round of them")
    parser.add_argument("--list", action="store_true", help="what there is to measure")
    parser.add_argument("--profile", action="store_true", help="say where submit and drain spend their time, instead")
    return parser.parse_args(arguments)


async def _run(measures: Sequence[Measure], options: argparse.Namespace, command: str) -> int:
    sizes = QUICK if options.quick else FULL
    if options.pinned_jobs:
        sizes = replace(sizes, pinned_jobs=options.pinned_jobs, pinned_rounds=1)
    share = QUICK_FRACTION if options.quick else 1.0
    progress = Progress(sum(measure.seconds * share for measure in measures))
    bench = Bench(sizes, progress)
    run = report.Run(command=command, sizes=sizes, is_partial=sizes is not FULL or bool(options.only))
    started = time.monotonic()
    try:
        for measure in measures:
            bench.say(measure.about)
            try:
                run.figures += await measure.run(bench)
            except Exception as error:
                run.figures.append(
                    Missing(measured=measure.about, why=f"{type(error).__name__}: {error}".splitlines()[0])
                )
            progress.finish(measure.seconds * share)
        if bench.has_server:
            run.settings = await databases.settings(bench.server)
    finally:
        progress.clear()
        bench.close()
    run.seconds = time.monotonic() - started
    return _report(run)


def _report(run: report.Run) -> int:
    print("\n".join(f"{name}: {value}" for name, value in {**report.versions(), **run.settings}.items()), end="\n\n")
    print(report.table(run.figures), end="\n\n")
    print("\n".join(report.details(run.figures)), end="\n\n")
    print(f"written to {report.write(run)}")
    return 0 if run.holds else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
