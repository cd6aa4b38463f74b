"""The curves: what each is about, how it is run, and what its table shows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from benchmarks.curves.flame.measure import measure_flame
from benchmarks.curves.measures.cost import measure_cost
from benchmarks.curves.measures.growth import CLAIMS, measure_backlog, measure_history, measure_queues
from benchmarks.curves.measures.open_loop import DONE, measure_open_loop
from benchmarks.curves.measures.shapes import measure_batch, measure_concurrency, measure_payload
from benchmarks.curves.session import Session
from benchmarks.peers.report import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    name: str
    about: str
    axis: str
    """What is varied; empty where nothing is drawn."""
    seconds: float
    """What it takes with the full sizes, for the time left."""
    run: Callable[[Session], None]
    columns: tuple[Column, ...]
    wait: str = "submit to start"


def _rate(name: str, title: str = "jobs/s") -> Column:
    return Column(title=title, measure=name, figures=("rate",), has_spread=True)


def _waits(name: str, title: str, *, percents: tuple[float, ...] = (50, 99)) -> tuple[Column, Column]:
    said = " / ".join(f"p{percent:g}" for percent in percents)
    return (
        Column(title=f"{title} ms, {said}", measure=name, figures=(), percents=percents, digits=2),
        Column(title="waits a round", measure=name, figures=("waits",)),
    )


def _cpu(name: str) -> Column:
    return Column(title="CPU s/1000 jobs: worker + server", measure=name, figures=("worker_cpu", "store_cpu"), digits=3)


CURVES: Final = (
    Curve(
        name="cost",
        about="what a job costs: CPU, transactions, log; what a commit costs",
        axis="",
        seconds=45,
        run=measure_cost,
        columns=(
            _rate("cost", "jobs/s, or commits/s"),
            Column(title="client or worker CPU, µs/job", measure="cost", figures=("client_cpu",), digits=1),
            Column(title="server CPU, µs/job", measure="cost", figures=("server_cpu",), digits=1),
            Column(title="transactions/1000 jobs", measure="cost", figures=("transactions",), digits=1),
            Column(title="log bytes/job", measure="cost", figures=("bytes",)),
            Column(title="µs a commit", measure="cost", figures=("commit_microseconds",)),
        ),
    ),
    Curve(
        name="backlog",
        about="jobs/s within a backlog; the wait of a HIGH job submitted into it; a claim of ten",
        axis="jobs that wait",
        seconds=120,
        run=measure_backlog,
        columns=(
            _rate("backlog"),
            *_waits("backlog", "HIGH job, submit to start"),
            _waits(CLAIMS, "claim of 10")[0],
            _cpu("backlog"),
        ),
        wait="HIGH job, submit to start",
    ),
    Curve(
        name="history",
        about="jobs/s and waits with ended jobs in the database",
        axis="ended jobs",
        seconds=180,
        run=measure_history,
        columns=(_rate("history"), *_waits("history", "submit to start"), _cpu("history")),
    ),
    Curve(
        name="queues",
        about="jobs/s and waits with jobs spread over queues, all served by one worker",
        axis="queues",
        seconds=70,
        run=measure_queues,
        columns=(_rate("queues"), *_waits("queues", "submit to start"), _cpu("queues")),
    ),
    Curve(
        name="payload",
        about="jobs/s, MB/s and waits by the size of the payload",
        axis="bytes of payload",
        seconds=105,
        run=measure_payload,
        columns=(
            _rate("payload"),
            Column(title="MB/s", measure="payload", figures=("megabytes",), digits=1),
            Column(title="submitted jobs/s", measure="payload", figures=("submitted",)),
            Column(title="submitted MB/s", measure="payload", figures=("submitted_megabytes",), digits=1),
            *_waits("payload", "submit to start"),
            _cpu("payload"),
        ),
    ),
    Curve(
        name="batch",
        about="jobs/s and time a call by the size of a submit_many, and of a claim",
        axis="jobs a call",
        seconds=70,
        run=measure_batch,
        columns=(_rate("batch"), *_waits("batch", "a call")),
        wait="a call",
    ),
    Curve(
        name="concurrency",
        about="jobs/s and waits by the worker's concurrency",
        axis="jobs at a time",
        seconds=120,
        run=measure_concurrency,
        columns=(_rate("concurrency"), *_waits("concurrency", "submit to start"), _cpu("concurrency")),
    ),
    Curve(
        name="open-loop",
        about="arrivals on a schedule at 30, 60 and 90 % of the peak",
        axis="% of the peak",
        seconds=95,
        run=measure_open_loop,
        columns=(
            Column(title="arrivals/s", measure="open-loop", figures=("offered",)),
            _rate("open-loop"),
            *_waits("open-loop", "submit to start", percents=(50, 99, 99.9)),
            _waits(DONE, "submit to done", percents=(50, 99, 99.9))[0],
            Column(title="late arrivals, %", measure="open-loop", figures=("late_percent",), digits=2),
        ),
    ),
    Curve(
        name="flame",
        about="flame graphs of the worker that drains",
        axis="",
        seconds=35,
        run=measure_flame,
        columns=(Column(title="samples", measure="flame", figures=("samples",)),),
    ),
)
