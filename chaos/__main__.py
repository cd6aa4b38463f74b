"""``make chaos``: faults on a running queue, and whether anything was lost.

Prints the seed first, what strikes while it runs, and the table at the end. Exit code 1 where what is required does not
hold, or where a whole run was asked for and was too small to prove it.
"""

import argparse
import asyncio
import secrets
import sys
import time
from collections.abc import Sequence
from typing import Final

from chaos.faults import FAULTS
from chaos.report import Report
from chaos.run import Settings, run

STORES: Final = {"postgres": (0.38, 0.45), "sqlite": (0.31, 0.4), "standby": (0.31, 0.15)}
"""How time and jobs are shared. PostgreSQL has more kinds of faults; after a failover, all jobs are copied."""
JOBS_A_MINUTE: Final = 8000
DEFAULT_MINUTES: Final = 13.0
DEFAULT_STRIKES: Final = 11


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    jobs = round(JOBS_A_MINUTE * options.minutes) if options.jobs is None else options.jobs
    stores = list(STORES) if options.store == "all" else [options.store]
    report = Report(command=" ".join(("python -m chaos", *arguments)), seed=options.seed)
    print(f"seed {options.seed}", flush=True)
    for store in stores:
        time_share, job_share = STORES[store] if len(stores) > 1 else (1.0, 1.0)
        settings = Settings(
            store=store,
            seed=f"{options.seed}-{store}",
            jobs=round(jobs * job_share),
            seconds=options.minutes * 60 * time_share,
            strikes_a_fault=options.strikes,
            only=options.only or (),
        )
        report.outcomes.append(asyncio.run(run(settings, Progress(store))))
    print(f"\n{report.text()}\n\nwritten to {report.write()}")
    if options.whole and not report.is_whole:
        print("too small: not enough jobs, or a fault that struck too seldom")
        return 1
    return 0 if report.holds else 1


class Progress:
    def __init__(self, store: str) -> None:
        self._store = store
        self._started = time.monotonic()

    def __call__(self, what: str) -> None:
        print(f"{self._store} {time.monotonic() - self._started:6.1f} s  {what}", flush=True)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=(__doc__ or "").split("\n")[0])
    names = [fault.name for fault in FAULTS]
    parser.add_argument("--seed", default=secrets.token_hex(4), help="of everything that is drawn; default: a new one")
    parser.add_argument("--store", choices=(*STORES, "all"), default="all")
    parser.add_argument("--jobs", type=int, help=f"on all stores; default: {JOBS_A_MINUTE} a minute")
    parser.add_argument("--minutes", type=float, default=DEFAULT_MINUTES, help="of faults, on all stores")
    parser.add_argument(
        "--strikes", type=int, default=DEFAULT_STRIKES, help=f"of each fault on each store; default: {DEFAULT_STRIKES}"
    )
    parser.add_argument("--only", nargs="+", choices=names, metavar="FAULT", help=f"some of: {', '.join(names)}")
    options = parser.parse_args(arguments)
    options.whole = (
        options.store == "all"
        and not options.only
        and options.jobs is None
        and options.minutes >= DEFAULT_MINUTES
        and options.strikes >= DEFAULT_STRIKES
    )
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
