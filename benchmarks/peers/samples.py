"""What one visit gave, and what follows from many: pure, so that a report can be made from a file as well."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    figures: Mapping[str, float | None]
    waits: Sequence[float] = field(default=())
    """Seconds from the submit call to the handler, job by job."""


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of them do not exceed: an observed one, nothing in between."""
    return sorted(values)[max(0, ceil(len(values) * percent / 100) - 1)]
