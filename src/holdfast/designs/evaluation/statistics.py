"""How sure a figure is: intervals over the rounds. Pure.

The rounds are the repeats: within one, thousands of calls share whatever the machine did in that second, so that their
number says nothing of certainty. An interval is Student's t at 95 % over one value a round. Ratios are taken within a
round, where both sides met the same machine, and averaged as logarithms: then A to B is the inverse of B to A.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, stdev
from typing import Final

T95: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""Student's t, two-sided 95 %, for 1 … 30 degrees of freedom."""
T95_LARGE: Final = 2.042
"""Beyond the table: that of 30, a little wide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean and where the true one lies, at 95 %. One round has no interval: low and high are None."""

    mean: float
    low: float | None
    high: float | None
    rounds: int

    def excludes(self, value: float) -> bool:
        """Is the difference from ``value`` more than chance? Never by one round."""
        return self.low is not None and self.high is not None and not self.low <= value <= self.high

    def data(self) -> dict[str, float | int | None]:
        return {"mean": self.mean, "low": self.low, "high": self.high, "rounds": self.rounds}


def t95(rounds: int) -> float:
    freedom = rounds - 1
    return T95[freedom - 1] if freedom <= len(T95) else T95_LARGE


def interval(values: Sequence[float]) -> Interval | None:
    """None for no values."""
    if not values:
        return None
    mean = fmean(values)
    if len(values) == 1:
        return Interval(mean=mean, low=None, high=None, rounds=1)
    half = t95(len(values)) * stdev(values) / sqrt(len(values))
    return Interval(mean=mean, low=mean - half, high=mean + half, rounds=len(values))


def ratio(ones: Sequence[float], others: Sequence[float]) -> Interval | None:
    """One side to the other, round by round; rounds without both, or with nothing to divide, are left out."""
    logs = [log(one / other) for one, other in zip(ones, others, strict=True) if one > 0 and other > 0]
    found = interval(logs)
    if found is None:
        return None
    low, high = (None if bound is None else exp(bound) for bound in (found.low, found.high))
    return Interval(mean=exp(found.mean), low=low, high=high, rounds=found.rounds)
