"""A worker and producers at the same time: steady load, and one job at a time on an idle system."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Final

from benchmarks.peers.measures.submit import PRODUCERS
from benchmarks.peers.samples import Sample, percentile
from benchmarks.peers.usage import cpu_seconds
from benchmarks.peers.visits import Visit
from benchmarks.rounds import turns

IDLE_INTERVAL_SECONDS: Final = 0.015
IDLE_TIMEOUT_SECONDS: Final = 30.0
TURN_JOBS: Final = 140
"""About two seconds."""
COLD_JOBS: Final = 5
"""The first of a turn find everything as the others left it, and are not counted."""


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


def measure_latency(
    visits: Mapping[str, Visit],
    *,
    jobs: int,
    rounds: int,
    say: Callable[[int, str], None],
    fail: Callable[[str, Exception], None],
) -> dict[str, list[Sample | None]]:
    """Warm workers with nothing to do are given one job at a time, so many a round.

    All of them are there at the same time and take turns, a few seconds each: how slow the disk is changes from minute
    to minute, and the slowest waits of all are the disk's.
    """
    turns_a_round = ceil(jobs / TURN_JOBS)
    waits: dict[str, list[list[float]]] = {name: [[] for _ in range(rounds)] for name in visits}
    failed: set[str] = set()
    for number, name in turns(list(visits), rounds=rounds * turns_a_round):
        if name in failed:
            continue
        of_round, turn = divmod(number, turns_a_round)
        say(of_round, name)
        try:
            waits[name][of_round] += _waits(visits[name], jobs=min(TURN_JOBS, jobs - turn * TURN_JOBS))
        except Exception as error:
            # Jobs of it may still come: what it did from here on would say nothing.
            failed.add(name)
            visits[name].stop_workers()
            fail(name, error)
    return {
        name: [_sample(found) if len(found) == jobs else None for found in by_round] for name, by_round in waits.items()
    }


def _waits(visit: Visit, *, jobs: int) -> list[float]:
    before = visit.ledger.count
    visit.producer.tell("pace", jobs=COLD_JOBS + jobs, interval=IDLE_INTERVAL_SECONDS)
    visit.wait_for(before + COLD_JOBS + jobs, timeout_seconds=IDLE_TIMEOUT_SECONDS)
    return [entry.wait_seconds for entry in visit.ledger.entries(after=before + COLD_JOBS)]


def _sample(waits: Sequence[float]) -> Sample:
    return Sample(figures={"p50": percentile(waits, 50) * 1000, "p99": percentile(waits, 99) * 1000}, waits=waits)
