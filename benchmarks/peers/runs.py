"""The measures, and how they are run: round by round, every system once a round, each round in an order of its own.

Two of them have all workers at the same time: what a job waits on an idle one, and what idle ones cost.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
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
from benchmarks.rounds import turns


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
    name="full", rounds=5, drain_share=1.0, submit_seconds=1.5, steady_seconds=3.0, latency_jobs=600, rest_seconds=12.0
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


LATENCY: Final = "latency"
LATENCY_SECONDS: Final = 19.0
"""Of one system in a round, with the full sizes."""
REST: Final = "rest"
START_SECONDS: Final = 20.0
"""Until all workers are there."""

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
)
NAMES: Final = {measure.name: measure.about for measure in MEASURES} | {
    LATENCY: "one job at a time on an idle worker",
    REST: "what idle workers cost",
}


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

    def run_latency(self, peers: Sequence[Peer]) -> None:
        with self._together(LATENCY, peers) as visits:
            self.results.samples[LATENCY] = measure_latency(
                visits,
                jobs=self.sizes.latency_jobs,
                rounds=self.rounds,
                say=lambda number, name: self.progress.say(
                    f"{LATENCY}, round {number + 1} of {self.rounds}, in turns: {name}"
                ),
                fail=lambda name, error: self._fail(visits[name].peer, LATENCY, error),
            )
            self.progress.finish(LATENCY_SECONDS * len(visits) * self.rounds)

    def run_rest(self, peers: Sequence[Peer]) -> None:
        with self._together(REST, peers) as visits:
            samples = measure_rest(
                visits,
                self.stores.postgres,
                seconds=self.sizes.rest_seconds,
                rounds=self.rounds,
                say=lambda number: self.progress.say(f"{REST}, round {number + 1} of {self.rounds}: all workers"),
            )
        self.results.samples[REST] = {name: list(rounds) for name, rounds in samples.items()}
        self.progress.finish(self.sizes.rest_seconds * self.rounds)

    @contextmanager
    def _together(self, measure: str, peers: Sequence[Peer]) -> Iterator[Mapping[str, Visit]]:
        """Those that have this measure, each with a warm worker."""
        with ExitStack() as stack:
            visits: dict[str, Visit] = {}
            for peer in (peer for peer in peers if measure in peer.variant.measures):
                self.progress.say(f"{measure}: {peer.name} starts")
                with ExitStack() as its_own:
                    try:
                        here = its_own.enter_context(visit(peer, self.stores))
                        here.start_workers()
                        here.warm_up()
                    except Exception as error:
                        self._fail(peer, measure, error)
                    else:
                        visits[peer.name] = here
                        stack.push(its_own.pop_all())
            self.progress.finish(START_SECONDS)
            yield visits


def expected_seconds(measures: Sequence[str], peers: Sequence[Peer], *, sizes: Sizes, rounds: int) -> float:
    seconds = {measure.name: measure.seconds for measure in MEASURES} | {LATENCY: LATENCY_SECONDS}
    taken = [name for name in measures for peer in peers if name in peer.variant.measures]
    together = {LATENCY: START_SECONDS, REST: START_SECONDS + sizes.rest_seconds * rounds}
    return sum(seconds.get(name, 0.0) * rounds for name in taken) + sum(together.get(name, 0.0) for name in measures)
