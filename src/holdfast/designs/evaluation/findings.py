"""What was found, in words, from the figures: each sentence names its interval, and says so where chance explains it.

Nothing is claimed that one round alone shows. ListJobs is not part of the load, so that nothing is said of it.
"""

from collections.abc import Callable, Iterator

from holdfast.designs.evaluation.designs import DESIGNS, OPERATION_TITLES, TITLES
from holdfast.designs.evaluation.hops import heaviest, lightest
from holdfast.designs.evaluation.profiles import Cell
from holdfast.designs.evaluation.statistics import Interval
from holdfast.designs.evaluation.summary import Summary
from holdfast.designs.evaluation.words import compared, hops_counted, hops_lines, hops_of, shown, where


def findings(summary: Summary) -> list[str]:
    return [
        *_throughput(summary),
        *_latency(summary),
        *_end_to_end(summary),
        *_arrivals(summary),
        *_costs(summary),
        *_errors(summary),
    ]


def _claims(summary: Summary, cell: Cell, figure: str, say: Callable[[str, str, Interval], str]) -> Iterator[str]:
    for pair in summary.pairs():
        one, other = pair
        found = summary.ratio(cell, one, other, figure)
        if found is not None and found.mean < 1:
            one, other = other, one
            found = summary.ratio(cell, one, other, figure)
        if found is None:
            continue
        if found.excludes(1.0):
            yield say(TITLES[one], TITLES[other], found)
        else:
            same = "cannot be told apart" if found.rounds > 1 else "were compared in one round only"
            yield f"{TITLES[one]} and {TITLES[other]} {same}: {compared(found)}."


def _throughput(summary: Summary) -> Iterator[str]:
    for workload in summary.workloads:
        closed = [cell for cell in summary.cells_of(workload) if cell.loop == "closed"]
        if not closed:
            continue
        cell = max(closed, key=lambda one: (one.clients, -one.job_ms))
        figure, what = ("jobs_per_second", "jobs") if cell.pattern == "journey" else ("requests_per_second", "requests")
        said = list(
            _claims(
                summary,
                cell,
                figure,
                lambda one, other, found, what=what: (  # type: ignore[misc]
                    f"{one} got through {compared(found)} as many {what} a second as {other}."
                ),
            )
        )
        figures = {design: summary.figure(cell, design, figure) for design in summary.designs}
        values = ", ".join(f"{TITLES[design]} {shown(found)}" for design, found in figures.items())
        if said:
            yield f"**{where(cell)}**, {what} a second: {values}. {' '.join(said)} {hops_of(cell, summary)}"


def _latency(summary: Summary) -> Iterator[str]:
    for operation in ("submit", "status", "result"):
        figure = f"{operation}_p50_ms"
        cells = [cell for cell in lightest(summary) if summary.has(cell, figure)]
        if not cells:
            continue
        values = ", ".join(
            f"{TITLES[design]} {shown(summary.figure(cells[0], design, figure), ' ms')}"
            f" ({hops_counted(DESIGNS[design].hops[operation].count)})"
            for design in summary.designs
        )
        said = _claims(
            summary,
            cells[0],
            figure,
            lambda one, other, found: f"{one} took {compared(found)} as long as {other}.",
        )
        place = f"p50 with {cells[0].load} ({cells[0].workload})"
        yield f"**{OPERATION_TITLES[operation]}**, {place}: {values}. {' '.join(said)}"


def _end_to_end(summary: Summary) -> Iterator[str]:
    journeys = [cell for cell in lightest(summary) if cell.pattern == "journey"]
    for cell in journeys[:1]:
        values = ", ".join(
            f"{TITLES[design]} {shown(summary.figure(cell, design, 'submit_to_done_p50_ms'), ' ms')}"
            for design in summary.designs
        )
        hops = hops_lines(("submit", "run"), summary.designs)
        yield f"**Submit to done** of a {cell.job_ms} ms job, {cell.load}, p50: {values} ({hops})."


def _arrivals(summary: Summary) -> Iterator[str]:
    """The open loop, at the highest rate: what a call waits for whoever came before it."""
    opened = [cell for cell in summary.cells if cell.loop == "open"]
    for job_ms in sorted({cell.job_ms for cell in opened}):
        cell = max((one for one in opened if one.job_ms == job_ms), key=lambda one: one.rate)
        operation = "submit_to_done" if cell.pattern == "journey" else "submit"
        values = ", ".join(
            f"{TITLES[design]} {shown(summary.figure(cell, design, f'{operation}_p50_ms'))} and"
            f" {shown(summary.figure(cell, design, f'{operation}_p99_ms'))}"
            for design in summary.designs
        )
        what = "submit to done" if cell.pattern == "journey" else "SubmitJob"
        yield f"**{where(cell)}**, open loop, {what} from when it was due, p50 and p99 in ms: {values}. " + hops_of(
            cell, summary
        )


def _costs(summary: Summary) -> Iterator[str]:
    for pattern, figure, what in (("mix", "cpu_ms_per_request", "request"), ("journey", "cpu_ms_per_job", "job")):
        cell = heaviest(summary, pattern)
        if cell is None:
            continue
        found = {design: summary.figure(cell, design, figure) for design in summary.designs}
        if any(found.values()):
            values = ", ".join(f"{TITLES[design]} {shown(one, ' ms')}" for design, one in found.items())
            yield f"**CPU a {what}**, {where(cell)}, all processes of a design: {values}. {hops_of(cell, summary)}"
    cell = heaviest(summary, "mix") or heaviest(summary, "journey")
    if cell is not None and summary.has(cell, "memory_mib"):
        values = ", ".join(
            f"{TITLES[design]} {shown(summary.figure(cell, design, 'memory_mib'), ' MiB')}"
            f" in {DESIGNS[design].processes} process{'es' if DESIGNS[design].processes > 1 else ''}"
            for design in summary.designs
        )
        yield f"**Memory** (PSS) after {where(cell)}: {values}."


def _errors(summary: Summary) -> Iterator[str]:
    for design in summary.designs:
        counted: dict[str, int] = {}
        for sample in summary.samples:
            if sample.design == design:
                for code, count in sample.errors.items():
                    counted[code] = counted.get(code, 0) + count
        said = ", ".join(f"{count} × {code}" for code, count in sorted(counted.items())) or "none"
        yield f"**Errors** of {TITLES[design]}, all cells and rounds: {said}."
