"""What visits gave, and what follows from many. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from statistics import median

from benchmarks.rounds import Ratio, ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One visit's figures."""

    figures: Mapping[str, float | None]
    waits: Sequence[float] = field(default=(), repr=False)
    """Seconds from the submit call to the handler, job by job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why there is no sample."""

    variant: str
    why: str
    measure: str | None = None
    """None: of no measure, the system cannot be had."""

    def __str__(self) -> str:
        return f"{self.variant}{f', {self.measure}' if self.measure else ''}: {self.why}"


@dataclass(slots=True, kw_only=True)
class Results:
    """Samples by measure and variant, a round each; None where a visit failed."""

    samples: dict[str, dict[str, list[Sample | None]]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def why_missing(self, measure: str, variants: Sequence[str]) -> str:
        found = [
            str(failure)
            for failure in self.failures
            if failure.variant in variants and failure.measure in (None, measure)
        ]
        return found[0] if found else "not measured"

    def add(self, measure: str, variant: str, sample: Sample | None) -> None:
        self.samples.setdefault(measure, {}).setdefault(variant, []).append(sample)

    def of(self, measure: str, variant: str) -> list[Sample]:
        """Those that succeeded."""
        return [sample for sample in self.samples.get(measure, {}).get(variant, ()) if sample is not None]

    def values(self, measure: str, variant: str, figure: str) -> list[float]:
        found = (sample.figures.get(figure) for sample in self.of(measure, variant))
        return [value for value in found if value is not None]

    def median(self, measure: str, variant: str, figure: str) -> float | None:
        values = self.values(measure, variant, figure)
        return median(values) if values else None

    def waits(self, measure: str, variant: str) -> list[float]:
        """Of all rounds together: a p99 needs many."""
        return [wait for sample in self.of(measure, variant) for wait in sample.waits]

    def ratio(self, measure: str, one: str, other: str, figure: str) -> Ratio | None:
        """Round by round; a round that either of them failed in is left out."""
        rounds = zip(*(self.samples.get(measure, {}).get(name, []) for name in (one, other)), strict=False)
        pairs = [(a.figures.get(figure), b.figures.get(figure)) for a, b in rounds if a is not None and b is not None]
        numbers = [(a, b) for a, b in pairs if a is not None and b]
        return ratio([a for a, _ in numbers], [b for _, b in numbers]) if numbers else None


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of them do not exceed: an observed one, nothing in between."""
    return sorted(values)[max(0, ceil(len(values) * percent / 100) - 1)]
