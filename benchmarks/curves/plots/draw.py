"""``python draw.py curves.json``: draw a plot a curve beside the file, and print their names."""

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

COLOURS: Final = ("#1f6f8b", "#d67d32", "#6ea05a", "#8a6fa8", "#555555")
STYLES: Final = {"p50": "-", "p99": "--", "p99.9": ":"}

Points = Sequence[Mapping[str, Any]]


def draw(path: Path) -> list[str]:
    curves = json.loads(path.read_text(encoding="utf-8"))["curves"]
    return [
        draw_curve(curve, path.with_name(f"curves-{name}.svg"))
        for name, curve in curves.items()
        if curve["axis"] and any(point["rounds"] for point in curve["points"])
    ]


def draw_curve(curve: Mapping[str, Any], path: Path) -> str:
    """Rates on the left, with the least and the most of the rounds; waits on the right."""
    points: Points = [point for point in curve["points"] if point["rounds"]]
    series = list(dict.fromkeys(point["series"] for point in points))
    figure, (rates, waits) = pyplot.subplots(1, 2, figsize=(10, 3.6))
    for name, colour in zip(series, COLOURS * len(series), strict=False):
        own = [point for point in points if point["series"] == name]
        _draw_rates(rates, own, name, colour)
        _draw_waits(waits, own, name, colour)
    for axes, label in ((rates, "jobs/s"), (waits, f"ms, {curve['wait']}")):
        _finish(axes, points, curve["axis"], label)
    rates.set_ylim(bottom=0)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return path.name


def _draw_rates(axes: Any, points: Points, name: str, colour: str) -> None:
    values = [[sample["rate"] for sample in point["rounds"] if sample.get("rate")] for point in points]
    middle = [median(rates) for rates in values]
    spread = [
        [value - min(rates) for value, rates in zip(middle, values, strict=True)],
        [max(rates) - value for value, rates in zip(middle, values, strict=True)],
    ]
    axes.errorbar(
        [point["x"] for point in points], middle, yerr=spread, label=name, color=colour, marker="o", capsize=2
    )
    axes.legend(fontsize=7, handlelength=3)


def _draw_waits(axes: Any, points: Points, name: str, colour: str) -> None:
    known = [point for point in points if point["waits"]]
    percents = [
        percent for percent in STYLES if percent != "p99.9" or all(p["waits"]["count"] >= 10_000 for p in known)
    ]
    for percent in percents if known else []:
        values = [point["waits"][percent] for point in known]
        label = f"{name}, {percent}"
        axes.plot(
            [point["x"] for point in known],
            values,
            STYLES[percent],
            label=label,
            color=colour,
            marker="o",
            markersize=3,
        )
        axes.legend(fontsize=7, handlelength=3)


def _finish(axes: Any, points: Points, axis: str, label: str) -> None:
    places = sorted({point["x"] for point in points})
    if places[-1] > 100 * max(1, places[0]):
        axes.set_xscale("symlog" if places[0] == 0 else "log", **({"linthresh": places[1]} if places[0] == 0 else {}))
    axes.set_xticks(places, [f"{place:,.0f}" for place in places], fontsize=7)
    axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    axes.set_xlabel(axis, fontsize=8)
    axes.set_ylabel(label, fontsize=8)
    if label != "jobs/s":
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
    axes.tick_params(which="both", labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    print("\n".join(draw(Path(sys.argv[1]))))
