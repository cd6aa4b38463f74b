"""The measures, and how they are run: round by round, every system once a round, each round starting with another."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from benchmarks.bench import Progress
from benchmarks.peers.measures.drain import measure_drain
from benchmarks.peers.measures.load import measure_latency, measure_steady
from benchmarks.peers.measures.rest import measure_rest
from benchmarks.peers.measures.submit import measure_bulk, measure_singles
from benchmarks.peers.places import Stores
from benchmarks.peers.programs import PeerFailed
from benchmarks.peers.samples import Failure, Results, Sample
from benchmarks.peers.visits import Peer, Visit, visit


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    name: str
    rounds: int
    drain_share: float
    submit_seconds: float
    steady_seconds: float
    latency_jobs: int
    """A round; the rounds together must give 2000 for a p99."""
    rest_seconds: float
    """A round; the rounds together must be 30 s at the least."""


FULL: Final = Sizes(
    name="full", rounds=5, drain_share=1.0, submit_seconds=1.5, steady_seconds=3.0, latency_jobs=420, rest_seconds=12.0
)
QUICK: Final = Sizes(
    name="quick", rounds=2, drain_share=0.3, submit_seconds=0.7, steady_seconds=1.5, latency_jobs=100, rest_seconds=4.0
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    name: str
    about: str
    seconds: float
    """A visit's, with the full sizes."""
    run: Callable[[Visit, Sizes], Sample]


REST: Final = "rest"
"""The measure that has all workers at the same time, and is none of those below."""
REST_START_SECONDS: Final = 20.0


MEASURES: Final = (
    Measure(
        name="drain",
        about="waiting jobs, one worker process",
        seconds=7.0,
        run=lambda visit, sizes: measure_drain(visit, jobs=_jobs(visit, sizes), workers=1),
    ),
    Measure(
        name="drain2",
        about="waiting jobs, two worker processes",
        seconds=7.0,
        run=lambda visit, sizes: measure_drain(visit, jobs=_jobs(visit, sizes), workers=2),
    ),
    Measure(
        name="submits",
        about="single submits, ten concurrent in one process",
        seconds=3.0,
        run=lambda visit, sizes: measure_singles(visit, seconds=sizes.submit_seconds),
    ),
    Measure(
        name="bulk",
        about="bulk submits",
        seconds=3.0,
        run=lambda visit, sizes: measure_bulk(visit, seconds=sizes.submit_seconds),
    ),
    Measure(
        name="steady",
        about="ten producers of single submits, one worker process",
        seconds=6.0,
        run=lambda visit, sizes: measure_steady(visit, seconds=sizes.steady_seconds),
    ),
    Measure(
        name="latency",
        about="one job at a time on an idle worker",
        seconds=11.0,
        run=lambda visit, sizes: measure_latency(visit, jobs=sizes.latency_jobs),
    ),
)


def _jobs(visit: Visit, sizes: Sizes) -> int:
    return max(50, int(visit.peer.variant.drain_jobs * sizes.drain_share))


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    stores: Stores
    sizes: Sizes
    rounds: int
    progress: Progress
    results: Results = field(default_factory=Results)

    def run(self, measure: Measure, peers: Sequence[Peer]) -> None:
        chosen = {peer.name: peer for peer in peers if measure.name in peer.variant.measures}
        for number, name in turns(list(chosen), rounds=self.rounds):
            self.progress.say(f"{measure.name}, round {number + 1} of {self.rounds}: {name}")
            self.results.add(measure.name, name, self._visit(measure, chosen[name]))
            self.progress.finish(measure.seconds)

    def _visit(self, measure: Measure, peer: Peer) -> Sample | None:
        try:
            with visit(peer, self.stores) as here:
                return measure.run(here, self.sizes)
        except Exception as error:
            self._fail(peer, measure.name, error)
            return None

    def _fail(self, peer: Peer, measure: str, error: Exception) -> None:
        """One system's trouble is not the others': it is reported, and the run goes on."""
        why = str(error) if isinstance(error, PeerFailed) else f"{type(error).__name__}: {error}"
        self.results.failures.append(Failure(variant=peer.name, measure=measure, why=" ".join(why.split())[:400]))

    def run_rest(self, peers: Sequence[Peer]) -> None:
        with ExitStack() as stack:
            visits: dict[str, Visit] = {}
            for peer in (peer for peer in peers if REST in peer.variant.measures):
                self.progress.say(f"{REST}: {peer.name} starts")
                try:
                    here = stack.enter_context(visit(peer, self.stores))
                    here.start_workers()
                    here.warm_up()
                    visits[peer.name] = here
                except Exception as error:
                    self._fail(peer, REST, error)
            samples = measure_rest(
                visits,
                self.stores.postgres,
                seconds=self.sizes.rest_seconds,
                rounds=self.rounds,
                say=lambda number: self.progress.say(f"{REST}, round {number + 1} of {self.rounds}: all workers"),
            )
        self.results.samples[REST] = {name: list(rounds) for name, rounds in samples.items()}
        self.progress.finish(rest_seconds(self.sizes, self.rounds))


def rest_seconds(sizes: Sizes, rounds: int) -> float:
    return REST_START_SECONDS + sizes.rest_seconds * rounds


def turns(names: Sequence[str], *, rounds: int) -> Iterator[tuple[int, str]]:
    """What disturbs the machine for a while meets all alike, and nobody is always the first."""
    for number in range(rounds):
        first = number % len(names) if names else 0
        yield from ((number, name) for name in (*names[first:], *names[:first]))


def expected_seconds(measures: Sequence[Measure], peers: Sequence[Peer], rounds: int) -> float:
    return sum(
        measure.seconds * rounds for measure in measures for peer in peers if measure.name in peer.variant.measures
    )
