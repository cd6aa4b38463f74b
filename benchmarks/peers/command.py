"""The command line of the comparison."""

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks import report as floor_report
from benchmarks.bench import Progress
from benchmarks.peers import report
from benchmarks.peers.catalogue import System, Variant, read_systems
from benchmarks.peers.environments import NoInterpreter, NotInstalled, environment_of
from benchmarks.peers.places import Stores
from benchmarks.peers.required import findings
from benchmarks.peers.runs import FULL, LATENCY, MEASURES, NAMES, QUICK, REST, Runner, expected_seconds
from benchmarks.peers.samples import Failure
from benchmarks.peers.visits import Peer
from benchmarks.postgres import databases

STORE_ORDER: Final = ("postgres", "sqlite", "redis", "rabbitmq")
"""Those that are compared most closely take their turns next to one another."""


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    if options.list:
        print("\n".join(f"{name:15} {about}" for name, about in NAMES.items()))
        return 0
    sizes = QUICK if options.quick else FULL
    rounds = options.rounds or sizes.rounds
    measures = options.only or list(NAMES)
    party = _assemble(options)
    started = time.monotonic()
    with Stores() as stores:
        progress = Progress(expected_seconds(measures, party.peers, sizes=sizes, rounds=rounds))
        runner = Runner(stores=stores, sizes=sizes, rounds=rounds, progress=progress)
        runner.results.failures += party.failures
        for measure in MEASURES:
            if measure.name in measures:
                runner.run(measure, party.peers)
        if LATENCY in measures:
            runner.run_latency(party.peers)
        if REST in measures:
            runner.run_rest(party.peers)
        progress.clear()
        settings = {**floor_report.versions(), **asyncio.run(databases.settings(stores.postgres)), **stores.versions()}
    known = {peer.name for peer in party.peers} | {failure.variant for failure in party.failures}
    run = report.Run(
        command=" ".join(("python -m benchmarks.peers", *arguments)),
        sizes=sizes,
        rounds=rounds,
        is_partial=bool(options.only or options.systems or options.variants or options.quick) or rounds < FULL.rounds,
        systems=party.systems,
        results=runner.results,
        left_out=party.left_out,
        seconds=time.monotonic() - started,
        settings=settings,
        findings=findings(runner.results, measures, known),
    )
    return _report(run)


@dataclass(slots=True, kw_only=True)
class Party:
    """Who takes part, and who cannot."""

    systems: list[System] = field(default_factory=list)
    peers: list[Peer] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)


def _assemble(options: argparse.Namespace) -> Party:
    party = Party()
    for system in read_systems():
        variants = [variant for variant in system.variants if _is_wanted(system, variant, options)]
        if not variants:
            continue
        party.systems.append(system)
        try:
            environment = environment_of(system)
        except NoInterpreter as error:
            party.left_out[system.title] = str(error)
        except NotInstalled as error:
            why = f"cannot be installed: {error}"
            party.failures += [Failure(variant=variant.name, why=why) for variant in variants]
        else:
            party.peers += [Peer(system=system, variant=variant, environment=environment) for variant in variants]
    party.peers.sort(key=lambda peer: STORE_ORDER.index(peer.variant.store))
    return party


def _is_wanted(system: System, variant: Variant, options: argparse.Namespace) -> bool:
    is_system = not options.systems or system.name in options.systems
    return is_system and (not options.variants or variant.name in options.variants)


def _report(run: report.Run) -> int:
    print("\n".join(f"{name}: {value}" for name, value in run.settings.items()), end="\n\n")
    print(report.terminal_table(report.figures_table(run)), end="\n\n")
    if run.findings:
        print(floor_report.table(run.findings), end="\n\n")
    print("\n".join(floor_report.details(run.findings)), end="\n\n")
    notes = [f"{name}: left out, {why}" for name, why in run.left_out.items()]
    notes += [str(failure) for failure in run.results.failures] + report.run_again(run)
    print("\n".join([*notes, ""]))
    print(f"written to {report.write(run)}")
    return 0 if run.holds else 1


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description="Measure Holdfast beside other job queues."
    )
    systems = read_systems()
    variants = [variant.name for system in systems for variant in system.variants]
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="NAME", help="some of the measures; see --list")
    parser.add_argument(
        "--systems", nargs="+", choices=[system.name for system in systems], metavar="NAME", help="some of the systems"
    )
    parser.add_argument("--variants", nargs="+", choices=variants, metavar="NAME", help="some of their settings")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"default: {FULL.rounds}, with --quick {QUICK.rounds}")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try a change out")
    parser.add_argument("--list", action="store_true", help="what there is to measure")
    return parser.parse_args(arguments)
