"""The measures, and how they are run: round by round, every system once a round, each round starting with another."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.bench import Progress
from benchmarks.peers.catalogue import Variant
from benchmarks.peers.measures.drain import measure_drain
from benchmarks.peers.measures.load import measure_idle, measure_steady
from benchmarks.peers.measures.submit import measure_bulk, measure_singles
from benchmarks.peers.places import Stores
from benchmarks.peers.programs import PeerFailed
from benchmarks.peers.samples import Sample
from benchmarks.peers.visits import Peer, Visit, visit

TWO_WORKERS: Final = ("holdfast", "pgqueuer", "graphile-worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    name: str
    rounds: int
    drain_share: float
    submit_seconds: float
    steady_seconds: float
    idle_jobs: int
    """A round; the rounds together must give 2000 for a p99."""
    rest_seconds: float


FULL: Final = Sizes(
    name="full", rounds=5, drain_share=1.0, submit_seconds=1.5, steady_seconds=3.0, idle_jobs=420, rest_seconds=31.0
)
QUICK: Final = Sizes(
    name="quick", rounds=2, drain_share=0.3, submit_seconds=0.7, steady_seconds=1.5, idle_jobs=100, rest_seconds=10.0
)
MIN_SAMPLES: Final = 2000
"""For a p99."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    name: str
    about: str
    seconds: float
    """A visit's, with the full sizes."""
    applies: Callable[[Variant], bool]
    run: Callable[[Visit, Sizes], Sample]


def _submits_to_postgres(variant: Variant) -> bool:
    return variant.store == "postgres" and variant.name != "holdfast-thread"


MEASURES: Final = (
    Measure(
        name="drain",
        about="waiting jobs, one worker process",
        seconds=7.0,
        applies=lambda _: True,
        run=lambda visit, sizes: measure_drain(visit, jobs=_jobs(visit, sizes), workers=1),
    ),
    Measure(
        name="drain2",
        about="waiting jobs, two worker processes",
        seconds=7.0,
        applies=lambda variant: variant.name in TWO_WORKERS,
        run=lambda visit, sizes: measure_drain(visit, jobs=_jobs(visit, sizes), workers=2),
    ),
    Measure(
        name="singles",
        about="single submits, ten concurrent in one process",
        seconds=3.0,
        applies=_submits_to_postgres,
        run=lambda visit, sizes: measure_singles(visit, seconds=sizes.submit_seconds),
    ),
    Measure(
        name="bulk",
        about="bulk submits",
        seconds=3.0,
        applies=lambda variant: _submits_to_postgres(variant) and variant.has_bulk,
        run=lambda visit, sizes: measure_bulk(visit, seconds=sizes.submit_seconds),
    ),
    Measure(
        name="steady",
        about="ten producers of single submits, one worker process",
        seconds=6.0,
        applies=lambda variant: _submits_to_postgres(variant) or variant.name == "bullmq",
        run=lambda visit, sizes: measure_steady(visit, seconds=sizes.steady_seconds),
    ),
    Measure(
        name="idle",
        about="one job at a time on an idle worker",
        seconds=11.0,
        applies=lambda variant: _submits_to_postgres(variant) or variant.store == "sqlite",
        run=lambda visit, sizes: measure_idle(visit, jobs=_idle_jobs(visit, sizes)),
    ),
)


def _jobs(visit: Visit, sizes: Sizes) -> int:
    return max(50, int(visit.peer.variant.drain_jobs * sizes.drain_share))


def _idle_jobs(visit: Visit, sizes: Sizes) -> int:
    return sizes.idle_jobs // 4 if visit.peer.variant.is_polling else sizes.idle_jobs


@dataclass(slots=True, kw_only=True)
class Results:
    """Samples by measure and variant, a round each; None where a visit failed, and why."""

    samples: dict[str, dict[str, list[Sample | None]]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def of(self, measure: str, variant: str) -> Sequence[Sample | None]:
        return self.samples.get(measure, {}).get(variant, ())

    def add(self, measure: str, variant: str, sample: Sample | None) -> None:
        self.samples.setdefault(measure, {}).setdefault(variant, []).append(sample)


def run_measures(
    measures: Sequence[Measure], peers: Sequence[Peer], *, stores: Stores, sizes: Sizes, rounds: int, progress: Progress
) -> Results:
    results = Results()
    for measure in measures:
        chosen = {peer.name: peer for peer in peers if measure.applies(peer.variant)}
        for number, name in turns(list(chosen), rounds=rounds):
            progress.say(f"{measure.name}, round {number + 1} of {rounds}: {name}")
            results.add(measure.name, name, _visit(measure, chosen[name], stores, sizes, results))
            progress.finish(measure.seconds)
    return results


def turns(names: Sequence[str], *, rounds: int) -> Iterator[tuple[int, str]]:
    """What disturbs the machine for a while meets all alike, and nobody is always the first."""
    for number in range(rounds):
        first = number % len(names) if names else 0
        yield from ((number, name) for name in (*names[first:], *names[:first]))


def _visit(measure: Measure, peer: Peer, stores: Stores, sizes: Sizes, results: Results) -> Sample | None:
    try:
        with visit(peer, stores) as here:
            return measure.run(here, sizes)
    except PeerFailed as error:
        results.failures.append(f"{measure.name}, {peer.name}: {error}")
        return None


def expected_seconds(measures: Sequence[Measure], peers: Sequence[Peer], rounds: int) -> float:
    return sum(measure.seconds * rounds for measure in measures for peer in peers if measure.applies(peer.variant))
