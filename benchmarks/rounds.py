"""How two sides are compared on a noisy machine: they take turns, and each turn is a ratio of its own.

A ratio's figure is the median over the rounds; its spread is the middle half. What disturbs the machine for seconds
falls on both sides of a round, and what disturbs one lap is left behind by the median.
"""

import gc
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Final

WARM_UP_ROUNDS: Final = 1
"""Plans, caches and files come into being; not counted."""

Lap = Callable[[], Awaitable[float]]
"""One turn of a side; its rate, in jobs a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    median: float
    low: float
    high: float
    rounds: int


async def take_turns(laps: Mapping[str, Lap], *, rounds: int) -> dict[str, list[float]]:
    """Every side once a round."""
    names = list(laps)
    rates: dict[str, list[float]] = {name: [] for name in names}
    for number, name in turns(names, rounds=rounds + WARM_UP_ROUNDS):
        gc.collect()
        rate = await laps[name]()
        if number >= WARM_UP_ROUNDS:
            rates[name].append(rate)
    return rates


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Ratio:
    values = [one / other for one, other in zip(numerators, denominators, strict=True)]
    low, _, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else (values[0],) * 3
    return Ratio(median=median(values), low=low, high=high, rounds=len(values))


def fastest(rates: Mapping[str, Sequence[float]], names: Sequence[str]) -> str:
    """The floor is the fastest of the ways to write it by hand."""
    return max(names, key=lambda name: median(rates[name]))


class Stopwatch:
    """``rate`` is jobs a second of the time spent inside ``with``."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._started = 0.0

    def __enter__(self) -> "Stopwatch":
        self._started = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._started

    def rate(self, jobs: int) -> float:
        return jobs / self.seconds


def turns(names: Sequence[str], *, rounds: int) -> Iterator[tuple[int, str]]:
    """Everybody once a round: what disturbs the machine for a while meets all alike.

    Nobody is always the first, or always after the same.
    """
    for number in range(rounds):
        first = number // 2 % len(names) if names else 0
        order = (*names[first:], *names[:first])
        yield from ((number, name) for name in (reversed(order) if number % 2 else order))
