"""A worker and producers at the same time: steady load, and one job at a time on an idle system."""

import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from statistics import median
from typing import Final

from benchmarks.peers.measures.submit import PRODUCERS
from benchmarks.peers.samples import Sample, percentile
from benchmarks.peers.usage import cpu_seconds
from benchmarks.peers.visits import Visit
from benchmarks.rounds import turns

IDLE_INTERVAL_SECONDS: Final = 0.015
IDLE_TIMEOUT_SECONDS: Final = 30.0
TURN_JOBS: Final = 30
"""Half a second: the disk has bad moments of a few seconds, which all must share."""
COLD_JOBS: Final = 5
"""The first of a turn: they find everything as the others left it, and a poller asleep. Told apart, see ``_waits``."""

LONGEST_POLL_SECONDS: Final = 0.5
"""Of any system while it is awake."""


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

    All of them are there at the same time and take short turns: the slowest waits of all are the disk's, and what it
    does to one it should do to all.
    """
    turns_a_round = ceil(jobs / TURN_JOBS)
    waits: dict[str, list[list[float]]] = {name: [[] for _ in range(rounds)] for name in visits}
    firsts: dict[str, list[list[float]]] = {name: [[] for _ in range(rounds)] for name in visits}
    failed: set[str] = set()
    for name, visit in visits.items():
        try:
            visit.place.settle_down()
        except Exception as error:
            failed.add(name)
            fail(name, error)
    # What was left to be written is written before, not meanwhile.
    os.sync()
    for number, name in turns(list(visits), rounds=rounds * turns_a_round):
        if name in failed:
            continue
        of_round, turn = divmod(number, turns_a_round)
        say(of_round, name)
        try:
            first, counted = _waits(visits[name], jobs=min(TURN_JOBS, jobs - turn * TURN_JOBS))
            firsts[name][of_round].append(first)
            waits[name][of_round] += counted
        except Exception as error:
            # Jobs of it may still come: what it did from here on would say nothing.
            failed.add(name)
            visits[name].stop_workers()
            fail(name, error)
    return {
        name: [
            _sample(counted, first) if len(counted) >= jobs else None
            for counted, first in zip(waits[name], firsts[name], strict=True)
        ]
        for name in visits
    }


def _waits(visit: Visit, *, jobs: int) -> tuple[float, list[float]]:
    """Of the first job after the pause, and of those that count: they come once the worker is awake.

    They begin at any moment between two looks of a poller, not always just after one.
    """
    first, *_ = _pace(visit, jobs=COLD_JOBS)
    time.sleep(random.uniform(0, LONGEST_POLL_SECONDS))
    return first, _pace(visit, jobs=jobs)


def _pace(visit: Visit, *, jobs: int) -> list[float]:
    before = visit.ledger.count
    visit.producer.tell("pace", jobs=jobs, interval=IDLE_INTERVAL_SECONDS)
    visit.wait_for(before + jobs, timeout_seconds=IDLE_TIMEOUT_SECONDS)
    entries = sorted(visit.ledger.entries(after=before), key=lambda entry: entry.submitted)
    return [entry.wait_seconds for entry in entries]


def _sample(waits: Sequence[float], firsts: Sequence[float]) -> Sample:
    figures = {
        "p50": percentile(waits, 50) * 1000,
        "p99": percentile(waits, 99) * 1000,
        "first": median(firsts) * 1000,
    }
    return Sample(figures=figures, waits=waits)
