"""What a curve is given: sizes, servers, a way to say how far it is, and where its samples go."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from benchmarks.bench import Progress
from benchmarks.peers.catalogue import System, read_systems
from benchmarks.peers.environments import environment_of
from benchmarks.peers.places import Stores
from benchmarks.peers.programs import PeerFailed
from benchmarks.peers.samples import Failure, Results, Sample
from benchmarks.peers.visits import Peer, Visit, visit
from benchmarks.rounds import turns

if TYPE_CHECKING:
    from benchmarks.curves.flame.measure import Flame

T = TypeVar("T")

POSTGRES: Final = "PostgreSQL"
SQLITE: Final = "SQLite"
VARIANTS: Final = {POSTGRES: "holdfast", SQLITE: "holdfast-sqlite"}
WORKER: Final = ("{bin}/holdfast", "worker", "benchmarks.curves.app:app")
"""At its defaults; a curve adds what it varies."""
PRODUCE: Final = "benchmarks.curves.produce"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    name: str
    rounds: int
    backlogs: tuple[int, ...]
    sqlite_backlogs: tuple[int, ...]
    window_jobs: int
    """Drained within a backlog."""
    histories: tuple[int, ...]
    queues: tuple[int, ...]
    payloads: tuple[int, ...]
    """Bytes."""
    payload_total: int
    """Bytes a drain has at the most."""
    submit_batches: tuple[int, ...]
    submit_seconds: float
    claim_batches: tuple[int, ...]
    claim_seconds: float
    concurrencies: tuple[int, ...]
    drain_jobs: int
    slow_seconds: float
    """How long a drain of jobs that wait should take, about."""
    arrivals: int
    """A round; the rounds together must give 2000 for a p99."""
    open_rounds: int
    open_arrivals: int
    """A round; the rounds together must give 10,000 for a p99.9."""
    steady_seconds: float
    commits: int
    flame_seconds: float


FULL: Final = Sizes(
    name="full",
    rounds=3,
    backlogs=(10_000, 100_000, 1_000_000),
    sqlite_backlogs=(10_000, 100_000),
    window_jobs=8_000,
    histories=(0, 1_000_000, 10_000_000),
    queues=(1, 10, 100, 1000),
    payloads=(100, 10_000, 1_000_000),
    payload_total=100_000_000,
    submit_batches=(1, 10, 100, 1000, 5000),
    submit_seconds=1.0,
    claim_batches=(1, 10, 100, 300, 1000),
    claim_seconds=0.7,
    concurrencies=(1, 10, 100, 1000),
    drain_jobs=12_000,
    slow_seconds=2.0,
    arrivals=700,
    open_rounds=2,
    open_arrivals=6_000,
    steady_seconds=3.0,
    commits=300,
    flame_seconds=6.0,
)
QUICK: Final = replace(
    FULL,
    name="quick",
    rounds=1,
    backlogs=(4_000, 20_000),
    sqlite_backlogs=(4_000,),
    window_jobs=2_000,
    histories=(0, 50_000),
    queues=(1, 100),
    payload_total=8_000_000,
    submit_batches=(1, 100, 1000),
    submit_seconds=0.3,
    claim_batches=(10, 300),
    claim_seconds=0.3,
    concurrencies=(10, 100),
    drain_jobs=2_000,
    slow_seconds=0.5,
    arrivals=100,
    open_rounds=1,
    open_arrivals=500,
    steady_seconds=1.0,
    commits=50,
    flame_seconds=1.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One place of one curve: what is varied, and the worker that it is measured with."""

    series: str
    x: float
    store: str = POSTGRES
    worker: tuple[str, ...] = ()
    """Options of ``holdfast worker`` beside its defaults."""

    @property
    def name(self) -> str:
        return f"{self.series}, {self.x:,.12g}"


@dataclass(slots=True, kw_only=True)
class Session:
    stores: Stores
    sizes: Sizes
    progress: Progress
    results: Results = field(default_factory=Results)
    points: dict[str, list[Point]] = field(default_factory=dict)
    """By curve, in the order of its axis."""
    flames: list["Flame"] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.progress.say(text)

    def visit(self, point: Point) -> AbstractContextManager[Visit]:
        return visit(peer_of(point), self.stores, produce=PRODUCE)

    def take_turns(
        self, curve: str, points: Sequence[Point], measure: Callable[[Point], Sample], *, rounds: int | None = None
    ) -> None:
        """Every point once a round, each round starting with another: what disturbs the machine meets all alike."""
        rounds = rounds or self.sizes.rounds
        by_name = {point.name: point for point in points}
        self.points.setdefault(curve, []).extend(points)
        for number, name in turns(list(by_name), rounds=rounds):
            self.say(f"{curve}, round {number + 1} of {rounds}: {name}")
            self.results.add(curve, name, self.attempt(curve, name, partial(measure, by_name[name])))

    def attempt(self, curve: str, name: str, work: Callable[[], T]) -> T | None:
        """One point's trouble is not the others': it is reported, and the run goes on."""
        try:
            return work()
        except Exception as error:
            why = str(error) if isinstance(error, PeerFailed) else f"{type(error).__name__}: {error}"
            self.results.failures.append(Failure(variant=name, measure=curve, why=" ".join(why.split())[:400]))
            return None


def _system() -> System:
    return next(system for system in read_systems() if system.name == "holdfast")


def peer_of(point: Point) -> Peer:
    """As it is measured beside others, but with a worker at its defaults and an app of our own."""
    system = _system()
    variant = next(variant for variant in system.variants if variant.name == VARIANTS[point.store])
    return Peer(
        system=system,
        variant=replace(variant, worker=(*WORKER, *point.worker)),
        environment=environment_of(system),
    )
