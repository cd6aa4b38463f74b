from holdfast.designs.evaluation.findings import findings
from holdfast.designs.evaluation.reasons import generator_notes, reasons
from holdfast.designs.evaluation.summary import Summary
from holdfast.designs.evaluation.words import number
from tests.unit.designs.evaluation.making import journey, mix, rounds, sample

CELL = mix(16)


def said_of(a: list[float], b: list[float]) -> str:
    return "\n".join(findings(Summary.of([*rounds("a", CELL, a), *rounds("b", CELL, b)])))


def test_a_clear_difference_is_claimed_with_its_interval() -> None:
    said = said_of([100, 102, 98, 101, 99], [300, 309, 297, 300, 294])
    assert "Design B got through 3 times (95 %: 2.9" in said
    assert "as many requests a second as Design A" in said


def test_a_difference_that_chance_explains_is_not_claimed() -> None:
    said = said_of([100, 140, 60, 120, 90], [110, 90, 130, 80, 120])
    assert "cannot be told apart" in said
    assert "got through" not in said


def test_the_larger_one_is_named_first() -> None:
    said = said_of([300, 309, 297, 300, 294], [100, 102, 98, 101, 99])
    assert "Design A got through 3 times" in said


def test_one_round_claims_nothing() -> None:
    said = said_of([100], [300])
    assert "got through" not in said
    assert "one round only" in said


def test_hops_stand_beside_every_figure() -> None:
    for line in findings(Summary.of([sample("a", CELL), sample("b", CELL)])):
        assert "hops" in line or line.startswith(("**Errors**", "**Memory**"))


def test_errors_are_added_by_code() -> None:
    broken = sample("a", CELL, errors={"submit UNAVAILABLE": 3})
    said = "\n".join(findings(Summary.of([broken, sample("b", CELL)])))
    assert "**Errors** of Design A, all cells and rounds: 3 × submit UNAVAILABLE." in said
    assert "**Errors** of Design B, all cells and rounds: none." in said


def test_the_reason_names_the_cost_of_a_hop_and_who_used_the_machine() -> None:
    full = sample("a", CELL, design_cpu_seconds=3.0, generator_cpu_seconds=0.9)
    idle = sample("b", CELL, design_cpu_seconds=0.5, generator_cpu_seconds=0.2)
    said = "\n".join(reasons(Summary.of([full, idle])))
    assert "A hop costs about 1 ms" in said
    assert "Design A: 1.5 cores by the design and 0.45 by the load generator, of 2; the machine was full" in said
    assert "Design B: 0.25 cores by the design and 0.1 by the load generator, of 2; the machine was not full" in said


def test_a_generator_at_its_limit_is_named() -> None:
    busy = sample("b", CELL, generator_cpu_seconds=1.9)
    assert generator_notes(Summary.of([busy])) == ["reads, 16 clients, Design B: the generator used 0.95 cores"]
    assert generator_notes(Summary.of([sample("b", CELL)])) == []


def test_numbers_have_three_digits() -> None:
    assert [number(value) for value in (0.01234, 1.2345, 12.345, 123.45, 12345.6)] == [
        "0.0123",
        "1.23",
        "12.3",
        "123",
        "12,346",
    ]


def test_the_cost_of_durability_is_what_the_durable_engine_takes_more() -> None:
    said = "\n".join(reasons(Summary.of([sample("b", CELL), sample("durable", CELL)])))
    assert "Durability costs about 1 ms a submit" in said


def test_an_open_loop_is_told_at_its_highest_rate() -> None:
    cells = [journey(0, loop="open", rate=rate, job_ms=100, workload="arrivals") for rate in (20.0, 50.0)]
    summary = Summary.of([sample(design, cell) for design in ("a", "b") for cell in cells])
    assert any(line.startswith("**arrivals, 50 a second, jobs of 100 ms**, open loop") for line in findings(summary))
    assert any("one queue before all its slots" in line for line in reasons(summary))
