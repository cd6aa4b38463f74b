"""What a hop costs: the p50 of operations with different numbers of RPCs, where nobody waits for anybody. Pure."""

from dataclasses import dataclass
from statistics import fmean

from holdfast.designs.evaluation.designs import DESIGNS
from holdfast.designs.evaluation.profiles import Cell
from holdfast.designs.evaluation.summary import Summary
from holdfast.designs.evaluation.tally import OPERATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """milliseconds = base + hops × each: least squares over the operations of the designs that keep state in memory."""

    base_ms: float
    each_ms: float
    points: int


def fit_hops(summary: Summary) -> Fit | None:
    """None where all have the same number of hops. The durable engine is left out: its calls wait for a disk."""
    points = [(hops, value) for design, _, hops, value in hop_points(summary) if DESIGNS[design].storage == "memory"]
    if len({hops for hops, _ in points}) < 2:
        return None
    mean_hops, mean_ms = fmean(hops for hops, _ in points), fmean(value for _, value in points)
    spread = sum((hops - mean_hops) ** 2 for hops, _ in points)
    each = sum((hops - mean_hops) * (value - mean_ms) for hops, value in points) / spread
    return Fit(base_ms=mean_ms - each * mean_hops, each_ms=each, points=len(points))


def hop_points(summary: Summary) -> list[tuple[str, str, int, float]]:
    """Design, operation, hops and p50 in ms, where a single client waits for nobody else."""
    found = []
    for operation in OPERATIONS:
        cells = [cell for cell in lightest(summary) if summary.has(cell, f"{operation}_p50_ms")]
        for design in summary.designs if cells else ():
            value = summary.mean(cells[0], design, f"{operation}_p50_ms")
            if value is not None:
                found.append((design, operation, DESIGNS[design].hops[operation].count, value))
    return found


def lightest(summary: Summary) -> list[Cell]:
    """Closed cells with the fewest clients, mixes first: their calls are not shaped by polling."""
    closed = [cell for cell in summary.cells if cell.loop == "closed"]
    fewest = min((cell.clients for cell in closed), default=0)
    return sorted((cell for cell in closed if cell.clients == fewest), key=lambda cell: (cell.job_ms, cell.pattern))


def heaviest(summary: Summary, pattern: str) -> Cell | None:
    closed = [cell for cell in summary.cells if cell.loop == "closed" and cell.pattern == pattern]
    return max(closed, key=lambda cell: (cell.clients, -cell.job_ms, cell.workload), default=None)
