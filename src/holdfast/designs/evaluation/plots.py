"""The figures as SVG: text stays text, and the same samples give the same file.

Colours are the same in every plot: a reader learns them once. Whiskers are the 95 % intervals over the rounds.
"""

from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any, Final

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.fonttype"] = "none"
matplotlib.rcParams["svg.hashsalt"] = "holdfast"
matplotlib.rcParams["font.family"] = "sans-serif"

from matplotlib import pyplot  # noqa: E402

from holdfast.designs.evaluation.designs import OPERATION_TITLES, TITLES  # noqa: E402
from holdfast.designs.evaluation.hops import fit_hops, heaviest, hop_points  # noqa: E402
from holdfast.designs.evaluation.profiles import Cell  # noqa: E402
from holdfast.designs.evaluation.samples import merged  # noqa: E402
from holdfast.designs.evaluation.summary import Summary  # noqa: E402
from holdfast.designs.evaluation.tally import OPERATIONS  # noqa: E402

COLOURS: Final = {"a": "#c8553d", "b": "#1f6f8b", "durable": "#6a994e", "durable-postgres": "#9c6ade"}
STYLES: Final = {50: "-", 95: "--", 99: ":"}
PANEL_INCHES: Final = (4.2, 3.0)


def lines(summary: Summary, cells: Sequence[Cell], axes: Any, figure: str) -> None:
    """A figure against the load, a line a design."""
    by_rate = cells[0].loop == "open"
    for design in summary.designs:
        found = [(cell.rate if by_rate else cell.clients, summary.figure(cell, design, figure)) for cell in cells]
        points = [(at, one) for at, one in found if one is not None]
        if not points:
            continue
        below = [one.mean - (one.mean if one.low is None else max(one.low, 0.0)) for _, one in points]
        above = [(one.mean if one.high is None else one.high) - one.mean for _, one in points]
        axes.errorbar(
            [at for at, _ in points],
            [one.mean for _, one in points],
            yerr=[below, above],
            color=COLOURS[design],
            label=TITLES[design],
            marker="o",
            markersize=3.5,
            capsize=2,
            linewidth=1.5,
        )
    axes.set_xlabel("arrivals a second" if by_rate else "clients")
    _ticks(axes, [cell.rate if by_rate else cell.clients for cell in cells])
    axes.set_ylim(bottom=0)


def throughput(summary: Summary) -> str | None:
    """Requests a second for mixes, jobs a second for journeys, against the number of clients."""
    panels = []
    for cells in _curves(summary, "closed"):
        figure = "jobs_per_second" if cells[0].pattern == "journey" else "requests_per_second"
        title = f"{_name(cells[0])}: {'jobs' if figure.startswith('jobs') else 'requests'} a second"
        panels.append((title, lambda axes, cells=cells, figure=figure: lines(summary, cells, axes, figure)))
    return _panels(panels)


def latency(summary: Summary) -> str | None:
    """p50, p95 and p99 of each operation against the number of clients."""
    panels = []
    for cells in _curves(summary, "closed"):
        for operation in OPERATIONS:
            if any(summary.has(cell, f"{operation}_p50_ms") for cell in cells):
                title = f"{_name(cells[0])}: {OPERATION_TITLES[operation]}, ms"
                panels.append((title, lambda axes, c=cells, o=operation: _percentile_lines(summary, c, axes, o)))
    return _panels(panels, note="solid p50, dashed p95, dotted p99")


def arrivals(summary: Summary) -> str | None:
    """Open loop: the times from when a call was due, against the rate."""
    panels = []
    for cells in _curves(summary, "open"):
        for operation in ("submit", "submit_to_done"):
            title = f"{_name(cells[0])}: {OPERATION_TITLES.get(operation, 'submit to done')}, ms from when it was due"
            panels.append((title, lambda axes, c=cells, o=operation: _percentile_lines(summary, c, axes, o)))
    return _panels(panels, note="solid p50, dashed p95, dotted p99")


def distribution(summary: Summary) -> str | None:
    """How many submits had been answered after so long: all rounds together, at the largest closed load."""
    panels = []
    for cells in _curves(summary, "closed"):
        cell = cells[-1]
        title = f"{_name(cell)}, {cell.load}: SubmitJob"
        panels.append((title, lambda axes, cell=cell: _curve(summary, cell, axes)))
    return _panels(panels)


def end_to_end(summary: Summary) -> str | None:
    """Submit to done, less what the job itself takes."""
    panels = []
    for cells in _curves(summary, "closed"):
        if cells[0].pattern == "journey":
            title = f"{_name(cells[0])}: submit to done, ms beyond the job's own"
            panels.append((title, lambda axes, c=cells: _beyond(summary, c, axes)))
    return _panels(panels, note="solid p50, dashed p95, dotted p99")


def cost_per_hop(summary: Summary) -> str | None:
    """Time and CPU at the lightest closed load against the number of RPCs."""
    times = hop_points(summary)
    if not times:
        return None

    def draw_times(axes: Any) -> None:
        for design in summary.designs:
            points = [(hops, value, operation) for one, operation, hops, value in times if one == design]
            axes.scatter(
                [hops for hops, _, _ in points],
                [value for _, value, _ in points],
                color=COLOURS[design],
                label=TITLES[design],
                s=22,
            )
            for hops, value, operation in points:
                axes.annotate(
                    OPERATION_TITLES[operation], (hops, value), xytext=(5, 3), textcoords="offset points", fontsize=6
                )
        fit = fit_hops(summary)
        if fit is not None:
            ends = (0.5, 3.5)
            axes.plot(
                ends, [fit.base_ms + fit.each_ms * hops for hops in ends], color="#888888", linewidth=0.8, zorder=0
            )
        axes.set_xlabel("RPC hops")
        axes.set_xlim(0.5, 4)
        axes.set_ylim(bottom=0)
        _ticks(axes, [1, 2, 3])

    def draw_cpu(axes: Any) -> None:
        for index, design in enumerate(summary.designs):
            cell = heaviest(summary, "mix")
            value = None if cell is None else summary.figure(cell, design, "cpu_ms_per_request")
            if value is None:
                continue
            error = 0.0 if value.high is None else value.high - value.mean
            axes.bar([index], [value.mean], yerr=[error], color=COLOURS[design], capsize=2, label=TITLES[design])
        axes.set_xticks(range(len(summary.designs)), [TITLES[design] for design in summary.designs], fontsize=6)
        axes.set_ylim(bottom=0)

    cell = heaviest(summary, "mix")
    panels: list[tuple[str, Callable[[Any], None]]] = [("p50 at the lightest load, ms", draw_times)]
    if cell is not None and summary.has(cell, "cpu_ms_per_request"):
        panels.append((f"CPU of the design, ms a request: {_name(cell)}, {cell.load}", draw_cpu))
    return _panels(panels)


PLOTS: Final = {
    "throughput": ("Throughput against concurrency", throughput),
    "latency": ("Latency against concurrency", latency),
    "distribution": ("Latency of SubmitJob, cumulative", distribution),
    "end-to-end": ("Submit to done", end_to_end),
    "arrivals": ("Open loop: times under random arrivals", arrivals),
    "cost-per-hop": ("Cost per hop", cost_per_hop),
}


def _percentile_lines(summary: Summary, cells: Sequence[Cell], axes: Any, operation: str, less: float = 0.0) -> None:
    by_rate = cells[0].loop == "open"
    for design in summary.designs:
        for percent, style in STYLES.items():
            found = [
                (cell.rate if by_rate else cell.clients, summary.mean(cell, design, f"{operation}_p{percent}_ms"))
                for cell in cells
            ]
            points = [(at, max(0.0, value - less)) for at, value in found if value is not None]
            axes.plot(
                [at for at, _ in points],
                [value for _, value in points],
                style,
                color=COLOURS[design],
                label=TITLES[design] if percent == 50 and points else None,
                linewidth=1.3,
                marker="o",
                markersize=2.5,
            )
    axes.set_xlabel("arrivals a second" if by_rate else "clients")
    _ticks(axes, [cell.rate if by_rate else cell.clients for cell in cells])
    axes.set_ylim(bottom=0)


def _beyond(summary: Summary, cells: Sequence[Cell], axes: Any) -> None:
    _percentile_lines(summary, cells, axes, "submit_to_done", less=cells[0].job_ms)


def _curve(summary: Summary, cell: Cell, axes: Any) -> None:
    for design in summary.designs:
        points = merged(summary.samples_of(cell, design), "submit").curve()
        if points:
            axes.plot(
                [at for at, _ in points],
                [percent for _, percent in points],
                color=COLOURS[design],
                label=TITLES[design],
                linewidth=1.5,
            )
    axes.set_xscale("log")
    axes.set_xlabel("ms")
    axes.set_ylabel("% answered")


def _curves(summary: Summary, loop: str) -> list[list[Cell]]:
    """Cells that differ in nothing but the load."""
    found: dict[tuple[str, int], list[Cell]] = {}
    for workload in summary.workloads:
        for cell in summary.cells_of(workload):
            if cell.loop == loop:
                found.setdefault((workload, cell.job_ms), []).append(cell)
    return list(found.values())


def _name(cell: Cell) -> str:
    return f"{cell.workload}, {cell.job_ms} ms jobs" if cell.job_ms else cell.workload


def _ticks(axes: Any, values: Sequence[float]) -> None:
    if min(values) > 0 and max(values) / min(values) >= 4:
        axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(set(values)), [f"{value:g}" for value in sorted(set(values))])
    axes.minorticks_off()


def _panels(panels: Sequence[tuple[str, Callable[[Any], None]]], note: str = "") -> str | None:
    if not panels:
        return None
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    width, height = PANEL_INCHES
    figure, grid = pyplot.subplots(rows, columns, figsize=(width * columns, height * rows), squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, draw) in zip(grid.flat, panels, strict=False):
        draw(axes)
        axes.set_title(title, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=7)
        axes.xaxis.label.set_size(7)
        axes.yaxis.label.set_size(7)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="lower center", ncols=4, fontsize=7, frameon=False, title=note or None, title_fontsize=7
    )
    figure.tight_layout(rect=(0, 0.3 / (height * rows) + 0.02, 1, 1))
    text = StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return text.getvalue()
