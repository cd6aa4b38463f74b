"""Times in HDR histograms: three digits from a microsecond to a minute, so that a p99 is a measured one.

Times are collected as plain numbers while the load runs and put in here afterwards: recording costs more than a call's
own bookkeeping. Histograms of several rounds are added, never averaged.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Self

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

LOWEST_MICROSECONDS: Final = 1
HIGHEST_MICROSECONDS: Final = 60_000_000
DIGITS: Final = 3
CURVE_PERCENTS: Final = (*range(1, 100), 99.5, 99.9)


class Times:
    def __init__(self, microseconds: Iterable[int] = ()) -> None:
        self._histogram = HdrHistogram(LOWEST_MICROSECONDS, HIGHEST_MICROSECONDS, DIGITS)
        for value in microseconds:
            self._histogram.record_value(min(max(value, LOWEST_MICROSECONDS), HIGHEST_MICROSECONDS))

    @classmethod
    def decode(cls, text: str) -> Self:
        times = cls()
        times._histogram.decode_and_add(text.encode())
        return times

    def encode(self) -> str:
        """The standard's compressed form in base 64: other tools can read it."""
        data: bytes = self._histogram.encode()
        return data.decode()

    @classmethod
    def sum(cls, many: Iterable[Self]) -> Self:
        total = cls()
        for one in many:
            total._histogram.add(one._histogram)  # noqa: SLF001 - of the same class
        return total

    @property
    def count(self) -> int:
        return int(self._histogram.get_total_count())

    def milliseconds(self, percent: float) -> float:
        """At a percentile. Nothing recorded: 0."""
        return self.percentiles([percent])[0]

    def percentiles(self, percents: Sequence[float]) -> list[float]:
        """Milliseconds at each, in one walk."""
        if not self.count:
            return [0.0 for _ in percents]
        found = self._histogram.get_percentile_to_value_dict(list(percents))
        return [float(found[percent]) / 1000 for percent in percents]

    def curve(self) -> list[tuple[float, float]]:
        """Milliseconds and percent, for a cumulative plot."""
        if not self.count:
            return []
        return list(zip(self.percentiles(CURVE_PERCENTS), map(float, CURVE_PERCENTS), strict=True))
