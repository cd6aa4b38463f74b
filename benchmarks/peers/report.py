"""What is left of a run: tables on the terminal, ``peers.json``, ``peers.md`` and plots beside those of the floor."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from benchmarks import report
from benchmarks.figures import Figure, Missing
from benchmarks.peers.catalogue import System, Variant
from benchmarks.peers.environments import NotInstalled, python_environment
from benchmarks.peers.required import Finding
from benchmarks.peers.runs import Sizes
from benchmarks.peers.samples import Results, Sample, percentile

PLOTS: Final = Path(__file__).parent / "plots"
SAID_OF_DRAINS: Final = (
    "A drain begins with the first handler and ends when the store has no job left that is not terminal: no row that"
    " waits or runs (PostgreSQL, SQLite), nothing in the queue or unacknowledged (Redis). RabbitMQ needs a second to"
    " answer, so there it ends with the last handler's start, and the queue is then seen to be empty; that is in"
    " favour of the system."
)
SAID_OF_FIGURES: Final = (
    "No-op jobs of about 100 bytes. Each figure is a ratio of Holdfast to another system that took turns with it in",
    "this run: the median over the rounds, and the middle half of them; of waits, the ratio of percentiles over all",
    "rounds together, and the middle half of those of each round. Read ratios, not rates: those are of one machine on",
    "one day. `benchmarks/README.md` says how it is measured.",
)
SAID_OF_WAITS: Final = (
    "Idle waits are those of a worker that is awake: before each turn of half a second it is given five jobs, which"
    " are not among them. The first of those, after a pause of some seconds, has a column of its own."
)
MICROSECONDS: Final = 1_000_000


@dataclass(kw_only=True)
class Run:
    """Everything a reader needs to judge the figures, and to repeat them."""

    command: str
    sizes: Sizes
    rounds: int
    is_partial: bool
    systems: Sequence[System]
    results: Results
    left_out: Mapping[str, str]
    seconds: float
    settings: Mapping[str, str] = field(default_factory=dict)
    findings: Sequence[Finding] = ()

    @property
    def started_at(self) -> datetime:
        return datetime.now(UTC) - timedelta(seconds=self.seconds)

    @property
    def holds(self) -> bool:
        return all(isinstance(finding, Figure) and finding.holds is not False for finding in self.findings)

    @property
    def variants(self) -> list[tuple[System, Variant]]:
        return [(system, variant) for system in self.systems for variant in system.variants]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    title: str
    measure: str
    figures: tuple[str, ...]
    digits: int = 0
    has_spread: bool = False
    percents: tuple[float, ...] = ()
    """Percentiles of the waits of all rounds, in milliseconds, instead of figures."""

    def cell(self, results: Results, variant: str) -> str:
        if self.percents:
            waits = results.waits(self.measure, variant)
            values = [percentile(waits, percent) * 1000 for percent in self.percents] if waits else []
            return " / ".join(f"{value:,.{self.digits or 1}f}" for value in values)
        medians = [results.median(self.measure, variant, figure) for figure in self.figures]
        text = " + ".join(f"{value:,.{self.digits}f}" for value in medians if value is not None)
        values = results.values(self.measure, variant, self.figures[0])
        spread = self.has_spread and len(values) > 1
        return f"{text} ({min(values):,.{self.digits}f}–{max(values):,.{self.digits}f})" if spread else text


COLUMNS: Final = (
    Column(title="drain, jobs/s", measure="drain", figures=("rate",), has_spread=True),
    Column(title="two workers", measure="drain2", figures=("rate",), has_spread=True),
    Column(title="CPU s/1000 jobs: worker + store", measure="drain", figures=("worker_cpu", "store_cpu"), digits=3),
    Column(title="worker MiB", measure="drain", figures=("memory",)),
    Column(title="single submits/s", measure="submits", figures=("rate",), has_spread=True),
    Column(title="bulk submits/s", measure="bulk", figures=("rate",), has_spread=True),
    Column(title="steady, jobs/s", measure="steady", figures=("rate",), has_spread=True),
    Column(title="steady wait ms, p50 / p99", measure="steady", figures=(), percents=(50, 99)),
    Column(title="idle wait ms, p50 / p99", measure="latency", figures=(), percents=(50, 99)),
    Column(title="idle: first after a pause, ms", measure="latency", figures=("first",), digits=1, has_spread=True),
    Column(title="idle: statements/min", measure="rest", figures=("statements",)),
    Column(title="idle: % of a core", measure="rest", figures=("core_percent",), digits=2),
)


def figures_table(run: Run) -> list[tuple[str, ...]]:
    """A line a variant; columns that nothing was measured for are left out."""
    columns = [column for column in COLUMNS if column.measure in run.results.samples]
    lines = [
        (variant.name, *(column.cell(run.results, variant.name) for column in columns)) for _, variant in run.variants
    ]
    return [("system", *(column.title for column in columns)), *(line for line in lines if any(line[1:]))]


def facts_table(run: Run) -> list[tuple[str, ...]]:
    head = ("system", "versions", "store", "durability", "of a finished job it keeps", "settings")
    lines = [
        (variant.name, versions(system), variant.store, variant.durability, _keeps(run, variant), variant.settings)
        for system, variant in run.variants
    ]
    return [head, *lines]


def _keeps(run: Run, variant: Variant) -> str:
    """What its file says, and what was found."""
    kept, jobs = (run.results.median("drain", variant.name, figure) for figure in ("kept", "jobs"))
    return variant.keeps if kept is None else f"{variant.keeps} ({kept:,.0f} rows after a drain of {jobs:,.0f})"


def versions(system: System) -> str:
    """What the file names by itself; what that needs is pinned, too."""
    if system.runtime == "project":
        names = [name for name in (system.name, "asyncpg", "uvloop") if find_spec(name)]
        return ", ".join(f"{name} {version(name)}" for name in names)
    if system.runtime == "node":
        packages = json.loads((system.folder / "package.json").read_text())["dependencies"]
        return ", ".join(f"{name} {pinned}" for name, pinned in packages.items())
    lines = (system.folder / "requirements.txt").read_text().splitlines()
    named = [line.split()[0].replace("==", " ") for line in lines if "the system itself" in line]
    return ", ".join(named)


def page(run: Run, plots: Sequence[str]) -> str:
    head = ["# Beside other job queues", ""]
    head += [f"`{run.command}`, {run.started_at:%Y-%m-%d %H:%M} UTC, {run.seconds:.0f} s, {run.rounds} rounds.", ""]
    head += [*SAID_OF_FIGURES, ""]
    lines = [report.COLUMNS, *report.rows(run.findings)]
    body = [*head, *markdown_table(lines), "", "## What was measured", "", *markdown_table(figures_table(run)), ""]
    body += ["Medians of the rounds, in parentheses the least and the most; waits are percentiles over all rounds.", ""]
    body += [SAID_OF_DRAINS, "", SAID_OF_WAITS, ""]
    body += [f"![{Path(plot).stem}]({plot})" for plot in plots] + [""]
    body += ["## What the ratios are made from", "", *(f"- {line}" for line in report.details(run.findings)), ""]
    body += ["## The systems", "", *markdown_table(facts_table(run)), ""]
    trouble = [*(f"- {name}: left out, {why}" for name, why in run.left_out.items())]
    trouble += [f"- {failure}" for failure in run.results.failures] + [f"- {line}" for line in run_again(run)]
    body += ["## Left out, and what failed", "", *(trouble or ["Nothing."]), ""]
    body += ["## Settings", "", *(f"- {name}: {value}" for name, value in run.settings.items()), ""]
    return "\n".join(body)


def run_again(run: Run) -> list[str]:
    """No handler should have run twice: nobody was killed."""
    counts = {variant.name: sum(run.results.values("drain", variant.name, "run_again")) for _, variant in run.variants}
    return [f"{name}: {count:.0f} handlers ran a second time" for name, count in counts.items() if count]


def markdown_table(lines: Sequence[Sequence[str]]) -> list[str]:
    head, *rest = ["| " + " | ".join(line) + " |" for line in lines]
    return [head, "| " + " | ".join("---" for _ in lines[0]) + " |", *rest]


def terminal_table(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([texts[0], "-" * len(texts[0]), *texts[1:]])


def write(run: Run) -> Path:
    """Returns the page's path inside the repository."""
    folder = report.PARTIAL_FOLDER if run.is_partial else report.FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "peers.json"
    data.write_text(json.dumps(as_data(run), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    path = folder / "peers.md"
    path.write_text(page(run, draw(PLOTS / "draw.py", data)), encoding="utf-8")
    return path.relative_to(report.REPOSITORY)


def draw(program: Path, data: Path) -> list[str]:
    """The names of the plots that a program makes of a file.

    matplotlib has an environment of its own, like everything that Holdfast does not need.
    """
    try:
        python = python_environment("plots", PLOTS / "requirements.txt").python
    except NotInstalled as error:
        print(f"no plots: {error}")
        return []
    done = subprocess.run([python, program, data], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"no plots: {done.stderr.strip().splitlines()[-1:]}")
        return []
    return done.stdout.split()


def as_data(run: Run) -> dict[str, Any]:
    return {
        "command": run.command,
        "started_at": run.started_at.isoformat(timespec="seconds"),
        "seconds": round(run.seconds),
        "holds": run.holds,
        "rounds": run.rounds,
        "sizes": asdict(run.sizes),
        "settings": dict(run.settings),
        "left_out": dict(run.left_out),
        "failures": [asdict(failure) for failure in run.results.failures],
        "figures": [
            {**asdict(finding), "holds": None if isinstance(finding, Missing) else finding.holds}
            for finding in run.findings
        ],
        "systems": [dict(zip(facts_table(run)[0], line, strict=True)) for line in facts_table(run)[1:]],
        "samples": {
            measure: {name: [_sample(measure, sample) for sample in samples] for name, samples in by_variant.items()}
            for measure, by_variant in run.results.samples.items()
        },
    }


def _sample(measure: str, sample: Sample | None) -> dict[str, Any] | None:
    if sample is None:
        return None
    figures: dict[str, Any] = {name: _short(value) for name, value in sample.figures.items()}
    if measure == "latency":
        figures["waits_microseconds"] = " ".join(str(round(wait * MICROSECONDS)) for wait in sample.waits)
    elif sample.waits:
        figures["waits"] = len(sample.waits)
    return figures


def _short(value: float | None) -> float | None:
    return value if value is None else float(f"{value:.5g}")
