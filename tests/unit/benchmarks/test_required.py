"""What is required, and what samples say about it."""

from benchmarks.figures import Figure, Missing
from benchmarks.peers.catalogue import read_systems
from benchmarks.peers.required import FASTEST, REQUIRED, Bound, Cost, Rates, Rule, Waits, findings
from benchmarks.peers.samples import Failure, Results, Sample

MANY = 2000


def drained(**rates: float) -> Results:
    samples: dict[str, list[Sample | None]] = {
        name.replace("_", "-"): [Sample(figures={"rate": rate})] * 3 for name, rate in rates.items()
    }
    return Results(samples={"drain": samples})


def waited(measure: str = "latency", **milliseconds: float) -> Results:
    samples: dict[str, list[Sample | None]] = {
        name.replace("_", "-"): [Sample(figures={"p50": value, "p99": value}, waits=[value / 1000] * MANY)]
        for name, value in milliseconds.items()
    }
    return Results(samples={measure: samples})


def only(results: Results, measure: str, *names: str) -> list[Figure | Missing]:
    known = set(names) or {name for variants in results.samples.values() for name in variants}
    return findings(results, [measure], known)


def test_a_rate_must_be_so_many_times_the_other_one() -> None:
    fast, slow = (only(drained(holdfast=rate, pgqueuer=100.0), "drain")[0] for rate in (250.0, 249.0))
    assert isinstance(fast, Figure)
    assert isinstance(slow, Figure)
    assert (fast.value.median, fast.holds, slow.holds) == (2.5, True, False)


def test_the_fastest_setting_of_a_system_counts() -> None:
    found = only(drained(holdfast=2000.0, celery_redis=100.0, celery_rabbitmq=210.0), "drain")
    (figure,) = [one for one in found if "celery" in one.measured]
    assert isinstance(figure, Figure)
    assert "celery-rabbitmq" in figure.measured
    assert figure.holds is False


def test_what_was_not_asked_for_is_not_missed() -> None:
    assert only(drained(pgqueuer=1.0), "drain") == []
    assert only(drained(holdfast=1.0), "submits") == []


def test_what_was_asked_for_and_failed_is_missing_and_says_why() -> None:
    results = drained(holdfast=100.0)
    results.failures.append(Failure(variant="pgqueuer", why="cannot be installed: no index"))
    found = only(results, "drain", "holdfast", "pgqueuer")
    assert found
    assert all(isinstance(one, Missing) and "no index" in one.why for one in found)


def test_the_best_postgres_peer_in_waits_is_the_one_that_waits_least() -> None:
    found = only(waited(holdfast=3.0, pgqueuer=4.0, graphile_worker=2.9), "latency")
    assert [one.holds for one in found if isinstance(one, Figure)] == [False, True]  # p50 ≤ 1 ×, p99 ≤ 1.1 ×
    assert all("graphile-worker" in one.measured for one in found)


def test_a_p99_needs_many_waits() -> None:
    sample = Sample(figures={"p50": 1.0, "p99": 1.0}, waits=[0.001] * (MANY - 1))
    found = only(Results(samples={"latency": {"holdfast": [sample], "pgqueuer": [sample]}}), "latency")
    assert [type(one) for one in found] == [Figure, Missing]


def test_an_idle_worker_is_judged_by_itself() -> None:
    sample = Sample(figures={"statements": 61.0, "core_percent": 0.5})
    found = only(Results(samples={"rest": {"holdfast": [sample] * 5}}), "rest")
    assert [one.holds for one in found if isinstance(one, Figure)] == [False, True]


def test_less_cpu_and_memory_is_better() -> None:
    ours, theirs = (Sample(figures={"cpu": cpu, "memory": memory}) for cpu, memory in ((0.9, 50.0), (1.0, 30.0)))
    found = only(Results(samples={"drain": {"holdfast": [ours], "pgqueuer": [theirs]}}), "drain")
    costs = {one.measured: one.holds for one in found if isinstance(one, Figure)}
    assert list(costs.values()) == [True, False]


def named(rule: Rule) -> set[str]:
    match rule:
        case Rates():
            others = {other for name in rule.at_least for other in FASTEST.get(name, (name,))}
            return {rule.ours, *others}
        case Waits():
            return {rule.ours, *rule.others}
        case Cost():
            return {rule.other}
        case Bound():
            return {rule.ours}


def test_every_system_that_a_requirement_names_is_measured_for_it() -> None:
    measures = {variant.name: variant.measures for system in read_systems() for variant in system.variants}
    for measure, about, rule in REQUIRED:
        for name in named(rule):
            assert measure in measures[name], f"{about}: {name} is not measured"
