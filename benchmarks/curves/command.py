"""The command line of the curves."""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks import report as floor_report
from benchmarks.bench import QUICK_FRACTION, Progress
from benchmarks.curves import report
from benchmarks.curves.catalogue import CURVES, Curve
from benchmarks.curves.session import FULL, QUICK, Session
from benchmarks.peers.places import Stores
from benchmarks.peers.report import terminal_table
from benchmarks.postgres import databases
from benchmarks.sqlite.side import RawSide

NAMES: Final = {curve.name: curve.about for curve in CURVES}


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    if options.list:
        print("\n".join(f"{name:15} {about}" for name, about in NAMES.items()))
        return 0
    chosen = [curve for curve in CURVES if not options.only or curve.name in options.only]
    share = QUICK_FRACTION if options.quick else 1.0
    started = time.monotonic()
    with Stores() as stores:
        progress = Progress(sum(curve.seconds for curve in chosen) * share)
        session = Session(stores=stores, sizes=QUICK if options.quick else FULL, progress=progress)
        for curve in chosen:
            _run(session, curve)
            progress.finish(curve.seconds * share)
        progress.clear()
        settings = {
            **floor_report.versions(),
            **asyncio.run(databases.settings(stores.postgres)),
            **_sqlite_settings(),
        }
    run = report.Run(
        command=" ".join(("python -m benchmarks.curves", *arguments)),
        sizes=session.sizes,
        is_partial=bool(options.only or options.quick),
        curves=chosen,
        points=session.points,
        results=session.results,
        flames=session.flames,
        seconds=time.monotonic() - started,
        settings=settings,
    )
    return _report(run)


def _run(session: Session, curve: Curve) -> None:
    """What keeps a whole curve from being measured is one failure of many points."""
    session.say(f"{curve.name}: {curve.about}")
    session.attempt(curve.name, "all of it", lambda: curve.run(session))


def _sqlite_settings() -> dict[str, str]:
    """Of a file that is opened as the store opens its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = RawSide(Path(folder) / "jobs.db")
        try:
            return {f"SQLite {name}": str(file.setting(name)) for name in ("journal_mode", "synchronous")}
        finally:
            file.close()


def _report(run: report.Run) -> int:
    print("\n".join(f"{name}: {value}" for name, value in run.settings.items()), end="\n\n")
    for curve in run.curves:
        print(f"{curve.name}: {curve.about}")
        if curve.name != "flame":
            print(terminal_table(report.curve_table(run, curve)), end="\n\n")
    for flame in run.flames:
        print(f"{flame.store}, {flame.samples} samples")
        print(terminal_table(report.parts_table(flame)), end="\n\n")
        print(terminal_table(report.towers_table(flame)), end="\n\n")
    print("\n".join([*map(str, run.results.failures), ""]))
    print(f"written to {report.write(run)}")
    return 0 if run.holds else 1


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curves", description="Measure Holdfast alone.")
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="NAME", help="some of the curves; see --list")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try a change out")
    parser.add_argument("--list", action="store_true", help="what there is to measure")
    return parser.parse_args(arguments)
