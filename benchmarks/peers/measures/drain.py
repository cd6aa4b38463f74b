"""Jobs wait, then a worker starts: how fast until the store says that all are terminal, and what it costs.

The clock starts with the first handler, so that imports and connecting are left out, and stops when the store has
nothing left that is not terminal. The store is only asked once all handlers have begun: asking must not disturb.
"""

from typing import Final

from benchmarks.peers.samples import Sample
from benchmarks.peers.usage import cpu_seconds, memory_mib
from benchmarks.peers.visits import START_TIMEOUT_SECONDS, Visit

DRAIN_TIMEOUT_SECONDS: Final = 60.0


def measure_drain(visit: Visit, *, jobs: int, workers: int) -> Sample:
    visit.producer.tell("fill", jobs=jobs)
    visit.place.settle_down()
    return drain_filled(visit, jobs=jobs, workers=workers)


def drain_filled(visit: Visit, *, jobs: int, workers: int = 1) -> Sample:
    """The jobs are there, as many as are said; the workers are running afterwards."""
    earlier = visit.ledger.count
    visit.start_workers(workers)
    visit.wait_for(earlier + 1, timeout_seconds=START_TIMEOUT_SECONDS)
    before = cpu_of(visit)
    begun, used = visit.wait_for(earlier + jobs, timeout_seconds=DRAIN_TIMEOUT_SECONDS), cpu_of(visit)
    ended = visit.wait_until(
        lambda: visit.place.pending() == 0,
        timeout_seconds=DRAIN_TIMEOUT_SECONDS,
        what=lambda: f"all but {visit.place.pending()} jobs are terminal",
    )
    if visit.place.is_asked_at_once:
        used = cpu_of(visit)
    else:
        ended = begun
    memory = memory_mib(visit.worker_processes)
    starts = [entry.started for entry in visit.ledger.entries(after=earlier)]
    worker_cpu, store_cpu = ((after - start) * 1000 / jobs for after, start in zip(used, before, strict=True))
    return Sample(
        figures={
            "rate": jobs / (ended - min(starts)),
            "jobs": jobs,
            "seconds": ended - min(starts),
            "settling_seconds": ended - max(starts),
            "worker_cpu": worker_cpu,
            "store_cpu": store_cpu,
            "cpu": worker_cpu + store_cpu,
            "memory": memory / workers,
            "run_again": len(starts) - jobs,
            "kept": visit.place.kept(),
        }
    )


def cpu_of(visit: Visit) -> tuple[float, float]:
    """Seconds of the workers and of the store."""
    return cpu_seconds(visit.worker_processes), cpu_seconds(visit.store_processes)
