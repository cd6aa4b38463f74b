"""``make bench``: Holdfast against the floor, beside other job queues, and alone, as curves.

Exit code 1 where something that is required does not hold, or could not be measured.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks import floor
from benchmarks.curves import command as curves
from benchmarks.peers import command as peers
from benchmarks.peers.runs import NAMES as PEER_NAMES

FLOOR_NAMES: Final = [measure.name for measure in floor.MEASURES]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Of the three parts; None for a part that is not wanted."""

    floor: list[str] | None = None
    peers: list[str] | None = None
    curves: list[str] | None = None


def main(arguments: Sequence[str]) -> int:
    wanted = split(arguments)
    parts: list[tuple[str, Callable[[Sequence[str]], int], list[str] | None]] = [
        ("against raw SQL", floor.main, wanted.floor),
        ("beside other job queues", peers.main, wanted.peers),
        ("alone, as curves", curves.main, wanted.curves),
    ]
    codes = []
    for title, run, given in parts:
        if given is not None:
            print(f"# {title}")
            codes.append(run(given))
    return max(codes)


def split(arguments: Sequence[str]) -> Arguments:
    """A name that two parts know is the floor's, unless only the curves are wanted."""
    parser = _parser()
    options = parser.parse_args(arguments)
    common = [flag for flag, is_given in (("--quick", options.quick), ("--list", options.list)) if is_given]
    names: list[str] = options.only or []
    of_floor, of_peers = ([name for name in names if name in known] for known in (FLOOR_NAMES, list(PEER_NAMES)))
    taken = [] if options.curves_only else [*of_floor, *of_peers]
    of_curves = [name for name in names if name in curves.NAMES and name not in taken]
    only_peers = options.peers_only or options.systems
    wants_floor = not (only_peers or options.curves_only or (names and not of_floor))
    wants_peers = not (options.floor_only or options.curves_only or options.profile or (names and not of_peers))
    only_others = only_peers or options.floor_only or options.profile or options.rounds
    wants_curves = not (only_others or (names and not of_curves))
    if not (wants_floor or wants_peers or wants_curves):
        parser.error("no part has all of that; see --list")
    for_floor = [*common, *_named("--only", of_floor), *(["--profile"] if options.profile else [])]
    for_floor += ["--pinned-jobs", str(options.pinned_jobs)] if options.pinned_jobs else []
    for_peers = [*common, *_named("--only", of_peers), *_named("--systems", options.systems)]
    for_peers += ["--rounds", str(options.rounds)] if options.rounds else []
    return Arguments(
        floor=for_floor if wants_floor else None,
        peers=for_peers if wants_peers else None,
        curves=[*common, *_named("--only", of_curves)] if wants_curves else None,
    )


def _named(option: str, names: Sequence[str] | None) -> list[str]:
    return [option, *names] if names else []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").split("\n")[0])
    names = list(dict.fromkeys((*FLOOR_NAMES, *PEER_NAMES, *curves.NAMES)))
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="some of the measures; see --list")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--floor-only", action="store_true", help="against raw SQL; about ten minutes")
    which.add_argument("--peers-only", action="store_true", help="beside other job queues; about 25 minutes")
    which.add_argument("--curves-only", action="store_true", help="alone, as curves; about 15 minutes")
    parser.add_argument("--systems", nargs="+", metavar="NAME", help="some of the other job queues")
    parser.add_argument("--rounds", type=int, metavar="N", help="beside other job queues; default: 5")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try a change out")
    parser.add_argument("--pinned-jobs", type=int, metavar="N", help="jobs of the measure snapshot; one round of them")
    parser.add_argument("--list", action="store_true", help="what there is to measure")
    parser.add_argument("--profile", action="store_true", help="say where submit and drain spend their time, instead")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
