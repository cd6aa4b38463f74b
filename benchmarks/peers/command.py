"""The command line of the comparison."""

import argparse
from collections.abc import Sequence
from statistics import median

from benchmarks.bench import Progress
from benchmarks.peers.catalogue import read_systems
from benchmarks.peers.environments import NotInstalled, environment_of
from benchmarks.peers.places import Stores
from benchmarks.peers.runs import FULL, MEASURES, QUICK, expected_seconds, run_measures
from benchmarks.peers.visits import Peer


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    sizes = QUICK if options.quick else FULL
    rounds = options.rounds or sizes.rounds
    measures = [measure for measure in MEASURES if not options.only or measure.name in options.only]
    peers, missing = [], {}
    for system in read_systems():
        if options.systems and system.name not in options.systems:
            continue
        try:
            environment = environment_of(system)
        except NotInstalled as error:
            missing[system.name] = str(error)
            continue
        chosen = [variant for variant in system.variants if not options.variants or variant.name in options.variants]
        peers += [Peer(system=system, variant=variant, environment=environment) for variant in chosen]
    progress = Progress(expected_seconds(measures, peers, rounds))
    with Stores() as stores:
        results = run_measures(measures, peers, stores=stores, sizes=sizes, rounds=rounds, progress=progress)
    progress.clear()
    for measure, by_variant in results.samples.items():
        for variant, samples in by_variant.items():
            figures = [sample.figures for sample in samples if sample]
            if not figures:
                continue
            print(measure, variant, {k: round(median([f[k] or 0 for f in figures]), 3) for k in figures[0]})
    print("\n".join(results.failures), missing)
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers")
    parser.add_argument("--only", nargs="+", choices=[measure.name for measure in MEASURES], metavar="NAME")
    parser.add_argument("--systems", nargs="+", choices=[system.name for system in read_systems()], metavar="NAME")
    parser.add_argument("--variants", nargs="+", metavar="NAME")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--quick", action="store_true")
    return parser.parse_args(arguments)
