"""Which fault strikes when: all from one seed, so that a run can be had again."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Strike:
    at_seconds: float
    """From the beginning of the run; later where nothing can be struck yet."""
    fault: str
    seed: int
    """Of what the fault itself chooses."""


def plan(seed: str, faults: Sequence[str], *, strikes_a_fault: int, seconds: float) -> list[Strike]:
    """Every fault equally often, in any order, spread over the time with some at almost the same moment."""
    rng = Random(seed)
    names = [name for name in faults for _ in range(strikes_a_fault)]
    rng.shuffle(names)
    times = sorted(rng.uniform(0.0, seconds) for _ in names)
    return [Strike(at, name, rng.getrandbits(32)) for at, name in zip(times, names, strict=True)]
