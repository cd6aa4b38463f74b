"""What is left of a run: tables on the terminal, ``curves.json``, ``curves.md``, plots and flame graphs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from benchmarks import report
from benchmarks.curves.catalogue import Curve
from benchmarks.curves.flame.measure import Flame
from benchmarks.curves.session import Point, Sizes
from benchmarks.peers.report import draw, markdown_table
from benchmarks.peers.samples import Results, percentile

PLOTS: Final = Path(__file__).parent / "plots" / "draw.py"
PERCENTS: Final = (50, 99, 99.9)
SAID: Final = (
    "Holdfast alone, on one machine, on one day: read how a curve runs, not how high it is. The worker is a process of",
    "its own, `holdfast worker` at its defaults but for what a curve varies; jobs write 16 bytes. Rates are medians",
    "of the rounds, in parentheses the least and the most; waits are percentiles over all rounds.",
    "`benchmarks/README.md` says how each is measured.",
)


@dataclass(kw_only=True)
class Run:
    """Everything a reader needs to judge the figures, and to repeat them."""

    command: str
    sizes: Sizes
    is_partial: bool
    curves: Sequence[Curve]
    points: Mapping[str, Sequence[Point]]
    results: Results
    flames: Sequence[Flame] = ()
    seconds: float
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def started_at(self) -> datetime:
        return datetime.now(UTC) - timedelta(seconds=self.seconds)

    @property
    def holds(self) -> bool:
        """Nothing is required of a curve but that it was measured."""
        return not self.results.failures


def curve_table(run: Run, curve: Curve) -> list[tuple[str, ...]]:
    """A line a point; columns that are empty are left out."""
    points = run.points.get(curve.name, ())
    cells = [[column.cell(run.results, point.name) for column in curve.columns] for point in points]
    kept = [number for number in range(len(curve.columns)) if any(line[number] for line in cells)]
    head = ("", *([curve.axis] if curve.axis else []), *(curve.columns[number].title for number in kept))
    lines = [
        (point.series, *([f"{point.x:,.12g}"] if curve.axis else []), *(line[number] for number in kept))
        for point, line in zip(points, cells, strict=True)
    ]
    return [head, *lines]


def parts_table(flame: Flame) -> list[tuple[str, ...]]:
    return [("part", "share"), *((name, f"{share:.1%}") for name, share in flame.shares.items())]


def towers_table(flame: Flame) -> list[tuple[str, ...]]:
    lines = [(f"`{tower.frame}`", f"{tower.total:.1%}", f"{tower.own:.1%}") for tower in flame.widest]
    return [("frame", "with what it calls", "by itself"), *lines]


def page(run: Run, plots: Sequence[str]) -> str:
    lines = ["# Curves", "", f"`{run.command}`, {run.started_at:%Y-%m-%d %H:%M} UTC, {run.seconds:.0f} s.", ""]
    lines += [*SAID, ""]
    for curve in run.curves:
        lines += [f"## {curve.name}", "", f"{curve.about[0].upper()}{curve.about[1:]}.", ""]
        if curve.name == "flame":
            lines += [line for flame in run.flames for line in _flame_section(flame)]
        else:
            lines += [*markdown_table(curve_table(run, curve)), ""]
        lines += [f"![{curve.name}]({plot})\n" for plot in plots if plot == f"curves-{curve.name}.svg"]
    lines += ["## What failed", "", *([f"- {one}" for one in run.results.failures] or ["Nothing."]), ""]
    lines += ["## Settings", "", *(f"- {name}: {value}" for name, value in run.settings.items()), ""]
    lines += ["## Sizes", "", *(f"- {name}: {value}" for name, value in asdict(run.sizes).items()), ""]
    return "\n".join(lines)


def _flame_section(flame: Flame) -> list[str]:
    head = [
        f"### {flame.store}",
        "",
        f"{flame.samples} samples of threads at work. ![{flame.store}]({flame.file_name})",
        "",
    ]
    return [*head, *markdown_table(parts_table(flame)), "", *markdown_table(towers_table(flame)), ""]


def write(run: Run) -> Path:
    """Returns the page's path inside the repository."""
    folder = report.PARTIAL_FOLDER if run.is_partial else report.FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "curves.json"
    data.write_text(json.dumps(as_data(run), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    for flame in run.flames:
        (folder / flame.file_name).write_text(flame.svg, encoding="utf-8")
    path = folder / "curves.md"
    path.write_text(page(run, draw(PLOTS, data)), encoding="utf-8")
    return path.relative_to(report.REPOSITORY)


def as_data(run: Run) -> dict[str, Any]:
    return {
        "command": run.command,
        "started_at": run.started_at.isoformat(timespec="seconds"),
        "seconds": round(run.seconds),
        "sizes": asdict(run.sizes),
        "settings": dict(run.settings),
        "failures": [asdict(failure) for failure in run.results.failures],
        "curves": {
            curve.name: {
                "about": curve.about,
                "axis": curve.axis,
                "wait": curve.wait,
                "points": [_point(run.results, curve.name, point) for point in run.points.get(curve.name, ())],
            }
            for curve in run.curves
        },
        "waits_of": {
            name: {point.name: _percentiles(run.results.waits(name, point.name)) for point in run.points.get(name, ())}
            for name in run.points
        },
        "flames": {
            flame.store: {"samples": flame.samples, "parts": flame.shares, "towers": [asdict(t) for t in flame.widest]}
            for flame in run.flames
        },
    }


def _point(results: Results, curve: str, point: Point) -> dict[str, Any]:
    rounds = [
        {name: None if value is None else float(f"{value:.5g}") for name, value in sample.figures.items()}
        for sample in results.of(curve, point.name)
    ]
    waits = _percentiles(results.waits(curve, point.name))
    return {"series": point.series, "x": point.x, "worker": list(point.worker), "rounds": rounds, "waits": waits}


def _percentiles(waits: Sequence[float]) -> dict[str, float]:
    """Milliseconds."""
    if not waits:
        return {}
    found = {f"p{percent:g}": round(percentile(waits, percent) * 1000, 3) for percent in PERCENTS}
    return {"count": len(waits), **found}
