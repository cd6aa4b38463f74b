"""What is required of Holdfast, against whom, and what the samples say about it. Pure.

A ratio is taken round by round and its median judged. A percentile of waits is taken over all rounds together, so that
it rests on enough jobs; the rounds' own percentiles give its spread.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Final

from benchmarks.figures import Figure, Missing
from benchmarks.peers.samples import Results, percentile
from benchmarks.rounds import Ratio

US: Final = "holdfast"
THREAD: Final = "holdfast-thread"
SQLITE: Final = "holdfast-sqlite"
POSTGRES_PEERS: Final = ("pgqueuer", "graphile-worker", "pg-boss", "oban", "procrastinate")
FASTEST: Final = {
    "celery": ("celery-rabbitmq", "celery-redis"),
    "dramatiq": ("dramatiq-rabbitmq", "dramatiq-redis"),
    "taskiq": ("taskiq-rabbitmq", "taskiq-redis"),
    "PostgreSQL peer": POSTGRES_PEERS,
}
"""Where a requirement names a system with several settings, the fastest of them counts."""
MIN_WAITS: Final = 2000
"""For a p99."""

Finding = Figure | Missing
Names = AbstractSet[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Jobs a second, so many times those of others."""

    at_least: dict[str, float] = field(default_factory=dict)
    ours: str = US
    figure: str = "rate"

    def __call__(self, results: Results, measure: str, about: str, known: Names) -> Iterator[Finding]:
        for name, factor in self.at_least.items():
            others = [other for other in FASTEST.get(name, (name,)) if other in known]
            if self.ours not in known or not others:
                continue
            measured = f"{about}: against {'the best ' if name == 'PostgreSQL peer' else ''}{name}"
            other = best(results, measure, others, self.figure)
            value = results.ratio(measure, self.ours, other, self.figure) if other else None
            if value is None or other is None:
                yield Missing(measured=measured, why=results.why_missing(measure, (self.ours, *others)))
                continue
            yield Figure(
                measured=measured if other == name else f"{measured} ({other})",
                value=value,
                at_least=factor,
                details=_medians(results, measure, (self.ours, other), self.figure, "jobs/s"),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """A percentile of the time from submit to start, at most so many times the best other's."""

    percent: int
    at_most: float
    others: tuple[str, ...] = POSTGRES_PEERS
    ours: str = US

    def __call__(self, results: Results, measure: str, about: str, known: Names) -> Iterator[Finding]:
        if self.ours not in known or not known & set(self.others):
            return
        waits = {name: results.waits(measure, name) for name in (self.ours, *self.others)}
        values = {name: percentile(found, self.percent) for name, found in waits.items() if found}
        others = [name for name in self.others if name in values]
        measured = f"{about}: p{self.percent} from submit to start"
        if self.ours not in values or not others:
            yield Missing(measured=measured, why=results.why_missing(measure, (self.ours, *self.others)))
            return
        other = min(others, key=lambda name: values[name])
        few = [f"{name} has {len(waits[name])}" for name in (self.ours, other) if len(waits[name]) < MIN_WAITS]
        if self.percent == 99 and few:
            yield Missing(measured=measured, why=f"a p99 needs {MIN_WAITS} waits, {', '.join(few)}")
            return
        rounds = results.ratio(measure, self.ours, other, f"p{self.percent}")
        assert rounds is not None
        yield Figure(
            measured=f"{measured}, against {other}",
            value=Ratio(
                median=values[self.ours] / values[other], low=rounds.low, high=rounds.high, rounds=rounds.rounds
            ),
            at_most=self.at_most,
            details={f"{name} ms": round(values[name] * 1000, 2) for name in (self.ours, other)}
            | {"waits": f"{len(waits[self.ours])} and {len(waits[other])}"},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A figure of which less is better, at most so many times another's."""

    figure: str
    what: str
    other: str
    at_most: float
    unit: str

    def __call__(self, results: Results, measure: str, about: str, known: Names) -> Iterator[Finding]:
        if not known >= {US, self.other}:
            return
        measured = f"{about}: {self.what}, against {self.other}"
        value = results.ratio(measure, US, self.other, self.figure)
        if value is None:
            yield Missing(measured=measured, why=results.why_missing(measure, (US, self.other)))
            return
        details = _medians(results, measure, (US, self.other), self.figure, self.unit, digits=3)
        yield Figure(measured=measured, value=value, at_most=self.at_most, details=details)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A figure of ours by itself."""

    figure: str
    what: str
    at_most: float
    ours: str = US

    def __call__(self, results: Results, measure: str, about: str, known: Names) -> Iterator[Finding]:
        if self.ours not in known:
            return
        values = results.values(measure, self.ours, self.figure)
        measured = f"{about}: {self.what}"
        if not values:
            yield Missing(measured=measured, why=results.why_missing(measure, (self.ours,)))
            return
        low, _, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else (values[0],) * 3
        value = Ratio(median=median(values), low=low, high=high, rounds=len(values))
        yield Figure(measured=measured, value=value, at_most=self.at_most)


Rule = Rates | Waits | Cost | Bound

REQUIRED: Final[tuple[tuple[str, str, Rule], ...]] = (
    (
        "drain",
        "PostgreSQL: drain, one worker process, async",
        Rates(
            at_least={
                "pgqueuer": 2.5,
                "graphile-worker": 1.3,
                "celery": 10,
                "procrastinate": 10,
                "oban": 10,
                "dramatiq": 8,
                "taskiq": 8,
            }
        ),
    ),
    ("drain", "PostgreSQL: drain, one worker process, threads", Rates(at_least={"dramatiq": 4}, ours=THREAD)),
    (
        "drain2",
        "PostgreSQL: drain, two worker processes",
        Rates(at_least={"pgqueuer": 2, "graphile-worker": 1.2}),
    ),
    ("drain", "SQLite: drain, one worker process", Rates(at_least={"huey-sqlite": 12}, ours=SQLITE)),
    ("submits", "PostgreSQL: single submits, ten concurrent", Rates(at_least={"PostgreSQL peer": 4})),
    ("bulk", "PostgreSQL: bulk submits", Rates(at_least={"PostgreSQL peer": 1.2})),
    ("steady", "PostgreSQL: steady load", Rates(at_least={"PostgreSQL peer": 3, "bullmq": 1})),
    ("steady", "PostgreSQL: steady load", Waits(percent=99, at_most=1.0)),
    ("latency", "PostgreSQL: idle", Waits(percent=50, at_most=1.0)),
    ("latency", "PostgreSQL: idle", Waits(percent=99, at_most=1.1)),
    ("latency", "SQLite: idle", Waits(percent=50, at_most=0.2, others=("huey-sqlite",), ours=SQLITE)),
    ("latency", "SQLite: idle", Waits(percent=99, at_most=0.2, others=("huey-sqlite",), ours=SQLITE)),
    ("rest", "PostgreSQL: an idle worker", Bound(figure="statements", what="statements a minute", at_most=60)),
    ("rest", "PostgreSQL: an idle worker", Bound(figure="core_percent", what="percent of a core", at_most=1)),
    ("rest", "SQLite: an idle worker", Bound(figure="core_percent", what="percent of a core", at_most=1, ours=SQLITE)),
    (
        "drain",
        "PostgreSQL: drain, one worker process",
        Cost(figure="cpu", what="CPU time a job of worker and server", other="pgqueuer", at_most=1, unit="s/1000"),
    ),
    (
        "drain",
        "PostgreSQL: drain, one worker process",
        Cost(figure="memory", what="the worker's memory", other="pgqueuer", at_most=1.5, unit="MiB"),
    ),
)


def findings(results: Results, measures: Sequence[str], known: Names) -> list[Finding]:
    """For the measures that were run, and the variants that should have been measured."""
    rules = [(measure, about, rule) for measure, about, rule in REQUIRED if measure in measures]
    return [finding for measure, about, rule in rules for finding in rule(results, measure, about, known)]


def best(results: Results, measure: str, names: Sequence[str], figure: str) -> str | None:
    medians = {name: results.median(measure, name, figure) for name in names}
    known = {name: value for name, value in medians.items() if value is not None}
    return max(known, key=lambda name: known[name]) if known else None


def _medians(
    results: Results, measure: str, names: Sequence[str], figure: str, unit: str, *, digits: int | None = None
) -> dict[str, float]:
    values = {name: results.median(measure, name, figure) for name in names}
    return {f"{name} {unit}": round(value, digits) for name, value in values.items() if value is not None}
