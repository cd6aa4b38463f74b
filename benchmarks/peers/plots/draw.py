"""``python draw.py peers.json``: draw the plots beside the file, and print their names."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text: small files
matplotlib.rcParams["svg.hashsalt"] = "holdfast"  # the same figures give the same file

from matplotlib import pyplot  # noqa: E402

OURS: Final = "#1f6f8b"
THEIRS: Final = "#b8c4c9"
RATES: Final = {
    "drain": ("peers-drain.svg", "Waiting jobs, one worker process: jobs a second"),
    "submits": ("peers-submits.svg", "Single submits, ten concurrent, PostgreSQL: jobs a second"),
    "bulk": ("peers-bulk.svg", "Bulk submits, PostgreSQL: jobs a second"),
    "steady": ("peers-steady.svg", "Ten producers and a worker: jobs a second"),
}

Samples = Mapping[str, Sequence[Mapping[str, Any] | None]]


def draw(path: Path) -> list[str]:
    samples = json.loads(path.read_text(encoding="utf-8"))["samples"]
    names = [
        draw_rates(samples[measure], path.with_name(name), title)
        for measure, (name, title) in RATES.items()
        if any(any(rounds) for rounds in samples.get(measure, {}).values())
    ]
    if any(any(rounds) for rounds in samples.get("latency", {}).values()):
        names.append(draw_waits(samples["latency"], path.with_name("peers-latency.svg")))
    return names


def draw_rates(samples: Samples, path: Path, title: str) -> str:
    rates = {name: [sample["rate"] for sample in rounds if sample] for name, rounds in samples.items()}
    known = sorted((name for name in rates if rates[name]), key=lambda name: median(rates[name]))
    figure, axes = pyplot.subplots(figsize=(8, 0.6 + 0.3 * len(known)))
    values = [median(rates[name]) for name in known]
    spread = [[value - min(rates[name]) for name, value in zip(known, values, strict=True)]]
    spread.append([max(rates[name]) - value for name, value in zip(known, values, strict=True)])
    colours = [OURS if name.startswith("holdfast") else THEIRS for name in known]
    axes.barh(known, values, color=colours, xerr=spread, ecolor="#555555", capsize=2)
    for position, value in enumerate(values):
        axes.annotate(f"{value:,.0f}", (value, position), xytext=(6, 5), textcoords="offset points", fontsize=7)
    axes.margins(y=0.01)
    axes.set_title(title, fontsize=10)
    return _save(figure, axes, path)


def draw_waits(samples: Samples, path: Path) -> str:
    """How many of the jobs had begun after so long."""
    figure, axes = pyplot.subplots(figsize=(8, 4))
    for name, rounds in samples.items():
        texts = [sample["waits_microseconds"] for sample in rounds if sample]
        waits = sorted(int(wait) / 1000 for text in texts for wait in text.split())
        if not waits:
            continue
        # A curve of a hundred points says it as well as thousands do.
        marks = [waits[min(len(waits) - 1, len(waits) * percent // 100)] for percent in range(100)]
        ours = name.startswith("holdfast")
        axes.plot(marks, range(100), label=name, linewidth=2.2 if ours else 1.0)
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds from submit to start, idle worker")
    axes.set_ylabel("% of jobs")
    axes.legend(fontsize=7)
    return _save(figure, axes, path)


def _save(figure: Any, axes: Any, path: Path) -> str:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return path.name


if __name__ == "__main__":
    print("\n".join(draw(Path(sys.argv[1]))))
