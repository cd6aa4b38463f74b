"""The page has a table a curve, and says what failed; the data has every round."""

import json

import pytest

from benchmarks.curves import report
from benchmarks.curves.catalogue import CURVES
from benchmarks.curves.command import main
from benchmarks.curves.flame.fold import Stack
from benchmarks.curves.flame.measure import flame_of
from benchmarks.curves.measures.common import waits_of
from benchmarks.curves.session import QUICK, Point, peer_of
from benchmarks.peers.ledger import Entry
from benchmarks.peers.samples import Failure, Results, Sample


@pytest.fixture
def run() -> report.Run:
    points = [Point(series="PostgreSQL", x=0), Point(series="PostgreSQL", x=1_000_000)]
    results = Results(failures=[Failure(variant=points[1].name, measure="history", why="the worker ended")])
    for rate in (1000.0, 1200.0):
        figures = {"rate": rate, "waits": 2, "worker_cpu": 0.05, "store_cpu": 0.04}
        results.add("history", points[0].name, Sample(figures=figures, waits=[0.001, 0.002]))
    results.add("history", points[1].name, None)
    stacks: dict[Stack, int] = {("Executor._run (holdfast/worker/executor.py)", "write (libc.so.6)"): 4}
    return report.Run(
        command="python -m benchmarks.curves",
        sizes=QUICK,
        is_partial=True,
        curves=[curve for curve in CURVES if curve.name in {"history", "flame"}],
        points={"history": points},
        results=results,
        flames=[flame_of("PostgreSQL", stacks)],
        seconds=1.0,
        settings={"fsync": "on"},
    )


def test_the_page_tells_everything(run: report.Run) -> None:
    text = report.page(run, ["curves-history.svg"])
    for wanted in (
        "| PostgreSQL | 0 | 1,100 (1,000–1,200) | 1.00 / 2.00 | 2 | 0.050 + 0.040 |",
        "| PostgreSQL | 1,000,000 |  |  |  |  |",
        "- PostgreSQL, 1,000,000, history: the worker ended",
        "![history](curves-history.svg)",
        "![PostgreSQL](flame-postgresql.svg)",
        "| holdfast.worker | 100.0% |",
        "| `write (libc.so.6)` | 100.0% | 100.0% |",
        "- fsync: on",
    ):
        assert wanted in text


def test_the_data_has_every_round_and_the_percentiles_of_all(run: report.Run) -> None:
    data = json.loads(json.dumps(report.as_data(run)))
    first, second = data["curves"]["history"]["points"]
    assert [sample["rate"] for sample in first["rounds"]] == [1000.0, 1200.0]
    assert first["waits"] == {"count": 4, "p50": 1.0, "p99": 2.0, "p99.9": 2.0}
    assert (second["rounds"], second["waits"]) == ([], {})


def test_a_run_in_which_a_point_failed_does_not_hold(run: report.Run) -> None:
    assert not run.holds
    run.results.failures.clear()
    assert run.holds


def test_the_worker_is_at_its_defaults_but_for_what_a_point_varies() -> None:
    plain, varied = Point(series="a", x=1), Point(series="a", x=1, worker=("--concurrency", "3"))
    assert peer_of(plain).variant.worker == ("{bin}/holdfast", "worker", "benchmarks.curves.app:app")
    assert peer_of(varied).variant.worker[3:] == ("--concurrency", "3")


def test_waits_in_a_backlog_are_of_jobs_that_came_while_it_lasted() -> None:
    entries = [
        Entry(submitted=0.0, started=1.0),
        Entry(submitted=1.5, started=1.75),
        Entry(submitted=0.0, started=2.0),
        Entry(submitted=2.5, started=2.6),
    ]
    assert waits_of(entries) == [0.25]


def test_the_list_names_every_curve(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    said = capsys.readouterr().out
    assert [line.split()[0] for line in said.splitlines()] == [curve.name for curve in CURVES]
