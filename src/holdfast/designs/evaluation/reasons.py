"""Why it is so, as far as the figures tell: hops, commits, queues, a full machine. Pure."""

from collections.abc import Iterator
from typing import Final

from holdfast.designs.evaluation.designs import DESIGNS, TITLES
from holdfast.designs.evaluation.fairness import DISTURBED_SHARE
from holdfast.designs.evaluation.hops import fit_hops, heaviest, lightest
from holdfast.designs.evaluation.summary import Summary
from holdfast.designs.evaluation.words import number, shown, where

FULL_MACHINE: Final = 0.85
"""Of the cores in use: more load would only wait."""
BUSY_GENERATOR: Final = 0.85
"""Of one core a generator: beyond, a figure may be the generator's own limit."""


def reasons(summary: Summary) -> list[str]:
    """Why it is so, as far as the figures tell."""
    return [*_hop_reasons(summary), *_commit_reasons(summary), *_queue_reasons(summary), *_full_reasons(summary)]


def _hop_reasons(summary: Summary) -> Iterator[str]:
    fit = fit_hops(summary)
    if fit is None:
        return
    yield (
        f"A hop costs about {number(fit.each_ms)} ms where nobody waits for anybody: the least-squares line over"
        f" {fit.points} operations of the designs in memory is {number(max(0.0, fit.base_ms))} ms +"
        f" {number(fit.each_ms)} ms × hops; Design A makes two hops more than Design B for a SubmitJob."
    )


def _commit_reasons(summary: Summary) -> Iterator[str]:
    """What durability costs: the same hop, with a commit in it and what leads to it."""
    cells = [cell for cell in lightest(summary) if summary.has(cell, "submit_p50_ms")]
    for design in summary.designs if cells else ():
        ours, memory = (summary.mean(cells[0], one, "submit_p50_ms") for one in (design, "b"))
        if DESIGNS[design].storage != "memory" and ours is not None and memory is not None:
            yield (
                f"Durability costs about {number(max(0.0, ours - memory))} ms a submit: SubmitJob of {TITLES[design]}"
                f" takes {number(ours)} ms, that of Design B {number(memory)} ms, both with one hop ({cells[0].load})."
                " For that, what was accepted survives a crash; the jobs of Designs A and B do not."
            )


def _queue_reasons(summary: Summary) -> Iterator[str]:
    """One queue before all slots, or a queue before each: seen where jobs take time and slots are scarce."""
    crowded = [cell for cell in summary.cells if cell.job_ms and cell.pattern == "journey"]
    if not crowded or not {"a", "b"} <= set(summary.designs):
        return
    cell = max(crowded, key=lambda one: (one.loop == "open", one.rate, one.clients, one.job_ms))
    found = {design: summary.figure(cell, design, "queue_wait_p95_ms") for design in ("a", "b")}
    yield (
        f"Design A has one queue before all its slots, Design B one before each node's: a job there waits for its own"
        f" node even while others are free. Queue wait, p95, {where(cell)}: Design A {shown(found['a'], ' ms')},"
        f" Design B {shown(found['b'], ' ms')}."
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
