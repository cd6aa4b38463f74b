"""Submits with no worker about: ten producers of single jobs in one process, and the library's own bulk call."""

from typing import Final

from benchmarks.peers.samples import Sample
from benchmarks.peers.visits import Visit

PRODUCERS: Final = 10
WARM_UP_SECONDS: Final = 0.3


def measure_singles(visit: Visit, *, seconds: float) -> Sample:
    visit.producer.tell("singles", producers=PRODUCERS, seconds=WARM_UP_SECONDS)
    return _rate(visit.producer.tell("singles", producers=PRODUCERS, seconds=seconds))


def measure_bulk(visit: Visit, *, seconds: float) -> Sample:
    visit.producer.tell("bulk", seconds=WARM_UP_SECONDS)
    return _rate(visit.producer.tell("bulk", seconds=seconds))


def _rate(answer: dict[str, float]) -> Sample:
    return Sample(figures={"rate": answer["jobs"] / answer["seconds"], "jobs": answer["jobs"]})
