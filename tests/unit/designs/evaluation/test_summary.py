from pathlib import Path

import pytest

from holdfast.core.errors import ConfigError
from holdfast.designs.evaluation import samples
from holdfast.designs.evaluation.designs import DESIGNS
from holdfast.designs.evaluation.hops import fit_hops, heaviest, lightest
from holdfast.designs.evaluation.summary import Summary
from tests.unit.designs.evaluation.making import journey, mix, rounds, sample


def test_figures_follow_from_the_counts() -> None:
    figures = sample().figures()
    assert figures["requests_per_second"] == 100
    assert figures["jobs_per_second"] == 10
    assert figures["submit_p50_ms"] == pytest.approx(3, rel=0.01)
    assert figures["cpu_ms_per_request"] == pytest.approx(5)
    assert figures["cpu_ms_per_job"] == pytest.approx(50)
    assert figures["generator_share"] == pytest.approx(1 / 3)
    assert figures["other_share"] == 0


def test_jobs_a_second_are_not_claimed_where_ends_are_unknown() -> None:
    figures = sample(ends={"done": 20, "unknown": 10}).figures()
    assert "jobs_per_second" not in figures
    assert "cpu_ms_per_job" not in figures


def test_what_was_not_seen_is_left_out() -> None:
    figures = sample(design_cpu_seconds=None, memory_mib=None, other_cpu_seconds=None).figures()
    assert not {"cpu_ms_per_request", "memory_mib", "generator_share", "other_share"} & figures.keys()
    assert figures["generator_cores"] == pytest.approx(0.25)


def test_ratios_need_both_designs_in_a_round() -> None:
    cell = mix(16)
    summary = Summary.of([*rounds("a", cell, [100, 200, 300]), *rounds("b", cell, [300, 600])])
    found = summary.ratio(cell, "b", "a", "requests_per_second")
    assert found is not None
    assert found.rounds == 2
    assert found.mean == pytest.approx(3)


def test_cells_of_a_workload_come_in_the_order_of_their_load() -> None:
    summary = Summary.of([sample(cell=mix(clients)) for clients in (16, 1, 4)])
    assert [cell.clients for cell in summary.cells_of("reads")] == [1, 4, 16]
    assert lightest(summary)[0].clients == 1
    found = heaviest(summary, "mix")
    assert found is not None
    assert found.clients == 16


def test_the_cost_of_a_hop_is_the_slope_over_operations() -> None:
    fit = fit_hops(Summary.of([sample("a"), sample("b"), sample("durable")]))
    assert fit is not None
    assert fit.each_ms == pytest.approx(1.0, rel=0.01)
    assert fit.base_ms == pytest.approx(0.0, abs=0.01)
    assert fit_hops(Summary.of([sample("b")])) is None


def test_samples_written_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    written = [sample("a"), sample("b", journey(4, job_ms=50))]
    for one in written:
        samples.append(path, one)
    assert samples.read(path) == written


def test_a_folder_without_samples_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is this the folder of an evaluation"):
        samples.read(tmp_path / "samples.jsonl")
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(ConfigError, match="does not hold"):
        samples.read(tmp_path / "other.jsonl")


def test_the_hops_are_those_that_the_services_document() -> None:
    text = (Path(__file__).parents[4] / "src/holdfast/designs/services/README.md").read_text(encoding="utf-8")
    table = text.partition("## Calls of an operation")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
    ]
    calls = {name: len(design_a.split(",")) for name, design_a, _ in rows[2:]}
    hops = DESIGNS["a"].hops
    assert {name: one.count for name, one in hops.items()} == {
        "submit": 1 + calls["submit"],
        "status": 1 + calls["status"],
        "result": 1 + calls["result"],
        "run": calls["to a worker"] + calls["to its end"],
    }
