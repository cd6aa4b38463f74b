"""Figures in words: three digits, with their interval, and the hops beside them. Pure."""

from holdfast.designs.evaluation.designs import TITLES, hops_text
from holdfast.designs.evaluation.profiles import Cell
from holdfast.designs.evaluation.statistics import Interval
from holdfast.designs.evaluation.summary import Summary


def number(value: float) -> str:
    """Three digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def shown(found: Interval | None, unit: str = "") -> str:
    """``12.3 ± 0.4 ms``; one round has no ±."""
    if found is None:
        return "–"
    if found.high is None:
        return f"{number(found.mean)}{unit} (one round)"
    return f"{number(found.mean)} ± {number(found.high - found.mean)}{unit}"


def compared(found: Interval) -> str:
    """``2.31 times (95 %: 2.10 … 2.54)``."""
    if found.low is None or found.high is None:
        return f"{number(found.mean)} times (one round: not sure)"
    return f"{number(found.mean)} times (95 %: {number(found.low)} … {number(found.high)})"


def where(cell: Cell) -> str:
    return f"{cell.workload}, {cell.load}{f', jobs of {cell.job_ms} ms' if cell.job_ms else ''}"


def hops_of(cell: Cell, summary: Summary) -> str:
    operations = ("submit", "status", "result", "run") if cell.pattern == "journey" else _of_mix(cell)
    return f"({hops_lines(operations, summary.designs)})"


def _of_mix(cell: Cell) -> tuple[str, ...]:
    return tuple(name for name in ("submit", "status", "result") if getattr(cell.mix, name) > 0)


def hops_lines(operations: tuple[str, ...], designs: list[str]) -> str:
    names = " / ".join(TITLES[design] for design in designs)
    return f"hops, {names}: {', '.join(hops_text(operation, designs) for operation in operations)}"


def hops_counted(count: int) -> str:
    return f"{count} hop{'' if count == 1 else 's'}"
