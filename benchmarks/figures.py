"""What a measure gives: figures, each with what is required of it and how far it was spread."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.rounds import Ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    measured: str
    value: Ratio
    at_least: float | None = None
    at_most: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    """What the ratio was made from: rates, sizes."""

    @property
    def holds(self) -> bool | None:
        """None where nothing is required: a point of a curve, or context."""
        if self.at_least is not None:
            return self.value.median >= self.at_least
        if self.at_most is not None:
            return self.value.median <= self.at_most
        return None

    @property
    def required(self) -> str:
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return f"≤ {self.at_most:g}" if self.at_most is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A figure that could not be measured, and why. What is required and missing does not hold."""

    measured: str
    why: str


def medians(rates: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {f"{name} jobs/s": round(median(values)) for name, values in rates.items() if values}
