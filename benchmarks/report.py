"""What is left of a run: a table on the terminal, ``results/bench/floor.json`` and ``floor.md``."""

import json
import platform
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from benchmarks.figures import Figure, Missing
from benchmarks.workload import Sizes

REPOSITORY: Final = Path(__file__).parents[1]
FOLDER: Final = REPOSITORY / "results" / "bench"
PARTIAL_FOLDER: Final = REPOSITORY / "results" / "tmp"
"""For a run of some measures, or of small sizes: it must not stand where the whole one is looked for."""
COLUMNS: Final = ("measured", "figure", "required", "holds", "middle half", "rounds")


@dataclass(kw_only=True)
class Run:
    """Everything a reader needs to judge the figures, and to repeat them."""

    command: str
    sizes: Sizes
    is_partial: bool
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    seconds: float = 0.0
    settings: Mapping[str, str] = field(default_factory=dict)
    figures: list[Figure | Missing] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return all(not isinstance(figure, Missing) and figure.holds is not False for figure in self.figures)


def versions() -> dict[str, str]:
    return {
        "Python": platform.python_version(),
        "asyncpg": version("asyncpg"),
        "SQLite": sqlite3.sqlite_version,
        "system": f"{platform.system()} {platform.machine()}",
    }


def rows(figures: Sequence[Figure | Missing]) -> list[tuple[str, ...]]:
    return [_row(figure) for figure in figures]


def _row(figure: Figure | Missing) -> tuple[str, ...]:
    if isinstance(figure, Missing):
        return (figure.measured, "missing", "", "NO", "", "")
    value = figure.value
    holds = {True: "yes", False: "NO", None: ""}[figure.holds]
    spread = f"{value.low:.2f} … {value.high:.2f}"
    return (figure.measured, f"{value.median:.2f}", figure.required, holds, spread, str(value.rounds))


def table(figures: Sequence[Figure | Missing]) -> str:
    """For the terminal."""
    lines = [COLUMNS, *rows(figures)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([texts[0], "-" * len(texts[0]), *texts[1:]])


def details(figures: Sequence[Figure | Missing]) -> list[str]:
    return [f"{figure.measured}: {_details(figure)}" for figure in figures if _details(figure)]


def _details(figure: Figure | Missing) -> str:
    if isinstance(figure, Missing):
        return f"missing, {figure.why}"
    return ", ".join(f"{name} {value}" for name, value in figure.details.items())


def write(run: Run) -> Path:
    """Returns the page's path inside the repository."""
    folder = PARTIAL_FOLDER if run.is_partial else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "floor.json").write_text(json.dumps(_data(run), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    path = folder / "floor.md"
    path.write_text(_markdown(run), encoding="utf-8")
    return path.relative_to(REPOSITORY)


def _data(run: Run) -> dict[str, Any]:
    return {
        "command": run.command,
        "started_at": run.started_at.isoformat(timespec="seconds"),
        "seconds": round(run.seconds),
        "holds": run.holds,
        "versions": versions(),
        "settings": dict(run.settings),
        "sizes": asdict(run.sizes),
        "figures": [{**asdict(figure), "holds": isinstance(figure, Figure) and figure.holds} for figure in run.figures],
    }


def _markdown(run: Run) -> str:
    head = ["# Against the floor", "", f"`{run.command}`, {run.started_at:%Y-%m-%d %H:%M} UTC, {run.seconds:.0f} s."]
    head += ["Each figure is a ratio of two sides that took turns in this run: the median over the rounds, and the"]
    head += ["middle half of them. `benchmarks/README.md` says what the sides are.", ""]
    lines = [COLUMNS, ("---",) * len(COLUMNS), *rows(run.figures)]
    body = ["| " + " | ".join(line) + " |" for line in lines]
    facts = ["", "## What the ratios are made from", "", *(f"- {line}" for line in details(run.figures)), ""]
    facts += ["## Settings", "", *(f"- {name}: {value}" for name, value in {**versions(), **run.settings}.items())]
    facts += ["", "## Sizes", "", *(f"- {name}: {value}" for name, value in asdict(run.sizes).items()), ""]
    return "\n".join(head + body + facts)
