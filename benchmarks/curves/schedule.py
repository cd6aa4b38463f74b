"""When jobs arrive in an open loop. Pure.

Arrivals do not wait for one another or for the system: what it cannot keep up with waits, and its wait is counted from
the time it should have been submitted at.
"""

import random
from collections.abc import Sequence


def poisson(rate: float, count: int, *, seed: int) -> list[float]:
    """Seconds from the start: independent arrivals, so many a second in the mean; the same for the same seed."""
    if rate <= 0:
        raise ValueError(f"{rate} arrivals a second: a rate above 0 is needed")
    source = random.Random(seed)
    times: list[float] = []
    now = 0.0
    for _ in range(count):
        now += source.expovariate(rate)
        times.append(now)
    return times


def share_late(delays: Sequence[float], *, after: float) -> float:
    """Of the arrivals, those that were submitted more than so much behind their time."""
    return sum(delay > after for delay in delays) / len(delays) if delays else 0.0
