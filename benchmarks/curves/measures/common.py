"""What most curves do at a point: drain jobs that wait, then let jobs arrive at a worker that keeps up easily."""

import random
from collections.abc import Sequence
from typing import Any, Final

from benchmarks.peers.ledger import Entry
from benchmarks.peers.measures.drain import cpu_of, drain_filled
from benchmarks.peers.samples import Sample
from benchmarks.peers.visits import START_TIMEOUT_SECONDS, Visit

ARRIVALS_A_SECOND: Final = 400.0
"""About a tenth of what a worker can do: a wait is then the way of a job, and not a queue before it."""
ARRIVALS_TIMEOUT_SECONDS: Final = 60.0


def drain_and_arrivals(
    visit: Visit, *, jobs: int, arrivals: int, rate: float = ARRIVALS_A_SECOND, **given: object
) -> Sample:
    """The jobs are there; the worker is running afterwards. ``given`` says what arrives."""
    drained = drain_filled(visit, jobs=jobs)
    waits = arrive(visit, jobs=arrivals, rate=rate, **given)
    return Sample(figures={**drained.figures, "waits": len(waits)}, waits=waits)


def arrive(visit: Visit, *, jobs: int, rate: float, **given: object) -> list[float]:
    """Seconds from each arrival's time to its start; the worker is running."""
    before = visit.ledger.count
    tell_arrivals(visit, jobs=jobs, rate=rate, **given)
    visit.wait_for(before + jobs, timeout_seconds=ARRIVALS_TIMEOUT_SECONDS)
    return [entry.wait_seconds for entry in visit.ledger.entries(after=before)]


def tell_arrivals(visit: Visit, *, jobs: int, rate: float, **given: object) -> dict[str, Any]:
    return visit.producer.tell("arrivals", jobs=jobs, rate=rate, seed=random.randrange(2**32), **given)


def drain_within(visit: Visit, *, jobs: int, skip: int) -> dict[str, float | None]:
    """So many of more jobs that wait, after the first ones: from start to start, both at full speed."""
    earlier = visit.ledger.count
    visit.start_workers()
    visit.wait_for(earlier + skip, timeout_seconds=START_TIMEOUT_SECONDS)
    before = cpu_of(visit)
    visit.wait_for(earlier + jobs, timeout_seconds=ARRIVALS_TIMEOUT_SECONDS)
    worker, store = (used - start for used, start in zip(cpu_of(visit), before, strict=True))
    entries = visit.ledger.entries(after=earlier)
    starts = sorted(entry.started for entry in entries)[skip:jobs]
    ran = len(entries) - skip
    return {
        "rate": (len(starts) - 1) / (starts[-1] - starts[0]),
        "worker_cpu": worker * 1000 / ran,
        "store_cpu": store * 1000 / ran,
    }


def waits_of(entries: Sequence[Entry]) -> list[float]:
    """Of the jobs that arrived while jobs without a time of their own were still beginning."""
    filled = [entry.started for entry in entries if entry.submitted == 0]
    last = max(filled, default=0.0)
    return [entry.wait_seconds for entry in entries if 0 < entry.submitted < last]
