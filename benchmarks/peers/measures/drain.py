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
    visit.start_workers(workers)
    visit.wait_for(1, timeout_seconds=START_TIMEOUT_SECONDS)
    cpu, store_cpu = cpu_seconds(visit.worker_processes), cpu_seconds(visit.store_processes)
    visit.wait_for(jobs, timeout_seconds=DRAIN_TIMEOUT_SECONDS)
    ended = visit.wait_until(
        lambda: visit.place.pending() == 0,
        timeout_seconds=DRAIN_TIMEOUT_SECONDS,
        what=lambda: f"all but {visit.place.pending()} jobs are terminal",
    )
    cpu, store_cpu = cpu_seconds(visit.worker_processes) - cpu, cpu_seconds(visit.store_processes) - store_cpu
    memory = memory_mib(visit.worker_processes)
    entries = visit.ledger.entries()
    seconds = ended - min(entry.started for entry in entries)
    return Sample(
        figures={
            "rate": jobs / seconds,
            "seconds": seconds,
            "jobs": jobs,
            "settling_seconds": ended - max(entry.started for entry in entries),
            "worker_cpu": cpu * 1000 / jobs,
            "store_cpu": store_cpu * 1000 / jobs,
            "cpu": (cpu + store_cpu) * 1000 / jobs,
            "memory": memory / workers,
            "again": len(entries) - jobs,
            "kept": visit.place.kept(),
        }
    )
