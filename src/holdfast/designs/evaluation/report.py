"""The report of a run: what was found, how sure that is, why it is so, and everything to check it by."""

import json
from collections.abc import Sequence
from pathlib import Path

from holdfast.designs.evaluation import samples
from holdfast.designs.evaluation.designs import DESIGNS, OPERATION_TITLES, TITLES, split_of
from holdfast.designs.evaluation.document import (
    Block,
    Heading,
    Plot,
    Points,
    Table,
    Text,
    from_markdown,
    markdown,
    page,
)
from holdfast.designs.evaluation.facts import Facts, read_facts
from holdfast.designs.evaluation.fairness import disturbed
from holdfast.designs.evaluation.findings import findings
from holdfast.designs.evaluation.folders import ANALYSIS
from holdfast.designs.evaluation.profiles import OPEN_CONNECTIONS, Cell
from holdfast.designs.evaluation.reasons import generator_notes, reasons
from holdfast.designs.evaluation.samples import Sample
from holdfast.designs.evaluation.summary import Summary
from holdfast.designs.evaluation.words import hops_lines, shown


def write_report(folder: Path) -> None:
    """From config.json and samples.jsonl alone, so that it can be written again at any time."""
    facts, measured = read_facts(folder), samples.read(folder / "samples.jsonl")
    summary = Summary.of(measured)
    plots = draw(summary)
    for plot in plots:
        (folder / f"{plot.name}.svg").write_text(plot.svg, encoding="utf-8")
    text = json.dumps(summary.data(), ensure_ascii=False, indent=1)
    (folder / "summary.json").write_text(text + "\n", encoding="utf-8")
    analysis = folder / ANALYSIS
    written = from_markdown(analysis.read_text(encoding="utf-8")) if analysis.exists() else []
    blocks = make_blocks(facts, summary, plots, written)
    title = f"Evaluation {facts.name}"
    (folder / "report.md").write_text(markdown(title, blocks), encoding="utf-8")
    (folder / "report.html").write_text(page(title, blocks), encoding="utf-8")


def draw(summary: Summary) -> list[Plot]:
    from holdfast.designs.evaluation.plots import PLOTS  # matplotlib takes a second

    made = [(name, title, make(summary)) for name, (title, make) in PLOTS.items()]
    hops = hops_lines(("submit", "status", "result", "run"), summary.designs)
    return [Plot(name, title, svg, below=f"RPC {hops}.") for name, title, svg in made if svg is not None]


def make_blocks(facts: Facts, summary: Summary, plots: Sequence[Plot], analysis: Sequence[Block]) -> list[Block]:
    blocks: list[Block] = [Text(_opening(facts, summary))]
    if facts.broken_rules:
        blocks += [Text("**This run was forced although it is not fair**, so that nothing follows from it:")]
        blocks += [Points([str(check) for check in facts.broken_rules])]
    blocks += [Heading("What was found"), Points(findings(summary))]
    blocks += [Heading("How sure this is"), *_certainty(facts, summary)]
    blocks += [Heading("Why"), Points(reasons(summary) or ["Not enough was measured to say."])]
    if analysis:
        blocks += [Heading("Analysis"), *analysis]
    blocks += [Heading("RPC hops of an operation"), _hops_table(summary)]
    blocks += [Heading("Plots"), *plots]
    blocks += [Heading("Figures"), *_figures(summary)]
    blocks += [Heading("Jobs: every one accounted for"), *_jobs(summary)]
    blocks += [Heading("The load generator"), *_generator(facts, summary)]
    blocks += [Heading("Fairness"), *_fairness(facts, summary)]
    blocks += [Heading("To repeat it"), *_repeat(facts)]
    return blocks


def _opening(facts: Facts, summary: Summary) -> str:
    names = ", ".join(TITLES[design] for design in summary.designs)
    return (
        f"`{facts.command}`, {facts.started_at}, {facts.seconds:.0f} s. Compared: {names}. Profile"
        f" `{facts.profile_name}`: {facts.profile.about} {facts.profile.rounds} rounds; in each, every design is"
        f" started, measured and stopped, alone on the machine, in an order that changes from round to round."
    )


def _certainty(facts: Facts, summary: Summary) -> list[Block]:
    rounds = facts.profile.rounds
    blocks: list[Block] = [
        Text(
            f"± and intervals are 95 % by Student's t over {rounds} rounds, one value a round; the thousands of calls"
            " within a round share its luck and count once. Ratios are taken within a round and averaged as logarithms."
            " Where an interval holds 1, the text says that the two cannot be told apart. Percentiles come from HDR"
            " histograms with three digits; a p99 of a cell with few calls is the luck of a few of them."
        )
    ]
    if rounds < 5:
        blocks += [Text(f"{rounds} rounds are few: the intervals are wide, and small differences do not show.")]
    noisy = disturbed(summary.samples)
    if noisy:
        blocks += [Text("Others used much of the machine in these cells; do not rely on them:")]
        blocks += [Points([f"{name}: up to {share:.0%} of the machine" for name, share in noisy.items()])]
    return blocks


def _hops_table(summary: Summary) -> Table:
    rows = [
        [TITLES[design], OPERATION_TITLES[operation], str(hops.count), hops.path]
        for design in summary.designs
        for operation, hops in DESIGNS[design].hops.items()
    ]
    return Table(["design", "operation", "hops", "path"], rows)


def _figures(summary: Summary) -> list[Block]:
    blocks: list[Block] = []
    for workload in summary.workloads:
        cells = summary.cells_of(workload)
        blocks += [Heading(workload, 3), _throughput_table(summary, cells), _latency_table(summary, cells)]
    return blocks


def _throughput_table(summary: Summary, cells: Sequence[Cell]) -> Table:
    head = ["load", "job ms", "design", "requests/s", "jobs/s", "CPU ms/request", "CPU ms/job", "MiB", "errors"]
    figures = ("requests_per_second", "jobs_per_second", "cpu_ms_per_request", "cpu_ms_per_job", "memory_mib")
    rows = [
        [
            cell.load,
            str(cell.job_ms),
            TITLES[design],
            *(shown(summary.figure(cell, design, figure)) for figure in figures),
            f"{sum(summary.values(cell, design, 'errors').values()):.0f}",
        ]
        for cell in cells
        for design in summary.designs
    ]
    return Table(head, rows)


def _latency_table(summary: Summary, cells: Sequence[Cell]) -> Table:
    head = ["load", "job ms", "operation", "design", "hops", "p50 ms", "p95 ms", "p99 ms"]
    rows = [
        [
            cell.load,
            str(cell.job_ms),
            title,
            TITLES[design],
            hops_of(design, operation),
            *(shown(summary.figure(cell, design, f"{operation}_p{percent}_ms")) for percent in samples.PERCENTS),
        ]
        for cell in cells
        for operation, title in (*OPERATION_TITLES.items(), ("submit_to_done", "submit to done"))
        for design in summary.designs
        if summary.values(cell, design, f"{operation}_p50_ms")
    ]
    return Table(head, rows)


def hops_of(design: str, operation: str) -> str:
    hops = DESIGNS[design].hops
    if operation == "submit_to_done":
        return f"{hops['submit'].count} + {hops['run'].count}"
    return str(hops[operation].count)


def _jobs(summary: Summary) -> list[Block]:
    rows = []
    for cell in summary.cells:
        for design in summary.designs:
            found = summary.samples_of(cell, design)
            accepted, ends = sum(one.accepted for one in found), _ends(found)
            rows.append([f"{cell.workload}, {cell.load}, {cell.job_ms} ms", TITLES[design], str(accepted), ends])
    said = (
        "Over all rounds. `unknown` is a job whose end nobody waited for: the cell's drain_seconds were over, and the"
        " design was restarted."
    )
    return [Text(said), Table(["cell", "design", "accepted", "of them"], rows)]


def _ends(found: Sequence[Sample]) -> str:
    names = ("done", "failed", "canceled", "unknown")
    counts = {name: sum(sample.ends.get(name, 0) for sample in found) for name in names}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"


def _generator(facts: Facts, summary: Summary) -> list[Block]:
    rows = []
    for cell in summary.cells:
        for design in summary.designs:
            figures = [summary.figure(cell, design, name) for name in ("generator_cores", "generator_share")]
            late = samples.merged(summary.samples_of(cell, design), "lateness")
            lateness = f"{late.milliseconds(99):.1f}" if late.count else ""
            name = f"{cell.workload}, {cell.load}, {cell.job_ms} ms"
            rows.append([name, TITLES[design], *map(shown, figures), lateness])
    count = facts.profile.generators
    said = (
        f"The same program for every design, in {count} process{'es' if count > 1 else ''} of its own; every client"
        f" has its own connection to each target (of an open loop, {OPEN_CONNECTIONS} a process take turns): Design A's"
        " gateway, the durable server and each node of Design B have as many. No retries, the contract's deadlines. It"
        " shares the machine with the design, and costs every design the same CPU a request: where the machine is full"
        " this brings the designs' throughputs nearer together than their own CPU a request is. Compare that, too."
    )
    notes = generator_notes(summary)
    blocks: list[Block] = [Text(said)]
    blocks += [Text("Where it may have been the limit itself:"), Points(notes)] if notes else []
    return [
        *blocks,
        Table(["cell", "design", "cores used", "share of the CPU of both", "calls sent late, p99 ms"], rows),
    ]


def _fairness(facts: Facts, summary: Summary) -> list[Block]:
    rows = [[check.name, check.required, check.seen, "yes" if check.holds else "**no**"] for check in facts.checks]
    split = [
        [TITLES[design], split_of(DESIGNS[design], facts.profile.slots), DESIGNS[design].storage]
        for design in summary.designs
    ]
    return [
        Table(["rule", "required", "seen", "holds"], rows),
        Table(["design", "slots", "where state is kept"], split),
        Text("ListJobs is not part of the load: in Design B it is local to a node, and so no ground for a comparison."),
    ]


def _repeat(facts: Facts) -> list[Block]:
    rows = [[name, value] for name, value in facts.machine.items()]
    rows += [["seed", str(facts.profile.seed)]]
    rows += [[f"addresses of {TITLES[design]}", ", ".join(given)] for design, given in facts.addresses.items()]
    return [
        Text(f"`{facts.command}`; `config.json` has the profile in full, `samples.jsonl` every visit and its times."),
        Table(["what", "value"], rows),
    ]
