"""What was found, in words, from the figures: each sentence names its interval, and says so where chance explains it.

Nothing is claimed that one round alone shows. ListJobs is not part of the load, so that nothing is said of it.
"""

from collections.abc import Callable, Iterator
from typing import Final

from holdfast.evaluation.designs import DESIGNS, OPERATION_TITLES, TITLES, hops_text
from holdfast.evaluation.fairness import DISTURBED_SHARE
from holdfast.evaluation.hops import fit_hops, heaviest, lightest
from holdfast.evaluation.profiles import Cell
from holdfast.evaluation.statistics import Interval
from holdfast.evaluation.summary import Summary

FULL_MACHINE: Final = 0.85
"""Of the cores in use: more load would only wait."""
BUSY_GENERATOR: Final = 0.85
"""Of one core a generator: beyond, a figure may be the generator's own limit."""


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


def findings(summary: Summary) -> list[str]:
    return [*_throughput(summary), *_latency(summary), *_end_to_end(summary), *_costs(summary), *_errors(summary)]


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
            yield f"**{where(cell)}**, {what} a second: {values}. {' '.join(said)} {_hops_of(cell, summary)}"


def where(cell: Cell) -> str:
    return f"{cell.workload}, {cell.load}{f', jobs of {cell.job_ms} ms' if cell.job_ms else ''}"


def _hops_of(cell: Cell, summary: Summary) -> str:
    operations = ("submit", "status", "result", "run") if cell.pattern == "journey" else _of_mix(cell)
    return f"({hops_lines(operations, summary.designs)})"


def _of_mix(cell: Cell) -> tuple[str, ...]:
    return tuple(name for name in ("submit", "status", "result") if getattr(cell.mix, name) > 0)


def hops_lines(operations: tuple[str, ...], designs: list[str]) -> str:
    names = " / ".join(TITLES[design] for design in designs)
    return f"hops, {names}: {', '.join(hops_text(operation, designs) for operation in operations)}"


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


def hops_counted(count: int) -> str:
    return f"{count} hop{'' if count == 1 else 's'}"


def _end_to_end(summary: Summary) -> Iterator[str]:
    journeys = [cell for cell in lightest(summary) if cell.pattern == "journey"]
    for cell in journeys[:1]:
        values = ", ".join(
            f"{TITLES[design]} {shown(summary.figure(cell, design, 'submit_to_done_p50_ms'), ' ms')}"
            for design in summary.designs
        )
        hops = hops_lines(("submit", "run"), summary.designs)
        yield f"**Submit to done** of a {cell.job_ms} ms job, {cell.load}, p50: {values} ({hops})."


def _costs(summary: Summary) -> Iterator[str]:
    for pattern, figure, what in (("mix", "cpu_ms_per_request", "request"), ("journey", "cpu_ms_per_job", "job")):
        cell = heaviest(summary, pattern)
        if cell is None:
            continue
        found = {design: summary.figure(cell, design, figure) for design in summary.designs}
        if any(found.values()):
            values = ", ".join(f"{TITLES[design]} {shown(one, ' ms')}" for design, one in found.items())
            yield f"**CPU a {what}**, {where(cell)}, all processes of a design: {values}. {_hops_of(cell, summary)}"
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


def reasons(summary: Summary) -> list[str]:
    """Why it is so, as far as the figures tell."""
    return [*_hop_reasons(summary), *_full_reasons(summary)]


def _hop_reasons(summary: Summary) -> Iterator[str]:
    fit = fit_hops(summary)
    if fit is None:
        return
    yield (
        f"A hop costs about {number(fit.each_ms)} ms where nobody waits for anybody: the least-squares line over"
        f" {fit.points} operations of the designs in memory is {number(max(0.0, fit.base_ms))} ms +"
        f" {number(fit.each_ms)} ms × hops; Design A makes two hops more than Design B for a SubmitJob."
    )


def _full_reasons(summary: Summary) -> Iterator[str]:
    for pattern in ("mix", "journey"):
        cell = heaviest(summary, pattern)
        for design in summary.designs if cell is not None else ():
            assert cell is not None
            ours, load = (summary.mean(cell, design, name) for name in ("design_cores", "generator_cores"))
            if ours is None or load is None:
                continue
            cores = summary.samples_of(cell, design)[0].cores
            others = summary.mean(cell, design, "other_share") or 0.0
            if others > DISTURBED_SHARE:
                state = f"others used {others:.0%} of the machine, so that nothing follows"
            elif (ours + load) / cores >= FULL_MACHINE:
                state = "the machine was full, so that what a request costs in CPU decides the throughput"
            else:
                state = "the machine was not full: waiting decides, not CPU"
            yield (
                f"{where(cell)}, {TITLES[design]}: {number(ours)} cores by the design and {number(load)} by the load"
                f" generator, of {cores}; {state}."
            )


def generator_notes(summary: Summary) -> list[str]:
    """Where the generator itself may have been the limit."""
    notes = []
    for cell in summary.cells:
        for design in summary.designs:
            busy = summary.mean(cell, design, "generator_cores")
            if busy is not None and busy >= BUSY_GENERATOR:
                notes.append(f"{where(cell)}, {TITLES[design]}: the generator used {busy:.2f} cores")
    return notes
