import json
from pathlib import Path

import pytest

from holdfast.designs.evaluation.facts import about_machine
from holdfast.designs.evaluation.histograms import Times
from holdfast.designs.evaluation.speed_report import cells_of, write_speed
from holdfast.designs.evaluation.speed_rows import Row, Sides, make_rows
from holdfast.designs.evaluation.statistics import interval
from tests.unit.designs.evaluation.making import journey, mix, rounds, sample

CELL = mix(16, workload="submits")
ROUNDS = 5


def submits(p50_ms: float) -> list:
    times = {"submit": Times([round(p50_ms * 1000)] * 50).encode()}
    return [sample("x", CELL, round=number, times=times) for number in range(ROUNDS)]


def sides(node: float = 800.0, gateway_ms: float = 3.3, wait_ms: int = 4, errors: int = 0) -> Sides:
    idle = {"queue_wait": Times([wait_ms * 1000] * 30).encode()}
    found = {
        "echo": rounds("x", CELL, [1000, 1100, 900, 1000, 1000]),
        "node": rounds("x", CELL, [node, node * 1.1, node * 0.9, node, node]),
        "node running": rounds("x", CELL, [500] * ROUNDS),
        "chain": submits(3.0),
        "single echo": submits(1.0),
        "gateway": submits(gateway_ms),
    }
    for design in ("a", "b"):
        found[f"{design} idle"] = [sample(design, journey(), **idle)]
        found[f"{design} many"] = [sample(design, errors={"submit UNAVAILABLE": errors} if errors else {})]
    return found


def test_all_that_is_required_holds() -> None:
    table = make_rows(sides(), {"a": 0.01, "b": 0.02}, ["a", "b"])
    assert [row.holds for row in table if row.required] == [True] * 6
    assert len([row for row in table if not row.required]) == 4
    assert table[0].value is not None
    assert table[0].value.mean == pytest.approx(0.8, rel=0.01)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"node": 600.0}, "requests/s to the echo's"),
        ({"gateway_ms": 4.5}, "p50 to that of 3 echo calls"),
        ({"wait_ms": 40}, "queue wait"),
        ({"errors": 1}, "errors"),
    ],
)
def test_what_does_not_hold_is_seen(broken: dict, said: str) -> None:
    table = make_rows(sides(**broken), {}, ["a", "b"])
    failing = [row for row in table if row.holds is False]
    assert failing
    assert all(said in row.measured for row in failing)


def test_what_is_required_and_was_not_measured_does_not_hold() -> None:
    assert [row.holds for row in make_rows({}, {}, ["a", "b"]) if row.required] == [False] * 6


def test_the_limits_themselves_hold() -> None:
    assert Row(measured="x", value=interval([0.7]), at_least=0.7).holds
    assert Row(measured="x", value=interval([1.3]), at_most=1.3).holds
    assert Row(measured="x", value=interval([1.31]), at_most=1.3).holds is False
    assert Row(measured="x", value=interval([9.0])).holds is None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0.9, 0.91, 0.9], "yes"),
        ([0.9, 0.6, 0.9], "yes (interval reaches past the limit)"),
        ([0.5, 0.8, 0.5], "no (interval reaches past the limit)"),
        ([0.5, 0.51, 0.5], "no"),
        ([0.9], "yes"),
    ],
)
def test_the_mean_decides_and_an_interval_across_the_limit_is_said_so(values: list[float], said: str) -> None:
    row = Row(measured="x", value=interval(values), at_least=0.7)
    assert cells_of(row)[4] == said
    assert row.holds is said.startswith("yes")


def test_the_cpu_of_server_and_generator_stands_beside_the_rate() -> None:
    row = make_rows(sides(), {}, ["b"])[0]
    assert "echo: 1,000 requests/s" in row.note
    assert "µs CPU a request" in row.note
    assert "load generator 0.25" in row.note


def test_the_table_is_written_for_people_and_programs(tmp_path: Path) -> None:
    table = make_rows(sides(node=600.0), {}, ["a", "b"])
    facts = {"command": "holdfast eval --speed", "started_at": "2026-11-16 09:00 UTC", "machine": about_machine()}
    write_speed(tmp_path, table, checks=[], rounds=ROUNDS, **facts)  # type: ignore[arg-type]
    data = json.loads((tmp_path / "speed.json").read_text())
    assert data[0]["holds"] is False
    assert "| ≥ 0.7 | 0.60 |" in (tmp_path / "report.md").read_text()
    assert "**no**" in (tmp_path / "report.md").read_text()
    assert "<strong>no</strong>" in (tmp_path / "report.html").read_text()
