import pytest

from holdfast.designs.evaluation import fairness
from holdfast.designs.evaluation.fairness import Idleness, UnfairRun, require, slots_seen
from tests.unit.designs.evaluation.making import sample


def waves(slots: int, jobs: int, milliseconds: int) -> list[int]:
    return [1000 + milliseconds * (number // slots) + number % slots for number in range(jobs)]


@pytest.mark.parametrize("slots", [1, 6, 8])
def test_slots_are_counted_from_what_began_before_anything_can_have_ended(slots: int) -> None:
    assert slots_seen(waves(slots, 12, 300), job_ms=300) == slots


def test_no_jobs_are_no_slots() -> None:
    assert slots_seen([], job_ms=300) == 0


def test_other_slots_than_promised_are_refused() -> None:
    wrong = fairness.check_slots("a", slots=6, seen=12)
    with pytest.raises(UnfairRun, match="12 jobs ran at once"):
        require([wrong])
    require([fairness.check_slots("a", slots=6, seen=6)])


def test_what_is_forced_goes_on_and_stays_on_record() -> None:
    wrong = fairness.check_slots("b", slots=6, seen=3)
    require([wrong], force=True)
    assert not wrong.holds


def test_ingress_is_one_gateway_or_six_different_nodes() -> None:
    nodes = [f"127.0.0.1:{5000 + number}" for number in range(6)]
    assert fairness.check_targets("a", nodes[:1]).holds
    assert not fairness.check_targets("a", nodes).holds
    assert fairness.check_targets("b", nodes).holds
    assert not fairness.check_targets("b", nodes[:5]).holds
    assert not fairness.check_targets("b", [*nodes[:5], nodes[0]]).holds


def test_slots_that_cannot_be_split_evenly_are_refused() -> None:
    assert fairness.check_split("b", 12).holds
    assert not fairness.check_split("b", 7).holds
    assert fairness.check_split("a", 7).holds


def test_submits_that_do_not_go_round_are_noticed() -> None:
    even = sample("b", sent={"submit": [5, 5, 4, 4, 4, 4], "status": [0] * 6, "result": [0] * 6})
    uneven = sample("b", sent={"submit": [26, 0, 0, 0, 0, 0], "status": [0] * 6, "result": [0] * 6})
    assert fairness.check_round_robin(even, generators=1).holds
    assert not fairness.check_round_robin(uneven, generators=1).holds


@pytest.mark.parametrize(
    ("busy", "load", "holds"), [(0.02, 0.3, True), (0.4, 0.3, False), (0.02, 3.0, False), (0.1, 1.0, True)]
)
def test_a_busy_machine_is_refused(busy: float, load: float, holds: bool) -> None:
    assert Idleness(busy_share=busy, load_average=load, cores=2).check().holds is holds


def test_cells_in_which_others_were_busy_are_named() -> None:
    quiet, noisy = sample("a", other_cpu_seconds=0.1), sample("b", other_cpu_seconds=1.0)
    assert fairness.disturbed([quiet, noisy]) == {"Design B, reads-c1-j0": 0.25}
