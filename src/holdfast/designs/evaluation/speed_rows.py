"""The table of speeds: what is required, what was measured, whether it holds. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast.designs.evaluation.designs import DESIGNS, TITLES
from holdfast.designs.evaluation.samples import Sample, merged
from holdfast.designs.evaluation.statistics import Interval, interval, ratio

NODE_SHARE: Final = 0.7
CHAIN_SHARE: Final = 1.3
QUEUE_WAIT_MS: Final = 20.0
MANY_CLIENTS: Final = 64
NODE_CLIENTS: Final = 16
LONG_JOB_MS: Final = 500

Sides = Mapping[str, Sequence[Sample]]
"""Samples by what was measured, a round each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table: a requirement, or what is only reported."""

    measured: str
    value: Interval | None
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""

    @property
    def required(self) -> str:
        if self.at_least is not None:
            return f"≥ {self.at_least:g}{self.unit}"
        return f"≤ {self.at_most:g}{self.unit}" if self.at_most is not None else ""

    @property
    def holds(self) -> bool | None:
        """None where nothing is required. What is required and could not be measured does not hold."""
        if self.at_least is None and self.at_most is None:
            return None
        if self.value is None:
            return False
        return (self.at_least is None or self.value.mean >= self.at_least) and (
            self.at_most is None or self.value.mean <= self.at_most
        )

    @property
    def is_sure(self) -> bool:
        """Does the whole interval keep to the limit, or break it?"""
        value = self.value
        if value is None or value.low is None or value.high is None:
            return True
        limits = [limit for limit in (self.at_least, self.at_most) if limit is not None]
        return all(limit <= value.low or value.high <= limit for limit in limits)

    def data(self) -> dict[str, Any]:
        value = None if self.value is None else self.value.data()
        names = ("measured", "unit", "at_least", "at_most", "note", "holds", "is_sure")
        return {**{name: getattr(self, name) for name in names}, "value": value}


def make_rows(samples: Sides, rest: Mapping[str, float], designs: Sequence[str]) -> list[Row]:
    """The table. A side that was not measured leaves its row without a value."""
    found: list[Row] = []
    if "b" in designs:
        found += [_node_row(samples, "node", LONG_JOB_MS), _node_row(samples, "node running", 0)]
    if "a" in designs:
        found += _chain_rows(samples)
    found += [_wait_row(samples, design, rest.get(design)) for design in designs]
    found += [_many_row(samples, design) for design in designs]
    found += [_done_row(samples, design) for design in designs]
    return found


def _figures(samples: Sides, side: str, name: str) -> list[float]:
    return [sample.figures().get(name, 0.0) for sample in samples.get(side, ())]


def _node_row(samples: Sides, side: str, job_ms: int) -> Row:
    is_required = side == "node"
    rates = [_figures(samples, one, "requests_per_second") for one in (side, "echo")]
    return Row(
        measured=f"SubmitJob on one Design B node, {NODE_CLIENTS} clients, {job_ms} ms jobs: requests/s to the echo's",
        value=ratio(*rates),
        at_least=NODE_SHARE if is_required else None,
        note="; ".join(_use(samples, one, title) for one, title in (("echo", "echo"), (side, "node"))),
    )


def _use(samples: Sides, side: str, title: str) -> str:
    """What a server did with its CPU: whether it, or the load generator, was the limit."""
    names = ("requests_per_second", "cpu_ms_per_request", "design_cores", "generator_cores")
    rate, cost, cores, load = (interval(_figures(samples, side, name)) for name in names)
    if rate is None or cost is None or cores is None or load is None:
        return f"{title}: not measured"
    return (
        f"{title}: {rate.mean:,.0f} requests/s, {cost.mean * 1000:.0f} µs CPU a request, {cores.mean:.2f} cores;"
        f" load generator {load.mean:.2f}"
    )


def _chain_rows(samples: Sides) -> list[Row]:
    ours, chain, single = (_figures(samples, side, "submit_p50_ms") for side in ("gateway", "chain", "single echo"))
    means = [interval(values) for values in (ours, chain, single)]
    note = ""
    if all(means):
        note = "p50: " + ", ".join(
            f"{title} {one.mean:.2f} ms"
            for title, one in zip(("Design A", "chain", "single echo"), means, strict=True)
            if one is not None
        )
    hops = DESIGNS["a"].hops["submit"].count
    return [
        Row(
            measured=f"SubmitJob through Design A, one client ({hops} hops): p50 to that of {hops} echo calls",
            value=ratio(ours, chain),
            at_most=CHAIN_SHARE,
            note=note,
        ),
        Row(
            measured=f"the same, to {hops} times the p50 of a single echo call",
            value=ratio(ours, [hops * value for value in single]),
        ),
    ]


def _wait_row(samples: Sides, design: str, rest: float | None) -> Row:
    times = merged(samples.get(f"{design} idle", ()), "queue_wait")
    idle = f"; at rest it uses {rest:.1%} of a core" if rest is not None else ""
    return Row(
        measured=f"queue wait of a job on an idle system, {TITLES[design]}: p50",
        value=interval([times.milliseconds(50)]) if times.count else None,
        unit=" ms",
        at_most=QUEUE_WAIT_MS,
        note=f"{times.count} jobs, p99 {times.milliseconds(99):.0f} ms{idle}",
    )


def _many_row(samples: Sides, design: str) -> Row:
    found = samples.get(f"{design} many", ())
    errors = sum((Counter(sample.errors) for sample in found), Counter[str]())
    requests = sum(sample.requests for sample in found)
    ends = sum((Counter(sample.ends) for sample in found), Counter[str]())
    said = ", ".join(f"{count} × {code}" for code, count in errors.items())
    return Row(
        measured=f"{MANY_CLIENTS} clients, each with its own connection, {TITLES[design]}: errors",
        value=interval([float(sum(errors.values()))]) if requests else None,
        at_most=0,
        note=f"{requests} requests; jobs: {', '.join(f'{count} {name}' for name, count in ends.items())}"
        + (f"; {said}" if said else ""),
    )


def _done_row(samples: Sides, design: str) -> Row:
    times = merged(samples.get(f"{design} idle", ()), "submit_to_done")
    hops = DESIGNS[design].hops
    return Row(
        measured=f"submit to done of a 0 ms job, idle, {TITLES[design]}"
        f" ({hops['submit'].count} + {hops['run'].count} hops): p50",
        value=interval([times.milliseconds(50)]) if times.count else None,
        unit=" ms",
        note=f"p99 {times.milliseconds(99):.0f} ms",
    )
