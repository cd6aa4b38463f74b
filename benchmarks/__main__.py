"""``make bench``: Holdfast against the floor, then beside other job queues.

Exit code 1 where something that is required does not hold, or could not be measured.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from benchmarks import floor
from benchmarks.peers import command as peers

FLOOR_NAMES: Final = [measure.name for measure in floor.MEASURES]


def main(arguments: Sequence[str]) -> int:
    for_floor, for_peers = split(arguments)
    codes = []
    if for_floor is not None:
        codes.append(floor.main(for_floor))
    if for_peers is not None:
        codes.append(peers.main(for_peers))
    return max(codes)


def split(arguments: Sequence[str]) -> tuple[list[str] | None, list[str] | None]:
    """The arguments of the two parts; None for a part that is not wanted."""
    options = _parser().parse_args(arguments)
    common = [flag for flag, is_given in (("--quick", options.quick), ("--list", options.list)) if is_given]
    names: list[str] = options.only or []
    of_floor, of_peers = ([name for name in names if name in known] for known in (FLOOR_NAMES, list(peers.NAMES)))
    wants_peers = not (options.floor_only or options.profile or (names and not of_peers))
    wants_floor = not (options.peers_only or options.systems or (names and not of_floor))
    for_floor = [*common, *_named("--only", of_floor), *(["--profile"] if options.profile else [])]
    for_peers = [*common, *_named("--only", of_peers), *_named("--systems", options.systems)]
    for_peers += ["--rounds", str(options.rounds)] if options.rounds else []
    return for_floor if wants_floor else None, for_peers if wants_peers else None


def _named(option: str, names: Sequence[str] | None) -> list[str]:
    return [option, *names] if names else []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").split("\n")[0])
    names = [*FLOOR_NAMES, *peers.NAMES]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="some of the measures; see --list")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--floor-only", action="store_true", help="against raw SQL; about ten minutes")
    which.add_argument("--peers-only", action="store_true", help="beside other job queues; about 25 minutes")
    parser.add_argument("--systems", nargs="+", metavar="NAME", help="some of the other job queues")
    parser.add_argument("--rounds", type=int, metavar="N", help="beside other job queues; default: 5")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try a change out")
    parser.add_argument("--list", action="store_true", help="what there is to measure")
    parser.add_argument("--profile", action="store_true", help="say where submit and drain spend their time, instead")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
