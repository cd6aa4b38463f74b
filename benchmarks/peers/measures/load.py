"""A worker and producers at the same time: steady load, and one job at a time on an idle system."""

from typing import Final

from benchmarks.peers.measures.submit import PRODUCERS
from benchmarks.peers.samples import Sample, percentile
from benchmarks.peers.usage import cpu_seconds
from benchmarks.peers.visits import Visit

IDLE_INTERVAL_SECONDS: Final = 0.015
IDLE_TIMEOUT_SECONDS: Final = 30.0


def measure_steady(visit: Visit, *, seconds: float) -> Sample:
    """Ten producers at full speed: how many jobs begin while they submit, and how long those have waited."""
    visit.start_workers()
    before = visit.warm_up()
    cpu = cpu_seconds(visit.processes)
    answer = visit.producer.tell("singles", producers=PRODUCERS, seconds=seconds)
    cpu = cpu_seconds(visit.processes) - cpu
    ended = answer["ended"] / 1e6
    waits = [entry.wait_seconds for entry in visit.ledger.entries(after=before) if entry.started <= ended]
    return Sample(
        figures={
            "rate": len(waits) / answer["seconds"],
            "submitted": answer["jobs"] / answer["seconds"],
            "p50": percentile(waits, 50) * 1000,
            "p99": percentile(waits, 99) * 1000,
            "cpu": cpu * 1000 / len(waits),
        },
        waits=waits,
    )


def measure_latency(visit: Visit, *, jobs: int) -> Sample:
    """A warm worker with nothing to do is given one job at a time."""
    visit.start_workers()
    before = visit.warm_up()
    visit.producer.tell("pace", jobs=jobs, interval=IDLE_INTERVAL_SECONDS)
    visit.wait_for(before + jobs, timeout_seconds=IDLE_TIMEOUT_SECONDS)
    waits = [entry.wait_seconds for entry in visit.ledger.entries(after=before)]
    return Sample(figures={"p50": percentile(waits, 50) * 1000, "p99": percentile(waits, 99) * 1000}, waits=waits)
