"""Whether anything grew: each figure of the last part of a run beside the part before. Pure.

JUDGE-1. Both parts are equally long: ten minutes in a full run, else a third of it. What comes before them is the
    beginning, in which tables and caches fill up.
JUDGE-2. A figure is the mean of its samples where it is a size, which goes up and down with every vacuum. It is the
    median where it is a time, in which one hiccup says nothing.
JUDGE-3. A figure that was never sampled in one of the parts does not hold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

PART_SECONDS: Final = 600.0
MOST_CHANGE: Final = 0.10
MILLISECONDS: Final = "ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    at_seconds: float
    values: Mapping[str, float]
    """By the name of the figure, which ends with its unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    name: str
    before: float | None
    after: float | None

    @property
    def part(self) -> float | None:
        if self.before is None or self.after is None:
            return None
        if self.before == 0:
            return 0.0 if self.after == 0 else float("inf")
        return self.after / self.before - 1

    @property
    def holds(self) -> bool:
        return self.part is not None and abs(self.part) <= MOST_CHANGE


def compare(samples: Sequence[Sample], *, length_seconds: float) -> list[Change]:
    part = min(PART_SECONDS, length_seconds / 3)
    last = [s for s in samples if length_seconds - part <= s.at_seconds <= length_seconds]
    before = [s for s in samples if length_seconds - 2 * part <= s.at_seconds < length_seconds - part]
    names = dict.fromkeys(name for sample in samples for name in sample.values)
    return [Change(name=name, before=_figure(name, before), after=_figure(name, last)) for name in names]


def _figure(name: str, samples: Sequence[Sample]) -> float | None:
    values = [sample.values[name] for sample in samples if name in sample.values]
    if not values:
        return None
    return median(values) if name.endswith(MILLISECONDS) else fmean(values)
