"""The page says what was measured, what is required, what failed and who was left out."""

import json
from pathlib import Path

import pytest

from benchmarks.figures import Figure, Missing
from benchmarks.peers import report
from benchmarks.peers.catalogue import read_systems
from benchmarks.peers.ledger import ENTRY, Ledger
from benchmarks.peers.runs import FULL
from benchmarks.peers.samples import Failure, Results, Sample
from benchmarks.rounds import Ratio


@pytest.fixture
def run() -> report.Run:
    systems = [system for system in read_systems() if system.name in {"holdfast", "pgqueuer"}]
    drain = {
        "rate": 1234.5,
        "jobs": 100,
        "kept": 100,
        "run_again": 2,
        "worker_cpu": 0.1,
        "store_cpu": 0.05,
        "memory": 9,
    }
    samples: dict[str, dict[str, list[Sample | None]]] = {
        "drain": {"holdfast": [Sample(figures=drain)], "pgqueuer": [None]},
        "latency": {"holdfast": [Sample(figures={"p50": 1.0, "p99": 2.0}, waits=[0.001, 0.002])]},
    }
    failure = Failure(variant="pgqueuer", measure="drain", why="the worker ended")
    return report.Run(
        command="python -m benchmarks.peers",
        sizes=FULL,
        rounds=1,
        is_partial=True,
        systems=systems,
        results=Results(samples=samples, failures=[failure]),
        left_out={"Oban": "it needs Python 3.12"},
        seconds=1.0,
        settings={"fsync": "on"},
        findings=[
            Figure(measured="a rate", value=Ratio(median=2.0, low=1.9, high=2.1, rounds=5), at_least=1.5),
            Missing(measured="another", why="the worker ended"),
        ],
    )


def test_the_page_tells_everything(run: report.Run) -> None:
    text = report.page(run, ["peers-drain.svg"])
    for wanted in (
        "| a rate | 2.00 | ≥ 1.5 | yes | 1.90 … 2.10 | 5 |",
        "| another | missing |  | NO |  |  |",
        "| holdfast | 1,234 | 0.100 + 0.050 | 9 | 1.0 / 2.0 |",
        "(100 rows after a drain of 100)",
        "- Oban: left out, it needs Python 3.12",
        "- pgqueuer, drain: the worker ended",
        "- holdfast: 2 handlers ran a second time",
        "- fsync: on",
        "![peers-drain](peers-drain.svg)",
    ):
        assert wanted in text


def test_the_data_has_every_round_and_the_failed_ones_as_null(run: report.Run) -> None:
    data = json.loads(json.dumps(report.as_data(run)))
    assert data["samples"]["drain"]["pgqueuer"] == [None]
    assert data["samples"]["drain"]["holdfast"][0]["rate"] == 1234.5
    assert data["samples"]["latency"]["holdfast"][0]["waits_microseconds"] == "1000 2000"


def test_what_is_missing_does_not_hold(run: report.Run) -> None:
    assert not run.holds
    run.findings = run.findings[:1]
    assert run.holds


def test_a_ledger_counts_whole_entries_only(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.path.write_bytes(ENTRY.pack(1_000_000, 3_000_000) + ENTRY.pack(2_000_000, 2_500_000)[:9])
    assert ledger.count == 1
    (entry,) = ledger.entries()
    assert entry.wait_seconds == 2.0
